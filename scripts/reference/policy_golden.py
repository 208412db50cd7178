"""Golden values of the policies (Llama, Qwen2, Qwen3), LoRA, sampling and optimisation, from transformers and PEFT.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers peft safetensors
    /tmp/venv/bin/python scripts/reference/policy_golden.py [tests/golden/policy]

Writes one folder for each tiny random model, and sampling.json and optimizer.json beside them. Weights are f32;
everything computed from them is computed in f64 (the places where transformers goes back to f32 are replaced) and
stored as f32, so that a difference is the tested code's own. The stock f32 model is checked to agree.
"""

import json
import pathlib
import shutil
import sys
import types

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)

VOCAB, LENGTHS, STARTS, NEW_TOKENS = 96, [13, 7, 20], [6, 1, 9], 8
TEMPERATURES = {"t1": 1.0, "t0.7": 0.7}
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "attention_dropout": 0.0,
}
# The scaling's borders are chosen so that of the four frequencies one is kept, one blended and two divided.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**COMMON, rms_norm_eps=1e-5, tie_word_embeddings=False,
                                            rope_parameters=LLAMA3 | {"rope_theta": 10000.0})),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**COMMON, rms_norm_eps=1e-6, tie_word_embeddings=True,
                                            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**COMMON, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True,
                                            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
}
SHARDED = "qwen2"


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def write_tensors(path, tensors):
    save_file({name: t.detach().to(torch.float32).contiguous().clone() for name, t in sorted(tensors.items())}, path,
              metadata={"format": "pt"})


# ---------------------------------------------------------------- models

def randomise(model, generator):
    """Weights N(0, 0.2), norms about 1, biases N(0, 0.2): nothing is left at a value that hides a mistake."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.2
            parameter.copy_(noise + 1.0 if "norm" in name else noise)


def rms_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def rotary(self, x, position_ids):
    angles = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling


def double(model):
    """The model in f64 throughout."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = types.MethodType(rms_norm, module)
        elif type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = types.MethodType(rotary, module)
    return model.double().eval()


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()


def old_spelling(config):
    """The same configuration as transformers 4 wrote it, which is how most published models look."""
    old = dict(config)
    rope = dict(old.pop("rope_parameters"))
    old["rope_theta"] = rope.pop("rope_theta")
    old["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    old["torch_dtype"] = old.pop("dtype")
    old["transformers_version"] = "4.46.0"
    old.pop("layer_types", None)
    return old


def save_model(name, folder):
    kind, config = MODELS[name]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    model = kind(config)
    randomise(model, generator)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    written = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", written)
    if name == SHARDED:
        model.save_pretrained(folder / "sharded", max_shard_size="40KB")
        (folder / "sharded/generation_config.json").unlink(missing_ok=True)
        write_json(folder / "sharded/config.json", written)
        whole, parts = load(folder), load(folder / "sharded")
        assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), parts.state_dict().values()))
    old = folder / "old"
    old.mkdir()
    write_json(old / "config.json", old_spelling(written))
    shutil.copy(folder / "model.safetensors", old)
    ids = torch.arange(3, 60)[None]
    assert torch.equal(load(folder)(ids).logits, load(old)(ids).logits)
    shutil.copy(old / "config.json", folder / "config.v4.json")
    shutil.rmtree(old)
    return generator


# ---------------------------------------------------------------- values

def all_logits(model, sequences):
    """Logits of each sequence run alone; both paddings are asserted to give the same."""
    alone = [model(torch.tensor([ids])).logits[0] for ids in sequences]
    width = max(map(len, sequences))
    for side in ["left", "right"]:
        rows, masks, positions = [], [], []
        for ids in sequences:
            gap = width - len(ids)
            before, after = (gap, 0) if side == "left" else (0, gap)
            rows.append([0] * before + ids + [0] * after)
            masks.append([0] * before + [1] * len(ids) + [0] * after)
            positions.append([0] * before + list(range(len(ids))) + [0] * after)
        batch = model(torch.tensor(rows), attention_mask=torch.tensor(masks),
                      position_ids=torch.tensor(positions)).logits
        for row, mask, reference in zip(batch, masks, alone):
            assert torch.allclose(row[torch.tensor(mask, dtype=torch.bool)], reference, rtol=0, atol=1e-10), side
    return alone


def completion(logits, ids, start, temperature):
    """log p of each token from `start` on, and the entropy of the distribution it was drawn from, in nats."""
    logp = F.log_softmax(logits[start - 1:-1] / temperature, dim=-1)
    targets = torch.tensor(ids[start:])
    return logp.gather(1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def loss(logits, sequences, coefficients):
    """Sum over completion tokens of coefficient × log p at temperature 1."""
    total = 0.0
    for rows, ids, start, coefficient in zip(logits, sequences, STARTS, coefficients):
        total = total + (coefficient * completion(rows, ids, start, 1.0)[0]).sum()
    return total


def gradients(model, value):
    model.zero_grad()
    value.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}
    assert all(g.abs().max() > 1e-6 for g in grads.values()), [n for n, g in grads.items() if g.abs().max() <= 1e-6]
    return grads


def greedy(model, ids):
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                         max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False,
                         eos_token_id=None, pad_token_id=0)[0].tolist()
    rows = model(torch.tensor([out])).logits[0, len(ids) - 1:-1]
    best = rows.topk(2).values
    assert rows.argmax(-1).tolist() == out[len(ids):]
    assert (best[:, 0] - best[:, 1]).min() > 1e-3, "a near tie: choose another seed"
    return out[len(ids):]


def save_adapter(name, folder, generator, rslora):
    base = load(folder)
    base.config._name_or_path = base.name_or_path = f"tiny-{name}"
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=PROJECTIONS, task_type="CAUSAL_LM",
                        use_rslora=rslora)
    model = get_peft_model(base, config)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    out = folder / ("adapter_rslora" if rslora else "adapter")
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    saved = json.loads((out / "adapter_config.json").read_text())
    saved["target_modules"].sort()  # a set in PEFT: its order changes from run to run
    write_json(out / "adapter_config.json", saved)
    return out


def adapter_values(folder, adapter, sequences, coefficients):
    """Values with an adapter. Gradients are named as the adapter's own file names the tensors."""
    model = double(PeftModel.from_pretrained(load(folder), adapter, is_trainable=True))
    logits = all_logits(model, sequences)
    value = loss(logits, sequences, coefficients)
    grads = {name.replace(".default", ""): g for name, g in gradients(model, value).items()}
    assert grads.keys() == load_file(adapter / "adapter_model.safetensors").keys()
    out = {f"grad.{name}": g for name, g in grads.items()}
    out["loss"] = value.reshape(1)
    merged = all_logits(model.merge_and_unload(), sequences)
    for i, (rows, rows_merged) in enumerate(zip(logits, merged)):
        out[f"logits.{i}"], out[f"merged.logits.{i}"] = rows, rows_merged
        assert torch.allclose(rows, rows_merged, rtol=0, atol=1e-10)
    return {f"{adapter.name}.{name}": t for name, t in out.items()}


def write_model(name, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    generator = save_model(name, folder)
    sequences = [torch.randint(3, VOCAB, (n,), generator=generator).tolist() for n in LENGTHS]
    coefficients = [torch.randn(n - s, generator=generator) for n, s in zip(LENGTHS, STARTS)]
    stock = [load(folder)(torch.tensor([ids])).logits[0] for ids in sequences]
    model = double(load(folder))
    logits = all_logits(model, sequences)
    for single, rows in zip(stock, logits):
        assert torch.allclose(single.double(), rows, rtol=0, atol=2e-5), (single - rows).abs().max()
    value = loss(logits, sequences, coefficients)
    out = {f"grad.{key}": g for key, g in gradients(model, value).items()} | {"loss": value.reshape(1)}
    for i, (rows, ids) in enumerate(zip(logits, sequences)):
        out[f"logits.{i}"], out[f"coefficient.{i}"] = rows, coefficients[i]
        for key, temperature in TEMPERATURES.items():
            out[f"logp.{key}.{i}"], out[f"entropy.{key}.{i}"] = completion(rows, ids, STARTS[i], temperature)
    for rslora in [False, True]:
        adapter = save_adapter(name, folder, generator, rslora)
        out |= adapter_values(folder, adapter, sequences, coefficients)
    write_tensors(folder / "golden.safetensors", out)
    write_json(folder / "golden.json", {
        "ids": sequences,
        "completion_start": STARTS,
        "temperatures": TEMPERATURES,
        "greedy": [greedy(model, ids) for ids in sequences],
        "loss": value.item(),
    })
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{name}: {size / 1e3:.0f} kB, loss {value.item():.4f}")
    assert size < 400_000


# ---------------------------------------------------------------- sampling

def distribution(logits, temperature, top_k, top_p):
    """Probabilities after temperature, top-k, top-p in that order; None leaves a step out."""
    scores = torch.tensor([logits], dtype=torch.float64)
    warpers = []
    if temperature is not None:
        warpers.append(TemperatureLogitsWarper(temperature))
    if top_k is not None:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p is not None:
        warpers.append(TopPLogitsWarper(top_p))
    for warper in warpers:
        scores = warper(None, scores)
    return F.softmax(scores, dim=-1)[0].tolist()


def write_sampling(path):
    """Rows with ties hold multiples of 1/4, so that equal logits stay equal after division by any temperature.

    Where top-p's border falls between equal logits, which of them are kept depends on the sort: such cases are
    marked `order_free`, and only the sorted probabilities count.
    """
    generator = torch.Generator().manual_seed(11)
    rows = [(torch.randn(16, generator=generator) * 2).tolist() for _ in range(4)]
    ties = [3.0, 1.0, 1.0, 2.0, 1.0, -1.0, 2.0, 0.25, 1.0, -2.0]
    settings = [(1.0, None, None), (0.7, None, None), (0.7, 5, 0.9), (None, None, 0.9), (None, 5, None),
                (0.7, 1, None), (1.5, 3, 0.5), (0.7, 100, 0.9), (None, None, 0.05), (None, None, 1.0)]
    cases = []
    for row in rows + [ties, [0.5] * 6, [-1e30, 0.0, 1e4, 9999.0]]:
        for temperature, top_k, top_p in settings:
            if top_p == 1.0:
                probabilities = distribution(row, temperature, top_k, None)  # generate() leaves the warper out
            else:
                probabilities = distribution(row, temperature, top_k, top_p)
            kept = {v for v, p in zip(row, probabilities) if p > 0}
            dropped = {v for v, p in zip(row, probabilities) if p == 0}
            cases.append({"logits": row, "temperature": temperature, "top_k": top_k, "top_p": top_p,
                          "probabilities": probabilities, "order_free": bool(kept & dropped)})
    write_json(path, {"order": ["temperature", "top_k", "top_p"], "cases": cases})


# ---------------------------------------------------------------- optimisation

def adamw(weight_decay, generator):
    parameters = [torch.nn.Parameter(torch.randn(3, 2, generator=generator, dtype=torch.float64)),
                  torch.nn.Parameter(torch.randn(4, generator=generator, dtype=torch.float64))]
    settings = {"lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": weight_decay}
    optimizer = torch.optim.AdamW(parameters, **settings)
    flat = lambda: {"a": parameters[0].detach().flatten().tolist(), "b": parameters[1].detach().tolist()}
    case = settings | {"max_grad_norm": 1.0, "shapes": {"a": [3, 2], "b": [4]}, "initial": flat(), "steps": []}
    for scale in [1.0, 0.1, 5.0, 0.02, 0.5]:
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator, dtype=torch.float64) * scale
        grads = {"a": parameters[0].grad.flatten().tolist(), "b": parameters[1].grad.tolist()}
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0).item()
        optimizer.step()
        case["steps"].append({"grad": grads, "norm": norm, "parameters": flat()})
    norms = [step["norm"] for step in case["steps"]]
    assert min(norms) < 1.0 < max(norms)
    return case


def schedule(make, steps, warmup, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer, num_warmup_steps=warmup, **options)
    factors = []
    for _ in range(steps):
        factors.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return factors


def write_optimizer(path):
    generator = torch.Generator().manual_seed(5)
    steps, warmup = 20, 3
    write_json(path, {
        "adamw": [adamw(weight_decay, generator) for weight_decay in [0.01, 0.0]],
        "schedules": {
            "steps": steps,
            "warmup": warmup,
            "cosine": schedule(get_cosine_schedule_with_warmup, steps, warmup, num_training_steps=steps),
            "linear": schedule(get_linear_schedule_with_warmup, steps, warmup, num_training_steps=steps),
            "constant_with_warmup": schedule(get_constant_schedule_with_warmup, steps, warmup),
        },
    })


def main(out):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    out.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        write_model(name, out / name)
    write_sampling(out / "sampling.json")
    write_optimizer(out / "optimizer.json")


if __name__ == "__main__":
    default = pathlib.Path(__file__).parents[2] / "tests/golden/policy"
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default)
