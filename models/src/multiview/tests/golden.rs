//! Values of PyTorch (`scripts/reference/multiview_golden.py`): latents, losses, every gradient and
//! three steps of `AdamW`, to 1e-5 of each tensor's largest value.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};

use super::super::ops::unit_rows;
use super::super::{
    Encoder, EncoderConfig, Loss, LossWeights, Presence, SLOTS, TrainConfig, ViewBatch, contrastive,
    prediction, reconstruction, total,
};
use super::{masked, small, values};
use crate::optim::AdamW;

const GOLDEN: &[u8] = include_bytes!("../../../../tests/golden/multiview/encoder.safetensors");

struct Golden(BTreeMap<String, Tensor>);

impl Golden {
    fn load() -> Self {
        Self(candle_core::safetensors::load_buffer(GOLDEN, &Device::Cpu).unwrap().into_iter().collect())
    }

    fn encoder(&self) -> Encoder {
        let config = EncoderConfig { dropout: 0.0, ..small() };
        Encoder::from_tensors(config, &self.under("param.")).unwrap()
    }

    fn under(&self, prefix: &str) -> BTreeMap<String, Tensor> {
        let named = self.0.iter().filter_map(|(name, t)| Some((name.strip_prefix(prefix)?, t)));
        named.map(|(name, t)| (name.to_owned(), t.clone())).collect()
    }

    fn batch(&self, present: Vec<Presence>) -> ViewBatch {
        ViewBatch::new(SLOTS.map(|slot| self.0[&format!("x.{slot}")].clone()), present).unwrap()
    }

    fn agrees(&self, name: &str, found: &Tensor) {
        let (found, expected) = (values(found), values(&self.0[name]));
        assert_eq!(found.len(), expected.len(), "{name}");
        let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
        for (f, e) in found.iter().zip(&expected) {
            assert!((f - e).abs() <= 1e-5 * largest, "{name}: {f} for {e}, largest {largest}");
        }
    }
}

fn cases() -> [(&'static str, Vec<Presence>); 2] {
    [("full", vec![[true; 3]; 7]), ("masked", masked())]
}

fn losses(encoder: &Encoder, batch: &ViewBatch) -> Vec<(&'static str, Loss)> {
    let z = encoder.views(batch, None).unwrap();
    let unit = [0, 1, 2].map(|v| unit_rows(&z[v]).unwrap());
    let con = contrastive(&z, batch.present(), 0.1, false).unwrap();
    let own = contrastive(&z, batch.present(), 0.1, true).unwrap();
    let pred = prediction(&unit, &encoder.predict(&unit).unwrap(), batch.present()).unwrap();
    let rec = reconstruction(&encoder.decode(&z).unwrap(), batch.x(), batch.present()).unwrap();
    let weights = LossWeights { prediction: 0.1, reconstruction: 0.05 };
    let all = total(&con, Some(&pred), Some(&rec), weights).unwrap();
    let names = ["contrastive", "contrastive_self", "prediction", "reconstruction", "total"];
    names.into_iter().zip([con, own, pred, rec, all]).collect()
}

#[test]
fn the_mask_is_the_scripts() {
    let expected: Vec<f64> = masked().into_iter().flatten().map(|p| f64::from(u8::from(p))).collect();
    assert_eq!(values(&Golden::load().0["present.masked"]), expected);
}

#[test]
fn latents_agree() {
    let golden = Golden::load();
    for (case, present) in cases() {
        let latents = golden.encoder().encode(&golden.batch(present.clone())).unwrap();
        for (slot, name) in SLOTS.iter().enumerate() {
            // The script encodes what stands in absent rows, this encoder does not read it.
            let rows: Vec<u32> = (0..7).filter(|row| present[*row as usize][slot]).collect();
            let index = Tensor::new(rows, &Device::Cpu).unwrap();
            let pick = |t: &Tensor| t.index_select(&index, 0).unwrap();
            let expected = pick(&golden.0[&format!("{case}.z.{name}")]);
            let one = Golden(BTreeMap::from([("z".to_owned(), expected)]));
            one.agrees("z", &pick(&latents.views[slot]));
        }
        golden.agrees(&format!("{case}.fused"), &latents.fused);
        golden.agrees(&format!("{case}.fused_unit"), &latents.fused_unit);
        golden.agrees(&format!("{case}.subgroup_unit"), &latents.subgroup_unit);
    }
}

#[test]
fn losses_and_gradients_agree() {
    let golden = Golden::load();
    let encoder = golden.encoder();
    for (case, present) in cases() {
        for (name, loss) in losses(&encoder, &golden.batch(present)) {
            golden.agrees(&format!("{case}.loss.{name}"), &loss.loss);
            let grads = loss.loss.backward().unwrap();
            let expected = golden.under(&format!("{case}.grad.{name}."));
            assert!(!expected.is_empty());
            for parameter in expected.keys() {
                let grad = grads.get(&encoder.vars()[parameter]).unwrap_or_else(|| panic!("{parameter}"));
                golden.agrees(&format!("{case}.grad.{name}.{parameter}"), grad);
            }
        }
    }
}

#[test]
fn three_optimizer_steps_agree() {
    let golden = Golden::load();
    let encoder = golden.encoder();
    let config = TrainConfig { lr: 1e-2, ..TrainConfig::default() };
    let mut optimizer = AdamW::new(config.optimizer());
    let batch = golden.batch(masked());
    for step in 1..=3 {
        let loss = encoder.losses(&batch, &config, None).unwrap();
        optimizer.step(encoder.vars(), &loss.loss.backward().unwrap()).unwrap();
        for (name, tensor) in encoder.tensors().unwrap() {
            golden.agrees(&format!("step{step}.{name}"), &tensor);
        }
    }
    assert_eq!(optimizer.steps(), 3);
}
