use super::resize::Resize;
use super::{Labelled, MEMORY_LIMIT};
use crate::error::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_png::PngDecoder;

/// No side of an image is longer: what claims more is damaged, or meant to fill the memory.
const SIDE_LIMIT: usize = 16_384;

/// An image in memory, `(H, W, 3)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub height: usize,
    pub width: usize,
    pub pixels: Vec<u8>,
    /// Whether its three channels are one.
    pub is_gray: bool,
}

/// Decodes files, with all cores, in their order.
pub(super) fn all(files: &[Labelled], resize: Option<Resize>) -> Result<Vec<Picture>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(files.len().max(1));
    let share = files.len().div_ceil(threads).max(1);
    let used = AtomicUsize::new(0);
    let decode_some = |files: &[Labelled]| {
        let decode = |(path, _): &Labelled| {
            let picture = read(path, resize)?;
            if used.fetch_add(picture.pixels.len(), Ordering::Relaxed) > MEMORY_LIMIT {
                let message =
                    "is one too many: the images do not fit into memory; `resize` makes them smaller";
                return Err(Error::format(path, message));
            }
            Ok(picture)
        };
        files.iter().map(decode).collect::<Result<Vec<Picture>>>()
    };
    let parts: Vec<Result<Vec<Picture>>> = thread::scope(|scope| {
        let handles: Vec<_> = files.chunks(share).map(|files| scope.spawn(|| decode_some(files))).collect();
        let broken = || Err(Error::Mismatch("data: a thread that decodes images broke down".to_owned()));
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| broken())).collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Reads one file.
pub(crate) fn read(path: &Path, resize: Option<Resize>) -> Result<Picture> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    let picture = decode(&bytes).map_err(|message| Error::format(path, message))?;
    Ok(match resize {
        Some(resize) => resize.apply(&picture),
        None => picture,
    })
}

/// Decodes PNG or JPEG; the content tells which.
pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Picture, String> {
    if bytes.starts_with(b"\x89PNG") {
        png(bytes)
    } else if bytes.starts_with(&[0xFF, 0xD8]) {
        jpeg(bytes)
    } else {
        Err("is neither PNG nor JPEG".to_owned())
    }
}

fn options() -> DecoderOptions {
    DecoderOptions::default().set_max_width(SIDE_LIMIT).set_max_height(SIDE_LIMIT)
}

fn png(bytes: &[u8]) -> std::result::Result<Picture, String> {
    let broken = |error: &dyn std::fmt::Debug| format!("is not a whole PNG: {error:?}");
    let mut decoder =
        PngDecoder::new_with_options(ZCursor::new(bytes), options().png_set_strip_to_8bit(true));
    let raw = decoder.decode_raw().map_err(|error| broken(&error))?;
    let (width, height) = decoder.dimensions().ok_or("has no size")?;
    let colors = decoder.colorspace().ok_or("has no colours")?;
    picture(raw, height, width, colors)
}

fn jpeg(bytes: &[u8]) -> std::result::Result<Picture, String> {
    let broken = |error: &dyn std::fmt::Debug| format!("is not a whole JPEG: {error:?}");
    let options = options().set_strict_mode(true).jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| broken(&error))?;
    let is_gray = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let raw = decoder.decode().map_err(|error| broken(&error))?;
    let info = decoder.info().ok_or("has no size")?;
    let (height, width) = (usize::from(info.height), usize::from(info.width));
    let found = picture(raw, height, width, ColorSpace::RGB)?;
    Ok(Picture { is_gray, ..found })
}

/// Pixels of any colours as three channels. What is transparent is shown as its colour.
fn picture(
    raw: Vec<u8>,
    height: usize,
    width: usize,
    colors: ColorSpace,
) -> std::result::Result<Picture, String> {
    let (is_gray, step) = match colors {
        ColorSpace::Luma => (true, 1),
        ColorSpace::LumaA => (true, 2),
        ColorSpace::RGB => (false, 3),
        ColorSpace::RGBA => (false, 4),
        other => return Err(format!("has colours of the kind {other:?}, which are not read")),
    };
    if raw.len() != height * width * step || raw.is_empty() {
        return Err(format!("has {} bytes of pixels for {height}×{width}", raw.len()));
    }
    let pixels = match step {
        3 => raw,
        4 => raw.chunks_exact(4).flat_map(|place| [place[0], place[1], place[2]]).collect(),
        _ => raw.chunks_exact(step).flat_map(|place| [place[0]; 3]).collect(),
    };
    Ok(Picture { height, width, pixels, is_gray })
}
