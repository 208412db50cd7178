//! Units with identical vectors, collapsed to one weighted point.

/// Distinct rows of a matrix.
pub(super) struct Distinct {
    /// First unit of each point, ascending.
    pub(super) rows: Vec<u32>,
    /// Units that each point stands for.
    pub(super) weights: Vec<u32>,
    /// Point of each unit.
    pub(super) point_of: Vec<u32>,
}

impl Distinct {
    /// Collapses identical rows; `0.0` and `-0.0` are the same.
    pub(super) fn new(data: &[f32], dim: usize) -> Self {
        let units = data.len() / dim;
        let row = |unit: u32| &data[unit as usize * dim..(unit as usize + 1) * dim];
        // Adding 0 turns -0 into 0.
        let compare = |&a: &u32, &b: &u32| {
            let pairs = row(a).iter().zip(row(b));
            pairs
                .map(|(x, y)| (x + 0.0).total_cmp(&(y + 0.0)))
                .find(|order| order.is_ne())
                .unwrap_or(a.cmp(&b))
        };
        let mut sorted: Vec<u32> = (0..units as u32).collect();
        sorted.sort_unstable_by(compare);
        let mut first: Vec<u32> = (0..units as u32).collect();
        for group in sorted.chunk_by(|&a, &b| row(a) == row(b)) {
            group.iter().for_each(|&unit| first[unit as usize] = group[0]);
        }
        let rows: Vec<u32> = (0..units as u32).filter(|&unit| first[unit as usize] == unit).collect();
        let point_of: Vec<u32> =
            first.iter().map(|unit| rows.partition_point(|row| row < unit) as u32).collect();
        let mut weights = vec![0; rows.len()];
        point_of.iter().for_each(|&point| weights[point as usize] += 1);
        Self { rows, weights, point_of }
    }
}
