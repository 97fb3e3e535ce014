//! What the members of a group make of their gradients, together.

use anyhow::anyhow;
use bonfire_learn::Gradient;
use bonfire_learn::layout::{Layout, TensorKind};
use bytes::Bytes;

use crate::adasum::adasum;
use crate::peers::Gather;
use crate::world::World;
use crate::{bytes_to_floats, floats_to_bytes};

/// Memory for sums by MPI.
#[derive(Debug, Default)]
pub struct Memory {
    sums: Vec<f32>,
    rows: Vec<f32>,
    row_sums: Vec<f32>,
}

/// The same by MPI, for members that weigh `weight` together. Dense tensors are summed from where they lie into memory
/// that then takes their place, so that nothing is copied; rows are laid together first.
pub fn mean_by_mpi<E: From<anyhow::Error>>(
    mut world: &World,
    layout: &Layout,
    gradient: &mut Gradient,
    weight: f64,
    memory: &mut Memory,
) -> Result<(), E> {
    let union = touched_by_any(&mut world, layout, gradient)?;
    let own = gradient.weight as f32;
    let Memory { sums, rows, row_sums } = memory;
    sums.resize(layout.len(), 0.0);
    rows.clear();
    let (mut tables, mut run) = (union.iter(), 0..0);
    for (i, tensor) in layout.tensors().iter().enumerate() {
        if let TensorKind::Rows { width } = tensor.kind {
            world.sum(&gradient.values[run.clone()], &mut sums[run.clone()]);
            run = tensor.range.end..tensor.range.end;
            append_rows(gradient, (i, tensor.range.start, width), tables.next(), rows);
            continue;
        }
        if tensor.kind == TensorKind::Buffer {
            gradient.values[tensor.range.clone()].iter_mut().for_each(|value| *value *= own);
        }
        run.end = tensor.range.end;
    }
    world.sum(&gradient.values[run.clone()], &mut sums[run]);
    row_sums.resize(rows.len(), 0.0);
    world.sum(rows, row_sums);
    std::mem::swap(&mut gradient.values, sums);
    gradient.clear();
    gradient.weight = weight;
    let (mut tables, mut row_sums) = (union.iter(), row_sums.as_slice());
    for (i, tensor) in layout.tensors().iter().enumerate() {
        match tensor.kind {
            TensorKind::Dense => {
                gradient.write(i);
            }
            TensorKind::Buffer => {
                let share = if weight > 0.0 { (1.0 / weight) as f32 } else { 0.0 };
                gradient.write(i).iter_mut().for_each(|value| *value *= share);
            }
            TensorKind::Rows { width } => {
                for &row in tables.next().into_iter().flatten() {
                    let (sum, rest) = row_sums.split_at(width);
                    gradient.touch(i, row).copy_from_slice(sum);
                    row_sums = rest;
                }
            }
        }
    }
    Ok(())
}

/// Lays the rows of a table, which starts at a place, behind each other; of those that are not touched zeros.
fn append_rows(
    gradient: &Gradient,
    (tensor, start, width): (usize, usize, usize),
    union: Option<&Vec<u32>>,
    buffer: &mut Vec<f32>,
) {
    let rows = gradient.rows(tensor);
    for &row in union.into_iter().flatten() {
        match rows.is_some_and(|rows| rows.is_touched(row)) {
            true => buffer.extend_from_slice(&gradient.values[start + row as usize * width..][..width]),
            false => buffer.resize(buffer.len() + width, 0.0),
        }
    }
}

/// The rows of every table that some member touched, each list in order. Costs a bit a row.
fn touched_by_any<E: From<anyhow::Error>>(
    members: &mut impl Gather<E>,
    layout: &Layout,
    gradient: &Gradient,
) -> Result<Vec<Vec<u32>>, E> {
    let tables: Vec<(usize, usize)> = layout
        .tensors()
        .iter()
        .enumerate()
        .filter_map(|(i, tensor)| match tensor.kind {
            TensorKind::Rows { width } => Some((i, tensor.range.len() / width)),
            TensorKind::Dense | TensorKind::Buffer => None,
        })
        .collect();
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = |rows: usize| rows.div_ceil(8);
    let mut bits = vec![0u8; tables.iter().map(|&(_, rows)| bytes(rows)).sum()];
    let mut start = 0;
    for &(tensor, rows) in &tables {
        for &row in gradient.rows(tensor).into_iter().flat_map(|rows| &rows.touched) {
            bits[start + row as usize / 8] |= 1 << (row % 8);
        }
        start += bytes(rows);
    }
    for other in members.gather(Bytes::from(bits.clone()))? {
        if other.len() != bits.len() {
            return Err(anyhow!("a member of the group has another model").into());
        }
        bits.iter_mut().zip(&other).for_each(|(bits, other)| *bits |= other);
    }
    let mut start = 0;
    let mut union = Vec::new();
    for &(_, rows) in &tables {
        let is_set = |row: &u32| bits[start + *row as usize / 8] >> (row % 8) & 1 == 1;
        union.push((0..rows as u32).filter(is_set).collect());
        start += bytes(rows);
    }
    Ok(union)
}

/// Lays what is summed in one buffer: dense tensors, statistics times the weight, rows, and at the end the weight.
fn pack(layout: &Layout, gradient: &Gradient, union: &[Vec<u32>], weight: f32, buffer: &mut Vec<f32>) {
    buffer.clear();
    let mut tables = union.iter();
    for (i, tensor) in layout.tensors().iter().enumerate() {
        let values = &gradient.values[tensor.range.clone()];
        match tensor.kind {
            TensorKind::Dense => buffer.extend_from_slice(values),
            TensorKind::Buffer => buffer.extend(values.iter().map(|value| value * weight)),
            TensorKind::Rows { width } => {
                append_rows(gradient, (i, tensor.range.start, width), tables.next(), buffer);
            }
        }
    }
    buffer.push(weight);
}

/// The way back.
fn unpack(layout: &Layout, gradient: &mut Gradient, union: &[Vec<u32>], buffer: &[f32]) {
    let weight = buffer[buffer.len() - 1];
    gradient.clear();
    gradient.weight = f64::from(weight);
    let (mut tables, mut at) = (union.iter(), 0);
    let mut next = |len: usize| {
        at += len;
        &buffer[at - len..at]
    };
    for (i, tensor) in layout.tensors().iter().enumerate() {
        match tensor.kind {
            TensorKind::Dense => gradient.write(i).copy_from_slice(next(tensor.range.len())),
            TensorKind::Buffer => {
                let sums = next(tensor.range.len());
                let share = if weight > 0.0 { 1.0 / weight } else { 0.0 };
                for (value, sum) in gradient.write(i).iter_mut().zip(sums) {
                    *value = sum * share;
                }
            }
            TensorKind::Rows { width } => {
                for &row in tables.next().into_iter().flatten() {
                    gradient.touch(i, row).copy_from_slice(next(width));
                }
            }
        }
    }
}

/// How many values all hear of all at a time, so that no frame grows with the model.
const GATHERED_PART: usize = 128 << 10;

/// Adasum of the members' mean gradients, tensor by tensor. Everybody hears everybody's and combines them alike.
pub fn combined<E: From<anyhow::Error>>(
    members: &mut impl Gather<E>,
    layout: &Layout,
    gradient: &mut Gradient,
) -> Result<(), E> {
    let union = touched_by_any(members, layout, gradient)?;
    let weight = gradient.weight as f32;
    let mut own = Vec::new();
    pack(layout, gradient, &union, weight, &mut own);
    let mut vectors: Vec<Vec<f32>> = Vec::new();
    for (i, part) in own.chunks(GATHERED_PART).enumerate() {
        let all = members.gather(floats_to_bytes([part]))?;
        vectors.resize(all.len(), vec![0.0; own.len()]);
        for (bytes, vector) in all.iter().zip(&mut vectors) {
            bytes_to_floats(bytes, &mut vector[i * GATHERED_PART..][..part.len()])?;
        }
    }
    let weights: Vec<f32> = vectors.iter().map(|vector| vector[vector.len() - 1]).collect();
    let total: f32 = weights.iter().sum();
    let mut at = 0;
    let mut tables = union.iter();
    for tensor in layout.tensors() {
        let len = match tensor.kind {
            TensorKind::Rows { width } => tables.next().map_or(0, Vec::len) * width,
            TensorKind::Dense | TensorKind::Buffer => tensor.range.len(),
        };
        let part = at..at + len;
        at += len;
        if tensor.kind == TensorKind::Buffer {
            // Statistics are averaged as ever.
            for i in part {
                own[i] = vectors.iter().map(|vector| vector[i]).sum();
            }
            continue;
        }
        let mean = |(vector, weight): (&Vec<f32>, &f32)| {
            let share = if *weight > 0.0 { 1.0 / weight } else { 0.0 };
            vector[part.clone()].iter().map(|value| value * share).collect()
        };
        let mut means: Vec<Vec<f32>> = vectors.iter().zip(&weights).map(mean).collect();
        adasum(&mut means);
        // The optimiser divides by the weight.
        for (own, value) in own[part.clone()].iter_mut().zip(&means[0]) {
            *own = value * total;
        }
    }
    let last = own.len() - 1;
    own[last] = total;
    unpack(layout, gradient, &union, &own);
    Ok(())
}
