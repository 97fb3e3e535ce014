//! Sums of matrices by their factors of low rank: PowerSGD (arXiv 1905.13727).
//!
//! A dense tensor with several axes is a matrix `M` of inputs by outputs. Every member has its own, to which it adds
//! what it lost of it before. `P = M Q` is summed over all members and made orthonormal; then `Q = Mᵀ P` is summed, and
//! `P Qᵀ` is what all take for the sum of their `M`. A member has lost what its own `M` has beyond its own `P Qᵀ`. The
//! summed `Q` is the next round's. All other tensors travel whole, together with `P`.
//!
//! After the first sum all members compute with the same numbers in the same order, so they stay equal bit for bit.

use std::ops::Range;

use bonfire_learn::kernels::low_rank::{LowRank, MOST_RANK, PANEL, orthonormalize};
use bonfire_learn::layout::{Init, Tensor, TensorKind};
use bonfire_learn::random::Random;
use bonfire_learn::{Gradient, Layout};
use bonfire_wire::Closed;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::codec::Coding;
use crate::peers::Peers;
use crate::sharded::ShardedSums;

/// What a member needs to sum gradients of low rank with the others, from round to round.
#[derive(Debug)]
pub struct LowRankSums {
    matrices: Vec<FactoredTensor>,
    /// Of the tensors that travel whole: their numbers in the model's layout and in that of the left factors.
    whole: Vec<(usize, usize)>,
    /// Sums of all as it is, for exact rounds.
    exact: ShardedSums,
    /// The left factors, and what travels whole.
    left: FactorSums,
    right: FactorSums,
    /// Of all matrices, one after the other.
    lost: Vec<f32>,
    /// The right factors that the next round begins with, the same for all members; and those of the first round.
    directions: Vec<f32>,
    initial: Vec<f32>,
    /// This member's part of the right factors of a round.
    own: Vec<f32>,
}

/// Factors, and what sums them.
#[derive(Debug)]
struct FactorSums {
    layout: Layout,
    sums: ShardedSums,
    gradient: Gradient,
}

/// A tensor that travels as two factors.
#[derive(Debug)]
struct FactoredTensor {
    tensor: usize,
    sizes: LowRank,
    /// Its place in the flat vector, among the left and right factors, and in what was lost.
    values: Range<usize>,
    left: Range<usize>,
    right: Range<usize>,
    lost: Range<usize>,
}

/// How many rows of a matrix are computed at a time: with the factors they stay in the cache.
const ROWS: usize = 16;

impl LowRankSums {
    /// For factors of this rank. Those of the first round depend on the seed and the tensors' names alone.
    pub fn new(layout: &Layout, rank: usize, seed: u64) -> Self {
        assert!((1..=MOST_RANK).contains(&rank), "factors of rank {rank}");
        let mut matrices: Vec<FactoredTensor> = Vec::new();
        let (mut left, mut right) = (Layout::default(), Layout::default());
        let (mut initial, mut lost) = (Vec::new(), 0);
        for (tensor, of) in layout.tensors().iter().enumerate() {
            let Some(columns) = columns_for(of, rank) else { continue };
            let rows = of.range.len() / columns;
            matrices.push(FactoredTensor {
                tensor,
                sizes: LowRank { columns, rank },
                values: of.range.clone(),
                left: left.vector(of.name.clone(), rows * rank, Init::Constant(0.0)).range,
                right: right.vector(of.name.clone(), columns * rank, Init::Constant(0.0)).range,
                lost: lost..lost + of.range.len(),
            });
            lost += of.range.len();
            let mut random = Random::named(seed, &format!("{}.right", of.name));
            initial.extend((0..columns * rank).map(|_| random.between(-1.0, 1.0)));
        }
        let mut whole = Vec::new();
        for (tensor, of) in layout.tensors().iter().enumerate() {
            if matrices.iter().any(|matrix| matrix.tensor == tensor) {
                continue;
            }
            let (name, len, init) = (of.name.clone(), of.range.len(), Init::Constant(0.0));
            let slot = match of.kind {
                TensorKind::Dense => left.vector(name, len, init),
                TensorKind::Buffer => left.buffer(name, len, init),
                TensorKind::Rows { width } => left.rows(name, len / width, width, init),
            };
            whole.push((tensor, slot.tensor));
        }
        Self {
            matrices,
            whole,
            exact: ShardedSums::new(layout, Coding::PLAIN),
            left: FactorSums::new(&left),
            right: FactorSums::new(&right),
            lost: vec![0.0; lost],
            directions: initial.clone(),
            own: vec![0.0; initial.len()],
            initial,
        }
    }

    /// The layouts of what travels in its two exchanges.
    pub fn layouts(&self) -> [&Layout; 2] {
        [&self.left.layout, &self.right.layout]
    }

    /// Shares the sums out among members who each take such a part of them. All begin with the same right factors.
    pub fn share_out(&mut self, parts: &[f64]) {
        self.share_out_each(parts, ShardedSums::share_out);
    }

    /// The same where links count for nothing.
    pub fn share_out_few(&mut self, parts: &[f64]) {
        self.share_out_each(parts, ShardedSums::share_out_few);
    }

    fn share_out_each(&mut self, parts: &[f64], share_out: fn(&mut ShardedSums, &[f64])) {
        for sums in [&mut self.exact, &mut self.left.sums, &mut self.right.sums] {
            share_out(sums, parts);
        }
        if parts.len() == 1 {
            // Who is alone sums nothing. Until others come, what was lost is too old.
            self.lost.fill(0.0);
        }
        self.begin_again();
    }

    /// Forgets what was lost: what is summed from now on is of another kind.
    pub fn forget(&mut self) {
        self.lost.fill(0.0);
        self.begin_again();
    }

    fn begin_again(&mut self) {
        self.directions.copy_from_slice(&self.initial);
    }

    /// No piece has more bytes.
    pub fn most_bytes(&self) -> usize {
        let all = [&self.exact, &self.left.sums, &self.right.sums];
        all.into_iter().map(ShardedSums::most_bytes).max().unwrap_or(0)
    }

    /// Replaces a member's gradient by about the sum over all members, and notes what this member has lost. In an exact
    /// round all travels as it is, with what was lost before, and nothing is left of earlier rounds. If the round
    /// breaks off the gradient is of no use any more, and everything else is as it was.
    pub fn sum<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &mut Gradient,
        exact: bool,
        pool: &ThreadPool,
    ) -> Result<(), E> {
        if exact {
            return self.sum_exactly(peers, gradient);
        }
        let weighs = gradient.weight > 0.0;
        self.left.begin(gradient.weight);
        if weighs {
            pool.install(|| self.project(gradient));
            copy_whole(gradient, &mut self.left.gradient, self.whole.iter().copied());
        }
        self.left.sum(peers)?;
        pool.install(|| self.project_back(gradient, weighs));
        self.right.begin(gradient.weight);
        self.right.gradient.values.copy_from_slice(&self.own);
        self.right.sum(peers)?;
        pool.install(|| self.expand(gradient, weighs));
        self.directions.copy_from_slice(&self.right.gradient.values);
        for FactoredTensor { sizes, right, .. } in &self.matrices {
            sizes.replace_zeros(&mut self.directions[right.clone()], &self.initial[right.clone()]);
        }
        gradient.clear();
        gradient.weight = self.left.gradient.weight;
        for matrix in &self.matrices {
            gradient.write(matrix.tensor);
        }
        copy_whole(&self.left.gradient, gradient, self.whole.iter().map(|&(tensor, place)| (place, tensor)));
        Ok(())
    }

    fn sum_exactly<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &mut Gradient,
    ) -> Result<(), E> {
        for matrix in &self.matrices {
            let values = &mut gradient.values[matrix.values.clone()];
            values.iter_mut().zip(&self.lost[matrix.lost.clone()]).for_each(|(value, lost)| *value += lost);
        }
        self.exact.sum(peers, gradient, true)?;
        // Also where this member had no part of the round: who resumes from here has nothing of earlier rounds.
        self.forget();
        Ok(())
    }

    /// Adds what was lost before to the matrices of a gradient, and computes the left factors.
    fn project(&mut self, gradient: &mut Gradient) {
        let values = cut(&mut gradient.values, self.matrices.iter().map(|matrix| &matrix.values));
        let lefts = cut(&mut self.left.gradient.values, self.matrices.iter().map(|matrix| &matrix.left));
        let (lost, directions) = (&self.lost, &self.directions);
        (&self.matrices, values, lefts).into_par_iter().for_each(|(matrix, values, left)| {
            let LowRank { columns, rank } = matrix.sizes;
            let rows = values.par_chunks_mut(ROWS * columns).zip(left.par_chunks_mut(ROWS * rank));
            let lost = lost[matrix.lost.clone()].par_chunks(ROWS * columns);
            let right = &directions[matrix.right.clone()];
            rows.zip(lost).for_each(|((values, left), lost)| {
                matrix.sizes.project(values, lost, right, left);
            });
        });
    }

    /// Makes the summed left factors orthonormal, and computes this member's part of the right ones.
    fn project_back(&mut self, gradient: &Gradient, weighs: bool) {
        let lefts = cut(&mut self.left.gradient.values, self.matrices.iter().map(|matrix| &matrix.left));
        let rights = cut(&mut self.own, self.matrices.iter().map(|matrix| &matrix.right));
        (&self.matrices, lefts, rights).into_par_iter().for_each(|(matrix, left, right)| {
            let sizes = matrix.sizes;
            orthonormalize(left, sizes.rank);
            if !weighs {
                return;
            }
            let values = &gradient.values[matrix.values.clone()];
            let panels = right.par_chunks_mut(PANEL * sizes.rank).enumerate();
            panels.for_each(|(panel, right)| sizes.project_back(values, left, panel, right));
        });
    }

    /// Puts the products of the summed factors into a gradient, and notes what they lack of what was there.
    fn expand(&mut self, gradient: &mut Gradient, weighs: bool) {
        let values = cut(&mut gradient.values, self.matrices.iter().map(|matrix| &matrix.values));
        let losts = cut(&mut self.lost, self.matrices.iter().map(|matrix| &matrix.lost));
        let (lefts, rights, owns) = (&self.left.gradient.values, &self.right.gradient.values, &self.own);
        (&self.matrices, values, losts).into_par_iter().for_each(|(matrix, values, lost)| {
            let LowRank { columns, rank } = matrix.sizes;
            let (right, own) = (&rights[matrix.right.clone()], &owns[matrix.right.clone()]);
            let left = lefts[matrix.left.clone()].par_chunks(ROWS * rank);
            let rows = values.par_chunks_mut(ROWS * columns).zip(lost.par_chunks_mut(ROWS * columns));
            rows.zip(left).for_each(|((values, lost), left)| {
                if weighs {
                    matrix.sizes.subtract(left, own, values, lost);
                }
                matrix.sizes.expand(left, right, values);
            });
        });
    }
}

impl FactorSums {
    fn new(layout: &Layout) -> Self {
        let sums = ShardedSums::new(layout, Coding::PLAIN);
        Self { layout: layout.clone(), sums, gradient: Gradient::new(layout) }
    }

    fn begin(&mut self, weight: f64) {
        self.gradient.clear();
        self.gradient.weight = weight;
    }

    fn sum<E: From<Closed>>(&mut self, peers: &mut Peers<'_, E>) -> Result<(), E> {
        self.sums.sum(peers, &mut self.gradient, true)
    }
}

/// How many columns a tensor has as a matrix, if factors of this rank are at most half as large. Its outputs are the
/// columns where they lie next to each other, and otherwise the rows.
fn columns_for(tensor: &Tensor, rank: usize) -> Option<usize> {
    let (factors, axes) = tensor.memory_order();
    let (first, last) = (factors[*axes.first()?], factors[*axes.last()?]);
    if tensor.kind != TensorKind::Dense || axes.len() < 2 || tensor.range.is_empty() {
        return None;
    }
    let columns = if axes.last() == Some(&0) { last } else { tensor.range.len() / first };
    let rows = tensor.range.len() / columns;
    (2 * rank * (rows + columns) <= tensor.range.len()).then_some(columns)
}

/// Copies tensors that are no matrices, by their numbers in both layouts; of tables the touched rows.
fn copy_whole(from: &Gradient, to: &mut Gradient, tensors: impl Iterator<Item = (usize, usize)>) {
    for (tensor, place) in tensors {
        match from.rows(tensor) {
            Some(rows) => {
                for &row in &rows.touched {
                    let start = row as usize * rows.width;
                    let values = &from.tensor_values(tensor)[start..start + rows.width];
                    to.touch(place, row).copy_from_slice(values);
                }
            }
            None => to.write(place).copy_from_slice(from.tensor_values(tensor)),
        }
    }
}

/// Stretches of a vector, in their order, to be written apart.
fn cut<'a, 'r>(vector: &'a mut [f32], ranges: impl Iterator<Item = &'r Range<usize>>) -> Vec<&'a mut [f32]> {
    let (mut rest, mut at) = (vector, 0);
    let mut next = |range: &Range<usize>| {
        let (stretch, behind) = std::mem::take(&mut rest)[range.start - at..].split_at_mut(range.len());
        (rest, at) = (behind, range.end);
        stretch
    };
    ranges.map(&mut next).collect()
}

#[cfg(test)]
mod tests;
