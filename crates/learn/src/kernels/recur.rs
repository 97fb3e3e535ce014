//! The pointwise part of a step of a recurrent layer, forward and backward.
//!
//! A row holds the gates of one sample side by side: `r z n` of a GRU, `i f g o` of an LSTM, each `hidden` wide. The
//! loops run over registers of [`LANES`] floats by hand: over eight slices at once the compiler gives up.

use super::pointwise::{sigmoid, tanh};
use super::{LANES, Lanes, load, vectorized};

/// One value of a GRU forward: gates in, state out.
#[derive(Clone, Copy)]
struct GruCell {
    r: f32,
    z: f32,
    n: f32,
    h: f32,
}

impl GruCell {
    /// `x*` are the input's sums, `h*` the state's.
    #[inline(always)]
    fn forward(x: [f32; 3], h: [f32; 3], before: f32) -> Self {
        let r = sigmoid(x[0] + h[0]);
        let z = sigmoid(x[1] + h[1]);
        let n = tanh(x[2] + r * h[2]);
        Self { r, z, n, h: n + z * (before - n) }
    }
}

/// One step of a GRU. `gates` `(B, 3H)` holds the input's sums and becomes the gates `r z n`; `sums` `(B, 3H)` holds
/// the state's sums; the third of them with its `bias` is kept in `candidate` `(B, H)` for the backward pass.
pub(crate) fn gru_forward(
    gates: &mut [f32],
    sums: &[f32],
    bias: &[f32],
    before: &[f32],
    candidate: &mut [f32],
    state: &mut [f32],
) {
    let hidden = bias.len();
    let rows = gates.chunks_exact_mut(3 * hidden).zip(sums.chunks_exact(3 * hidden));
    let rows = rows.zip(before.chunks_exact(hidden)).zip(candidate.chunks_exact_mut(hidden));
    let rows = rows.zip(state.chunks_exact_mut(hidden));
    vectorized(
        #[inline(always)]
        || {
            for ((((gates, sums), before), candidate), state) in rows {
                for ((candidate, sum), bias) in candidate.iter_mut().zip(&sums[2 * hidden..]).zip(bias) {
                    *candidate = sum + bias;
                }
                let full = hidden - hidden % LANES;
                for j in (0..full).step_by(LANES) {
                    let at = |slice: &[f32], gate: usize| load(&slice[gate * hidden + j..]);
                    let (x0, x1, x2) = (at(gates, 0), at(gates, 1), at(gates, 2));
                    let (h0, h1, h2, b) = (at(sums, 0), at(sums, 1), at(candidate, 0), at(before, 0));
                    let (mut r, mut z, mut n, mut h): (Lanes, Lanes, Lanes, Lanes) = Default::default();
                    for k in 0..LANES {
                        r[k] = sigmoid(x0[k] + h0[k]);
                    }
                    for k in 0..LANES {
                        z[k] = sigmoid(x1[k] + h1[k]);
                    }
                    for k in 0..LANES {
                        n[k] = tanh(x2[k] + r[k] * h2[k]);
                    }
                    for k in 0..LANES {
                        h[k] = n[k] + z[k] * (b[k] - n[k]);
                    }
                    gates[j..j + LANES].copy_from_slice(&r);
                    gates[hidden + j..hidden + j + LANES].copy_from_slice(&z);
                    gates[2 * hidden + j..2 * hidden + j + LANES].copy_from_slice(&n);
                    state[j..j + LANES].copy_from_slice(&h);
                }
                for j in full..hidden {
                    let x = [gates[j], gates[hidden + j], gates[2 * hidden + j]];
                    let cell = GruCell::forward(x, [sums[j], sums[hidden + j], candidate[j]], before[j]);
                    (gates[j], gates[hidden + j], gates[2 * hidden + j]) = (cell.r, cell.z, cell.n);
                    state[j] = cell.h;
                }
            }
        },
    );
}

/// The gradients of one step of a GRU, one value. Takes the gates, the candidate's sum, the state before and the
/// gradient of the state; gives the gradients of the gates' sums, of the candidate's sum, and what flows straight to
/// the state before.
#[inline(always)]
fn gru_gradients(r: f32, z: f32, n: f32, candidate: f32, before: f32, dh: f32) -> [f32; 5] {
    let dn = dh * (1.0 - z) * (1.0 - n * n);
    let dz = dh * (before - n) * z * (1.0 - z);
    let dr = dn * candidate * r * (1.0 - r);
    [dr, dz, dn, dn * r, dh * z]
}

/// One step of a GRU backward. `gates` become the gradients of the input's sums, `candidate` the gradient of the
/// candidate's share of the state's sums (the other two are equal). `dh`, the gradient of the state, becomes its direct
/// share for the state before.
pub(crate) fn gru_backward(
    gates: &mut [f32],
    candidate: &mut [f32],
    before: &[f32],
    dh: &mut [f32],
    hidden: usize,
) {
    let rows = gates.chunks_exact_mut(3 * hidden).zip(candidate.chunks_exact_mut(hidden));
    let rows = rows.zip(before.chunks_exact(hidden)).zip(dh.chunks_exact_mut(hidden));
    vectorized(
        #[inline(always)]
        || {
            for (((gates, candidate), before), dh) in rows {
                let full = hidden - hidden % LANES;
                for j in (0..full).step_by(LANES) {
                    let (mut r, mut z, mut n) =
                        (load(&gates[j..]), load(&gates[hidden + j..]), load(&gates[2 * hidden + j..]));
                    let (mut c, b, mut h) = (load(&candidate[j..]), load(&before[j..]), load(&dh[j..]));
                    for k in 0..LANES {
                        let found = gru_gradients(r[k], z[k], n[k], c[k], b[k], h[k]);
                        [r[k], z[k], n[k], c[k], h[k]] = found;
                    }
                    gates[j..j + LANES].copy_from_slice(&r);
                    gates[hidden + j..hidden + j + LANES].copy_from_slice(&z);
                    gates[2 * hidden + j..2 * hidden + j + LANES].copy_from_slice(&n);
                    candidate[j..j + LANES].copy_from_slice(&c);
                    dh[j..j + LANES].copy_from_slice(&h);
                }
                for j in full..hidden {
                    let (r, z, n) = (gates[j], gates[hidden + j], gates[2 * hidden + j]);
                    let [dr, dz, dn, dc, direct] = gru_gradients(r, z, n, candidate[j], before[j], dh[j]);
                    (gates[j], gates[hidden + j], gates[2 * hidden + j]) = (dr, dz, dn);
                    (candidate[j], dh[j]) = (dc, direct);
                }
            }
        },
    );
}

/// One step of an LSTM. `gates` `(B, 4H)` holds all sums and becomes the gates `i f g o`; `cell_before`, `cell` and
/// `cell_tanh` (the cell's tanh, kept for the backward pass) are `(B, H)`.
pub(crate) fn lstm_forward(
    gates: &mut [f32],
    cell_before: &[f32],
    cell: &mut [f32],
    cell_tanh: &mut [f32],
    state: &mut [f32],
    hidden: usize,
) {
    let rows = gates.chunks_exact_mut(4 * hidden).zip(cell_before.chunks_exact(hidden));
    let rows = rows.zip(cell.chunks_exact_mut(hidden)).zip(cell_tanh.chunks_exact_mut(hidden));
    let rows = rows.zip(state.chunks_exact_mut(hidden));
    vectorized(
        #[inline(always)]
        || {
            for ((((gates, before), cell), cell_tanh), state) in rows {
                let full = hidden - hidden % LANES;
                for j in (0..full).step_by(LANES) {
                    let at = |gate: usize| load(&gates[gate * hidden + j..]);
                    let (mut i, mut f, mut g, mut o, b) = (at(0), at(1), at(2), at(3), load(&before[j..]));
                    let (mut c, mut t, mut h): (Lanes, Lanes, Lanes) = Default::default();
                    i.iter_mut().for_each(|x| *x = sigmoid(*x));
                    f.iter_mut().for_each(|x| *x = sigmoid(*x));
                    g.iter_mut().for_each(|x| *x = tanh(*x));
                    o.iter_mut().for_each(|x| *x = sigmoid(*x));
                    for k in 0..LANES {
                        c[k] = f[k] * b[k] + i[k] * g[k];
                    }
                    for k in 0..LANES {
                        t[k] = tanh(c[k]);
                    }
                    for k in 0..LANES {
                        h[k] = o[k] * t[k];
                    }
                    for (gate, lanes) in [i, f, g, o].iter().enumerate() {
                        gates[gate * hidden + j..gate * hidden + j + LANES].copy_from_slice(lanes);
                    }
                    cell[j..j + LANES].copy_from_slice(&c);
                    cell_tanh[j..j + LANES].copy_from_slice(&t);
                    state[j..j + LANES].copy_from_slice(&h);
                }
                for j in full..hidden {
                    let at = |gate: usize| gates[gate * hidden + j];
                    let (i, f, g, o) = (sigmoid(at(0)), sigmoid(at(1)), tanh(at(2)), sigmoid(at(3)));
                    cell[j] = f * before[j] + i * g;
                    cell_tanh[j] = tanh(cell[j]);
                    state[j] = o * cell_tanh[j];
                    for (gate, value) in [i, f, g, o].into_iter().enumerate() {
                        gates[gate * hidden + j] = value;
                    }
                }
            }
        },
    );
}

/// The gradients of one step of an LSTM, one value: of the four gates' sums, and of the cell before.
#[inline(always)]
fn lstm_gradients([i, f, g, o]: [f32; 4], before: f32, cell_tanh: f32, dh: f32, dc: f32) -> [f32; 5] {
    let dc = dc + dh * o * (1.0 - cell_tanh * cell_tanh);
    [
        dc * g * i * (1.0 - i),
        dc * before * f * (1.0 - f),
        dc * i * (1.0 - g * g),
        dh * cell_tanh * o * (1.0 - o),
        dc * f,
    ]
}

/// One step of an LSTM backward. `gates` become the gradients of their sums; `dc`, the gradient of the cell, becomes
/// that of the cell before. `dh` is the gradient of the state.
pub(crate) fn lstm_backward(
    gates: &mut [f32],
    cell_before: &[f32],
    cell_tanh: &[f32],
    dh: &[f32],
    dc: &mut [f32],
    hidden: usize,
) {
    let rows = gates.chunks_exact_mut(4 * hidden).zip(cell_before.chunks_exact(hidden));
    let rows = rows.zip(cell_tanh.chunks_exact(hidden)).zip(dh.chunks_exact(hidden));
    let rows = rows.zip(dc.chunks_exact_mut(hidden));
    vectorized(
        #[inline(always)]
        || {
            for ((((gates, before), cell_tanh), dh), dc) in rows {
                let full = hidden - hidden % LANES;
                for j in (0..full).step_by(LANES) {
                    let at = |gate: usize| load(&gates[gate * hidden + j..]);
                    let (mut i, mut f, mut g, mut o) = (at(0), at(1), at(2), at(3));
                    let (b, t, h) = (load(&before[j..]), load(&cell_tanh[j..]), load(&dh[j..]));
                    let mut c = load(&dc[j..]);
                    for k in 0..LANES {
                        let found = lstm_gradients([i[k], f[k], g[k], o[k]], b[k], t[k], h[k], c[k]);
                        [i[k], f[k], g[k], o[k], c[k]] = found;
                    }
                    for (gate, lanes) in [i, f, g, o].iter().enumerate() {
                        gates[gate * hidden + j..gate * hidden + j + LANES].copy_from_slice(lanes);
                    }
                    dc[j..j + LANES].copy_from_slice(&c);
                }
                for j in full..hidden {
                    let at = |gate: usize| gates[gate * hidden + j];
                    let all = [at(0), at(1), at(2), at(3)];
                    let [i, f, g, o, c] = lstm_gradients(all, before[j], cell_tanh[j], dh[j], dc[j]);
                    for (gate, value) in [i, f, g, o].into_iter().enumerate() {
                        gates[gate * hidden + j] = value;
                    }
                    dc[j] = c;
                }
            }
        },
    );
}
