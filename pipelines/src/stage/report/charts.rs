//! The page's charts, as SVG drawn by plotters.

use anyhow::{Context, Result, anyhow};
use nalgebra::{DMatrix, SymmetricEigen};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;
use tracemill_data::artifact::IntentRow;

use super::tables::ScreenRow;

const WIDTH: u32 = 720;
/// Applications with a bar.
const MOST_APPS: usize = 30;
const NOISE: RGBColor = RGBColor(200, 200, 205);
const INK: RGBColor = RGBColor(60, 64, 72);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws into an SVG string that scales with the page.
fn svg(height: u32, draw: impl FnOnce(&Area) -> Result<()>) -> Result<String> {
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, (WIDTH, height)).into_drawing_area();
        draw(&area)?;
        area.present().map_err(chart_error)?;
    }
    let fixed = format!(r#"width="{WIDTH}" height="{height}""#);
    Ok(out.replacen(&fixed, r#"width="100%""#, 1))
}

fn chart_error(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("chart: {error}")
}

/// Horizontal bars of counts, largest first.
pub fn bars(counts: &[(String, u64)]) -> Result<String> {
    if counts.is_empty() {
        return Ok(String::new());
    }
    let row = 24;
    let height = row * counts.len() as u32 + 8;
    let top = counts.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    svg(height, |area| {
        for (i, (name, count)) in counts.iter().enumerate() {
            let y = i as i32 * row as i32 + 4;
            let length = (f64::from(WIDTH - 330) * *count as f64 / top as f64).max(1.0) as i32;
            let bar = Rectangle::new([(240, y), (240 + length, y + 16)], RGBColor(88, 120, 164).filled());
            area.draw(&bar).map_err(chart_error)?;
            let font = ("sans-serif", 16).into_font().color(&INK);
            let shown: String = name.chars().take(30).collect();
            area.draw(&Text::new(shown, (4, y + 2), font.clone())).map_err(chart_error)?;
            area.draw(&Text::new(count.to_string(), (246 + length, y + 2), font)).map_err(chart_error)?;
        }
        Ok(())
    })
}

/// Mean tokens of an application's screens (A11y-Compressor, figure 3): the linear form, and compressed within it.
pub fn screen_tokens(rows: &[ScreenRow]) -> Result<String> {
    let rows = &rows[..rows.len().min(MOST_APPS)];
    let top = rows.iter().map(|row| row.linear.max(row.compressed)).fold(1.0, f64::max);
    if rows.is_empty() {
        return Ok(String::new());
    }
    let row_height = 26;
    svg(row_height * rows.len() as u32 + 8, |area| {
        for (i, row) in rows.iter().enumerate() {
            let y = i as i32 * row_height as i32 + 4;
            let length = |tokens: f64| 200 + (f64::from(WIDTH - 360) * tokens / top).max(1.0) as i32;
            let bar = |to, from, height, color: RGBColor| {
                Rectangle::new([(200, y + from), (to, y + from + height)], color.filled())
            };
            area.draw(&bar(length(row.linear), 0, 18, RGBColor(208, 215, 224))).map_err(chart_error)?;
            area.draw(&bar(length(row.compressed), 4, 10, RGBColor(63, 106, 160))).map_err(chart_error)?;
            let font = ("sans-serif", 14).into_font().color(&INK);
            let shown: String = row.app.chars().take(26).collect();
            area.draw(&Text::new(shown, (4, y + 3), font.clone())).map_err(chart_error)?;
            let figures = format!("{:.0} of {:.0}", row.compressed, row.linear);
            let end = length(row.linear.max(row.compressed)) + 6;
            area.draw(&Text::new(figures, (end, y + 3), font)).map_err(chart_error)?;
        }
        Ok(())
    })
}

/// Loss over epochs from the lines of `metrics.jsonl`: training and held-out total.
pub fn losses(jsonl: &str) -> Result<String> {
    let rows: Vec<Value> =
        jsonl.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("encoder/metrics.jsonl")?;
    let series: Vec<(&str, RGBColor, Vec<(f64, f64)>)> =
        [("train_total", RGBColor(88, 120, 164)), ("held_out_total", RGBColor(228, 148, 68))]
            .into_iter()
            .map(|(name, color)| {
                let points = rows.iter().filter_map(|r| Some((r["epoch"].as_f64()?, r[name].as_f64()?)));
                (name, color, points.collect())
            })
            .collect();
    let all = || series.iter().flat_map(|(_, _, points)| points.iter());
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p.1), h.max(p.1)));
    let last = all().fold(1.0_f64, |m, p| m.max(p.0));
    if low > high {
        return Ok(String::new());
    }
    let margin = (high - low).max(1e-6) * 0.05;
    svg(300, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .x_label_area_size(32)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..last, low - margin..high + margin)
            .map_err(chart_error)?;
        chart
            .configure_mesh()
            .x_desc("epoch")
            .y_desc("loss")
            .light_line_style(WHITE)
            .label_style(("sans-serif", 12))
            .draw()
            .map_err(chart_error)?;
        for (name, color, points) in &series {
            let style = color.stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))
                .map_err(chart_error)?
                .label(name.replace('_', " "))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(WHITE)
            .label_font(("sans-serif", 13))
            .draw()
            .map_err(chart_error)?;
        Ok(())
    })
}

/// The latents on their two main axes (PCA), coloured by intent group; noise is grey. At most
/// `limit` points, evenly spaced over the units.
pub fn latent_map(intents: &[IntentRow], limit: usize) -> Result<String> {
    let stride = intents.len().div_ceil(limit.max(1)).max(1);
    let shown: Vec<&IntentRow> = intents.iter().step_by(stride).collect();
    if shown.len() < 3 {
        return Ok(String::new());
    }
    let points = principal_plane(&shown);
    let range = |axis: usize| {
        let (l, h) = points.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(p[axis]), h.max(p[axis])));
        let margin = (h - l).max(1e-9) * 0.04;
        l - margin..h + margin
    };
    svg(520, |area| {
        let mut chart =
            ChartBuilder::on(area).margin(6).build_cartesian_2d(range(0), range(1)).map_err(chart_error)?;
        // Noise first, so that it lies under the groups.
        let mut order: Vec<usize> = (0..shown.len()).collect();
        order.sort_by_key(|&i| (shown[i].ig >= 0, i));
        chart
            .draw_series(order.into_iter().map(|i| {
                let color = group_color(shown[i].ig);
                Circle::new((points[i][0], points[i][1]), 3, color.filled())
            }))
            .map_err(chart_error)?;
        Ok(())
    })
}

/// Distinct hues by the golden angle: neighbouring group numbers look different.
fn group_color(ig: i32) -> RGBAColor {
    if ig < 0 {
        return NOISE.mix(0.5);
    }
    let hue = (f64::from(ig) * 0.618_033_988_75).fract();
    let lightness = if ig % 2 == 0 { 0.45 } else { 0.6 };
    HSLColor(hue, 0.65, lightness).mix(0.75)
}

/// Coordinates on the two eigenvectors of the covariance with the largest eigenvalues; signs are
/// fixed so that the largest loading is positive.
fn principal_plane(rows: &[&IntentRow]) -> Vec<[f64; 2]> {
    let (n, dim) = (rows.len(), rows[0].z.len());
    let data = DMatrix::from_fn(n, dim, |i, j| f64::from(rows[i].z[j]));
    let mean = data.row_mean();
    let centred = DMatrix::from_fn(n, dim, |i, j| data[(i, j)] - mean[j]);
    let eigen = SymmetricEigen::new(centred.transpose() * &centred / n as f64);
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
    let axis = |k: usize| {
        let vector = eigen.eigenvectors.column(order[k.min(dim - 1)]).into_owned();
        let sign = vector[vector.icamax()].signum();
        &centred * vector * sign
    };
    let (x, y) = (axis(0), axis(1));
    (0..n).map(|i| [x[i], y[i]]).collect()
}
