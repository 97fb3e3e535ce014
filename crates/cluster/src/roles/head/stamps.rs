//! Which rows of embeddings are new to whom.

use bonfire_learn::Gradient;
use bonfire_learn::layout::{Layout, TensorKind};

/// When each row of each table last changed, for optimisers that change only what was touched.
#[derive(Debug)]
pub(crate) struct Stamps {
    tables: Vec<(usize, Vec<u64>)>,
    changed: Vec<Vec<u32>>,
}

impl Stamps {
    pub(crate) fn new(layout: &Layout) -> Self {
        let tables = layout.tensors().iter().enumerate().filter_map(|(i, tensor)| match tensor.kind {
            TensorKind::Rows { width } => Some((i, vec![0; tensor.range.len() / width])),
            _ => None,
        });
        let tables: Vec<_> = tables.collect();
        Self { changed: vec![Vec::new(); tables.len()], tables }
    }

    /// The touched rows changed with a version.
    pub(crate) fn stamp(&mut self, update: &Gradient, version: u64) {
        for (tensor, stamps) in &mut self.tables {
            for &row in update.rows(*tensor).into_iter().flat_map(|rows| &rows.touched) {
                stamps[row as usize] = version;
            }
        }
    }

    /// The rows of each table, given by its number, that changed after a version.
    pub(crate) fn since(&mut self, version: u64) -> Vec<(usize, &[u32])> {
        for ((_, stamps), changed) in self.tables.iter().zip(&mut self.changed) {
            changed.clear();
            let newer = stamps.iter().enumerate().filter(|(_, stamp)| **stamp > version);
            changed.extend(newer.map(|(row, _)| row as u32));
        }
        self.tables.iter().zip(&self.changed).map(|((tensor, _), rows)| (*tensor, rows.as_slice())).collect()
    }
}
