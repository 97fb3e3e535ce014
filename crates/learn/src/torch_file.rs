//! Weights that PyTorch saved with `torch.save(model.state_dict(), "model.pt")`.
//!
//! Such a file is a ZIP archive (`zip`) of raw numbers and of a pickle (`pickle`), which says what they mean. A pickle
//! is a program. Only the instructions that build dicts and tensors are understood, and nothing is ever executed. Every
//! length in the file is checked against the length of the file before it is used.

mod pickle;
mod scalar;
#[cfg(test)]
mod tests;
mod zip;

use std::collections::HashSet;

use pickle::{Pickle, PickleValue, StorageView};
use zip::Archive;
pub use zip::unpacked;

pub use scalar::ScalarType;

/// A named tensor with its values in PyTorch's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// The first bytes of every archive.
pub const ARCHIVE: &[u8] = b"PK\x03\x04";

/// The first bytes of what PyTorch wrote before version 1.6.
pub const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// Where training scripts put the state dict in a checkpoint; the last is how one of them spells it.
const NESTED: [&str; 4] = ["state_dict", "model_state_dict", "model", "model_sate_dict"];

/// What `DataParallel` puts before every name.
const PARALLEL: &str = "module.";

/// The tensors of a state dict, or of a checkpoint that holds one, from the bytes of its file.
pub fn parse(bytes: &[u8]) -> Result<Vec<Weight>, String> {
    if bytes.starts_with(LEGACY) {
        return Err(
            "is in the format of PyTorch before 1.6; load it and save it again with a newer torch, or as safetensors"
                .to_owned(),
        );
    }
    let archive = Archive::open(bytes)?;
    let (folder, pickle) = archive.find("data.pkl").ok_or("has no data.pkl, so it is not of PyTorch")?;
    let pickle = Pickle::read(pickle)?;
    if archive.get(&format!("{folder}byteorder")).is_some_and(|order| order != b"little") {
        return Err("was written on a big-endian machine; save it again on another".to_owned());
    }
    let views = state_dict(&pickle)?;
    let parallel = views.iter().all(|(name, _)| name.starts_with(PARALLEL));
    // Views may share their numbers, and a small file could ask for any amount of memory.
    let mut limit = bytes.len();
    let mut weights = Vec::new();
    for (name, view) in views {
        let values =
            values(&archive, folder, view, &mut limit).map_err(|error| format!("{name}: {error}"))?;
        let name = if parallel { &name[PARALLEL.len()..] } else { name };
        weights.push(Weight { name: name.to_owned(), shape: view.shape.clone(), values });
    }
    Ok(weights)
}

/// The tensors of the state dict with their names.
fn state_dict(pickle: &Pickle) -> Result<Vec<(&str, &StorageView)>, String> {
    let PickleValue::Dict(top) = pickle.top() else {
        return Err("holds no state dict; save model.state_dict()".to_owned());
    };
    let nested = |key: &&str| {
        top.iter().rev().find_map(|&(k, v)| match (pickle.value(k), pickle.value(v)) {
            (PickleValue::Text(text), PickleValue::Dict(dict)) if **text == **key => Some(dict),
            _ => None,
        })
    };
    let dict = NESTED.iter().find_map(nested).unwrap_or(top);
    let mut seen = HashSet::new();
    let mut views = Vec::new();
    for &(key, value) in dict {
        let PickleValue::Text(name) = pickle.value(key) else {
            return Err("holds a dict whose keys are not names; save model.state_dict()".to_owned());
        };
        let PickleValue::Tensor(view) = pickle.value(value) else {
            let keys = NESTED.join(", ");
            return Err(format!(
                "{name:?} is no tensor; save model.state_dict(), alone or in a dict under one of {keys}"
            ));
        };
        if !seen.insert(name) {
            return Err(format!("has two tensors named {name}"));
        }
        views.push((&**name, view));
    }
    if views.is_empty() {
        return Err("holds a state dict without tensors".to_owned());
    }
    Ok(views)
}

/// The values of a tensor, row by row, wherever they lie. `limit` is how many more the file may ask for.
fn values(
    archive: &Archive<'_>,
    folder: &str,
    view: &StorageView,
    limit: &mut usize,
) -> Result<Vec<f32>, String> {
    let StorageView { storage, offset, shape, strides } = view;
    let entry = format!("{folder}data/{}", storage.key);
    let bytes = archive.get(&entry).ok_or_else(|| format!("{entry} is missing"))?;
    let size = storage.scalar.size();
    if storage.len.checked_mul(size) != Some(bytes.len()) {
        return Err(format!("{entry} has {} bytes, expected {} numbers of {size}", bytes.len(), storage.len));
    }
    let count = shape.iter().try_fold(1usize, |count, &len| count.checked_mul(len));
    let count = count
        .filter(|count| count <= limit)
        .ok_or("is larger than the whole file; save a copy of it (clone) instead of a view")?;
    *limit -= count;
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut steps = shape.iter().zip(strides).map(|(len, stride)| (len - 1).checked_mul(*stride));
    let last = steps.try_fold(*offset, |last, step| last.checked_add(step?));
    if shape.len() != strides.len() || last.is_none_or(|last| last >= storage.len) {
        return Err(format!("lies outside of {entry}"));
    }
    // The stride of an axis of one may be anything, and is never taken.
    let strides: Vec<usize> =
        shape.iter().zip(strides).map(|(&len, &stride)| if len == 1 { 0 } else { stride }).collect();
    let (mut place, mut at) = (vec![0; shape.len()], *offset);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(storage.scalar.float(&bytes[at * size..][..size]));
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            at += strides[axis];
            if place[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            place[axis] = 0;
        }
    }
    Ok(values)
}
