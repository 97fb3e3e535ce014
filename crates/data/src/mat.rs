//! Arrays of numbers in MATLAB files of level 5, the format before the present one and the one that data sets use.
//!
//! Behind a header of 128 bytes stand elements: a tag that says the type and the number of bytes, and the bytes, filled
//! up to a multiple of eight. An array is an element of elements (flags, sizes, name, numbers), and is mostly packed
//! with zlib as a whole. A tag can claim anything: memory grows only with the bytes that really arrive.

use crate::error::{Error, Result};
use crate::source::file;
use flate2::bufread::ZlibDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The types of elements that are not numbers.
const ARRAY: u32 = 14;
const PACKED: u32 = 15;

/// No array with more dimensions or with a longer name is read.
const DIMENSION_LIMIT: usize = 32;
const NAME_LIMIT: usize = 256;

/// An array of numbers. The first dimension is the one that changes fastest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    pub name: String,
    pub sizes: Vec<usize>,
    kind: MatType,
    bytes: Vec<u8>,
}

/// The types of numbers, little-endian all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    F32,
    F64,
}

impl MatType {
    fn of(tag: u32) -> Option<Self> {
        Some(match tag {
            1 => Self::I8,
            2 => Self::U8,
            3 => Self::I16,
            4 => Self::U16,
            5 => Self::I32,
            6 => Self::U32,
            7 => Self::F32,
            9 => Self::F64,
            _ => return None,
        })
    }

    fn width(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    fn number(self, bytes: &[u8]) -> f64 {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        let [a, b, c, d, ..] = eight;
        match self {
            Self::I8 => f64::from(a as i8),
            Self::U8 => f64::from(a),
            Self::I16 => f64::from(i16::from_le_bytes([a, b])),
            Self::U16 => f64::from(u16::from_le_bytes([a, b])),
            Self::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
            Self::U32 => f64::from(u32::from_le_bytes([a, b, c, d])),
            Self::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            Self::F64 => f64::from_le_bytes(eight),
        }
    }
}

impl Array {
    /// All numbers, whatever their type.
    pub(crate) fn numbers(&self, path: &Path) -> Result<Vec<f64>> {
        self.check(path)?;
        Ok(self.bytes.chunks_exact(self.kind.width()).map(|bytes| self.kind.number(bytes)).collect())
    }

    /// The numbers of an array of bytes.
    pub(crate) fn into_bytes(self, path: &Path) -> Result<Vec<u8>> {
        self.check(path)?;
        if self.kind != MatType::U8 {
            let message =
                format!("{} holds numbers of the type {:?}, expected bytes (uint8)", self.name, self.kind);
            return Err(Error::format(path, message));
        }
        Ok(self.bytes)
    }

    /// There must be as many numbers as the sizes say.
    fn check(&self, path: &Path) -> Result<()> {
        let expected = self.sizes.iter().try_fold(self.kind.width(), |bytes, &size| bytes.checked_mul(size));
        if expected == Some(self.bytes.len()) {
            return Ok(());
        }
        let message = format!(
            "{} has the sizes {:?}, but {} bytes of numbers",
            self.name,
            self.sizes,
            self.bytes.len()
        );
        Err(Error::format(path, message))
    }
}

/// Reads the arrays of these names.
pub(crate) fn read<const N: usize>(path: &Path, names: [&str; N]) -> Result<[Array; N]> {
    let mut found: [Option<Array>; N] = std::array::from_fn(|_| None);
    let wrong = |message: String| Error::format(path, message);
    let mut reader = file::open(path)?;
    read_header(&mut *reader).map_err(wrong)?;
    while found.iter().any(Option::is_none) && !reader.fill_buf().map_err(Error::io(path))?.is_empty() {
        let Some(array) = read_element(&mut *reader).map_err(wrong)? else { continue };
        if let Some(place) = names.iter().position(|name| *name == array.name) {
            found[place] = Some(array);
        }
    }
    if let Some(place) = found.iter().position(Option::is_none) {
        return Err(wrong(format!("holds no array {}", names[place])));
    }
    // All are there, so none is left out.
    let mut found = found.into_iter().flatten();
    Ok(std::array::from_fn(|_| found.next().unwrap_or_else(|| unreachable!("every array was found"))))
}

fn read_header(reader: &mut dyn BufRead) -> Result<(), String> {
    let mut header = [0; 128];
    reader.read_exact(&mut header).map_err(|error| format!("its header cannot be read: {error}"))?;
    if &header[126..] == b"MI" {
        return Err("is written with the highest byte first, expected the lowest first".to_owned());
    }
    if header[124..] != *b"\x00\x01IM" {
        let hint = if header.starts_with(b"MATLAB 7.3") { " (save it with -v7)" } else { "" };
        return Err(format!("not a MATLAB file of level 5{hint}"));
    }
    Ok(())
}

/// The next element of the file, if it is an array of numbers.
fn read_element(reader: &mut dyn BufRead) -> Result<Option<Array>, String> {
    let Tag { kind, size, .. } = read_tag(reader)?;
    let mut bounded = reader.take(u64::from(size));
    if kind != PACKED {
        return read_array(kind, size, &mut bounded);
    }
    let mut unpacked = BufReader::new(ZlibDecoder::new(&mut bounded));
    let Tag { kind, size, .. } = read_tag(&mut unpacked)?;
    let array = read_array(kind, size, &mut unpacked)?;
    drop(unpacked);
    skip(&mut bounded)?;
    Ok(array)
}

/// The content of an element: an array of numbers, or something that is passed over.
fn read_array(kind: u32, size: u32, reader: &mut dyn Read) -> Result<Option<Array>, String> {
    let mut inner = reader.take(u64::from(size));
    let array = if kind == ARRAY { read_numbers(&mut inner)? } else { None };
    skip(&mut inner)?;
    Ok(array)
}

fn read_numbers(reader: &mut dyn Read) -> Result<Option<Array>, String> {
    let (_, flags) = read_part(reader, 8)?;
    // Of the classes 6 to 15 are arrays of numbers; the rest are text, structures and what is made of them.
    if !flags.first().is_some_and(|class| (6..=15).contains(class)) {
        return Ok(None);
    }
    let (_, sizes) = read_part(reader, 4 * DIMENSION_LIMIT)?;
    let (_, name) = read_part(reader, NAME_LIMIT)?;
    let (kind, bytes) = read_part(reader, usize::MAX)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    let Some(kind) = MatType::of(kind) else {
        return Err(format!("the array {name:?} holds values of the unknown type {kind}"));
    };
    let (sizes, _) = sizes.as_chunks();
    let sizes = sizes.iter().map(|&size| u32::from_le_bytes(size) as usize).collect();
    Ok(Some(Array { name, sizes, kind, bytes }))
}

/// The type and size of an element. Up to four bytes of content may stand in the tag itself.
struct Tag {
    kind: u32,
    size: u32,
    inside: Option<[u8; 4]>,
}

fn read_tag(reader: &mut dyn Read) -> Result<Tag, String> {
    let mut tag = [0; 8];
    reader.read_exact(&mut tag).map_err(|error| format!("breaks off in a tag: {error}"))?;
    let [a, b, c, d, inside @ ..] = tag;
    let small = u16::from_le_bytes([c, d]);
    if small > 4 {
        return Err(format!("not a tag: {tag:02x?}"));
    }
    Ok(match small {
        0 => Tag { kind: u32::from_le_bytes([a, b, c, d]), size: u32::from_le_bytes(inside), inside: None },
        size => {
            let kind = u32::from(u16::from_le_bytes([a, b]));
            Tag { kind, size: u32::from(size), inside: Some(inside) }
        }
    })
}

/// The type and content of the next part of an array.
fn read_part(reader: &mut dyn Read, limit: usize) -> Result<(u32, Vec<u8>), String> {
    let Tag { kind, size, inside } = read_tag(reader)?;
    let len = size as usize;
    if len > limit {
        return Err(format!("a part of an array has {size} bytes, expected at most {limit}"));
    }
    if let Some(inside) = inside {
        return Ok((kind, inside[..len].to_vec()));
    }
    let mut bytes = Vec::new();
    reader
        .take(u64::from(size).next_multiple_of(8))
        .read_to_end(&mut bytes)
        .map_err(|error| format!("breaks off after {} of {size} bytes: {error}", bytes.len()))?;
    // What fills up the last element of a packed array may be missing.
    if bytes.len() < len {
        return Err(format!("truncated: {size} bytes were promised, {} follow", bytes.len()));
    }
    bytes.truncate(len);
    Ok((kind, bytes))
}

fn skip(reader: &mut dyn Read) -> Result<(), String> {
    std::io::copy(reader, &mut std::io::sink())
        .map(|_| ())
        .map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
pub(crate) mod tests;
