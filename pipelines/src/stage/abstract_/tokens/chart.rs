//! The curves of figure 1b: tokens read at each step, and all tokens up to it.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::Total;

const SIZE: (u32, u32) = (860, 640);
const COLOURS: [RGBColor; 3] = [RGBColor(190, 80, 70), RGBColor(228, 148, 68), RGBColor(88, 120, 164)];
/// Steps that fewer of the episodes have are left out: their means jump with every episode that ends.
const FEWEST_SHARE: f64 = 0.02;

fn error(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("chart: {error}")
}

/// The chart, as SVG.
///
/// # Errors
/// Those of the drawing library.
pub fn curves(names: &[&str], totals: &[Total]) -> Result<String> {
    let most = totals.iter().filter_map(|t| t.curve.first()).map(|c| c.0).max().unwrap_or(0);
    let fewest = (most as f64 * FEWEST_SHARE).ceil().max(1.0) as u64;
    let steps = totals.iter().map(|t| t.curve.iter().filter(|c| c.0 >= fewest).count()).max().unwrap_or(0);
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(error)?;
        let halves = area.split_evenly((2, 1));
        let mean = |sum: u64, n: u64| sum as f64 / n.max(1) as f64;
        let read = |c: &(u64, u64, u64, u64)| mean(c.1 + c.2, c.0);
        let spent = |c: &(u64, u64, u64, u64)| mean(c.3, c.0);
        let kinds: [(&str, &dyn Fn(&(u64, u64, u64, u64)) -> f64); 2] =
            [("tokens read by the decision of a step", &read), ("all tokens up to a step", &spent)];
        for (half, (title, value)) in halves.iter().zip(kinds) {
            let lines: Vec<Vec<(f64, f64)>> = totals
                .iter()
                .map(|t| {
                    (1..)
                        .zip(&t.curve[..steps.min(t.curve.len())])
                        .map(|(step, c)| (f64::from(step), value(c)))
                        .collect()
                })
                .collect();
            draw(half, title, names, &lines)?;
        }
        area.present().map_err(error)?;
    }
    Ok(out)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    names: &[&str],
    lines: &[Vec<(f64, f64)>],
) -> Result<()> {
    let last = lines.iter().flatten().fold(1.0_f64, |most, p| most.max(p.0));
    let top = lines.iter().flatten().fold(1.0_f64, |most, p| most.max(p.1));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 15))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(1.0..last.max(2.0), 0.0..top * 1.05)
        .map_err(error)?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc("tokens")
        .light_line_style(WHITE)
        .label_style(("sans-serif", 12))
        .y_label_formatter(&|tokens| format!("{tokens:.0}"))
        .draw()
        .map_err(error)?;
    for ((name, line), colour) in names.iter().zip(lines).zip(COLOURS) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.iter().copied(), style))
            .map_err(error)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(WHITE)
        .label_font(("sans-serif", 13))
        .draw()
        .map_err(error)?;
    Ok(())
}
