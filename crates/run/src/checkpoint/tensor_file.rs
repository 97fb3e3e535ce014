//! Safetensors files, written one tensor after the other. Their content is summed up on the way.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use sha2::{Digest, Sha256};

use super::digest::hex;

/// How many numbers are turned into bytes at a time.
const CHUNK: usize = 1 << 14;

/// What was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// A tensor by name and shape, with its values in the order of the file. There is no second copy of them.
pub(super) struct TensorOut<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) values: Box<dyn Iterator<Item = f32> + 'a>,
}

/// Writes a file with one entry of metadata.
pub(super) fn write(
    out: &mut impl Write,
    (key, value): (&str, String),
    mut tensors: Vec<TensorOut<'_>>,
) -> io::Result<Written> {
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let mut end = 0;
    let mut info = |shape: &[usize]| {
        let start = end;
        end += 4 * shape.iter().product::<usize>();
        TensorInfo { dtype: Dtype::F32, shape: shape.to_vec(), data_offsets: (start, end) }
    };
    let infos = tensors.iter().map(|tensor| (tensor.name.clone(), info(&tensor.shape))).collect();
    let metadata = HashMap::from([(key.to_owned(), value)]);
    let metadata = Metadata::new(Some(metadata), infos).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(8), b' ');

    let mut out = Summing { out: BufWriter::with_capacity(4 * CHUNK, out), sum: Sha256::new(), bytes: 0 };
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in tensors {
        write_floats(&mut out, tensor.values)?;
    }
    out.flush()?;
    Ok(Written { bytes: out.bytes, sha256: hex(&out.sum.finalize()) })
}

fn write_floats(out: &mut impl Write, mut values: impl Iterator<Item = f32>) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * CHUNK);
    loop {
        bytes.clear();
        bytes.extend(values.by_ref().take(CHUNK).flat_map(f32::to_le_bytes));
        if bytes.is_empty() {
            return Ok(());
        }
        out.write_all(&bytes)?;
    }
}

/// Sums up what is written through it.
struct Summing<W> {
    out: W,
    sum: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::hex_digest;
    use safetensors::tensor::TensorView;

    #[test]
    fn the_bytes_are_those_of_the_safetensors_library() {
        let many: Vec<f32> = (0..CHUNK + 3).map(|i| i as f32).collect();
        let tensors = [("b", vec![many.len()], many), ("a", vec![1, 2], vec![0.5, -1.0])];
        let bytes = tensors
            .each_ref()
            .map(|(.., values)| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() });
        let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
            (*name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor"))
        });
        let metadata = HashMap::from([("key".to_owned(), "value".to_owned())]);
        let expect = safetensors::serialize(views, Some(metadata)).expect("a file");

        let mut file = Vec::new();
        let tensors = tensors.iter().map(|(name, shape, values)| TensorOut {
            name: (*name).to_owned(),
            shape: shape.clone(),
            values: Box::new(values.iter().copied()),
        });
        let written = write(&mut file, ("key", "value".to_owned()), tensors.collect()).expect("written");
        assert!(file == expect);
        assert_eq!((written.bytes, written.sha256), (expect.len() as u64, hex_digest(&expect)));
    }
}
