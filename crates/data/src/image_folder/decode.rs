use super::resize::Resize;
use super::{Labelled, MEMORY_LIMIT};
use crate::error::{Error, Result};
use std::path::Path;
use std::sync::Mutex;
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

/// All images of some files, one after the other.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Album {
    /// Height, width and channels of each.
    pub size: [usize; 3],
    pub pixels: Vec<u8>,
}

/// What cannot be part of an album.
enum Misfit {
    /// Gray was expected.
    Colored,
    Wrong(Error),
}

/// Decodes files with all cores, each to its place: besides the album, every core holds one image. All must be of one
/// size; they have one channel if all are gray.
pub(super) fn all(files: &[Labelled], resize: Option<Resize>) -> Result<Album> {
    let Some((path, _)) = files.first() else { return Ok(Album { size: [1, 1, 1], ..Album::default() }) };
    let first = read(path, resize)?;
    let guess = if first.is_gray { 1 } else { 3 };
    match with_channels(files, resize, &first, guess) {
        Ok(album) => Ok(album),
        Err(Misfit::Colored) => with_channels(files, resize, &first, 3).map_err(|misfit| match misfit {
            Misfit::Wrong(error) => error,
            Misfit::Colored => Error::Mismatch("data: an image has changed while it was read".to_owned()),
        }),
        Err(Misfit::Wrong(error)) => Err(error),
    }
}

fn with_channels(
    files: &[Labelled],
    resize: Option<Resize>,
    first: &Picture,
    channels: usize,
) -> Result<Album, Misfit> {
    let size = [first.height, first.width, channels];
    let values: usize = size.iter().product();
    let room = values.checked_mul(files.len()).filter(|bytes| *bytes <= MEMORY_LIMIT).ok_or_else(|| {
        let message = format!(
            "{} images of {}×{} do not fit into memory; `resize` makes them smaller",
            files.len(),
            first.height,
            first.width
        );
        Misfit::Wrong(Error::format(files[0].0.parent().unwrap_or(&files[0].0), message))
    })?;
    let mut pixels = vec![0; room];
    let work = Mutex::new(pixels.chunks_exact_mut(values).zip(files).enumerate());
    let worst: Mutex<Option<(usize, Misfit)>> = Mutex::new(None);
    let next = || {
        // Places are handed out in order: whatever comes before the first misfit is looked at.
        let is_over = worst.lock().map_or(true, |worst| worst.is_some());
        if is_over { None } else { work.lock().ok()?.next() }
    };
    let decode_some = || {
        while let Some((number, (place, (path, _)))) = next() {
            let fitted = read(path, resize)
                .map_err(Misfit::Wrong)
                .and_then(|picture| fit(&picture, first, path, &files[0].0, channels, place));
            if let (Err(misfit), Ok(mut worst)) = (fitted, worst.lock())
                && worst.as_ref().is_none_or(|(other, _)| number < *other)
            {
                *worst = Some((number, misfit));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let is_whole = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(decode_some)).collect();
        handles.into_iter().all(|handle| handle.join().is_ok())
    });
    match worst.into_inner().ok().flatten() {
        Some((_, misfit)) => Err(misfit),
        None if is_whole => Ok(Album { size, pixels }),
        None => {
            Err(Misfit::Wrong(Error::Mismatch("data: a thread that decodes images broke down".to_owned())))
        }
    }
}

/// Puts a picture into its place.
fn fit(
    picture: &Picture,
    first: &Picture,
    path: &Path,
    first_path: &Path,
    channels: usize,
    place: &mut [u8],
) -> Result<(), Misfit> {
    let of = |picture: &Picture| format!("{}×{}", picture.height, picture.width);
    if (picture.height, picture.width) != (first.height, first.width) {
        let message = format!(
            "is {}, but {} is {}; make all alike: `data: {{name: …, resize: 64}}`",
            of(picture),
            first_path.display(),
            of(first)
        );
        return Err(Misfit::Wrong(Error::format(path, message)));
    }
    match channels {
        1 if !picture.is_gray => return Err(Misfit::Colored),
        1 => {
            place.iter_mut().zip(picture.pixels.iter().step_by(3)).for_each(|(place, &value)| *place = value)
        }
        _ => place.copy_from_slice(&picture.pixels),
    }
    Ok(())
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
