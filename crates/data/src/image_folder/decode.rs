use super::resize::Resize;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_png::PngDecoder;

/// No side of an image is longer: what claims more is damaged, or meant to fill the memory.
const SIDE_LIMIT: usize = 16_384;

/// How every PNG begins.
const PNG: &[u8] = b"\x89PNG";

/// An image in memory, `(H, W, 3)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    pub height: usize,
    pub width: usize,
    pub pixels: Vec<u8>,
    /// Whether its three channels are one.
    pub is_gray: bool,
}

/// What a file says of its image before that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub height: usize,
    pub width: usize,
    pub is_gray: bool,
}

/// How much of a file is read to see its size, and to see its end. A head is longer if a camera put a preview there.
const HEAD: u64 = 1 << 15;
const END: u64 = 1 << 11;

/// What a file claims to hold. One that does not end as it should is decoded, to be sure.
pub(super) fn look(path: &Path) -> Result<Sight> {
    let wrong = |message: String| Error::format(path, message);
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head).map_err(Error::io(path))?;
    let length = file.metadata().map_err(Error::io(path))?.len();
    let seen = sight(&head);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(END))).map_err(Error::io(path))?;
    file.take(END).read_to_end(&mut end).map_err(Error::io(path))?;
    let mark: &[u8] = if head.starts_with(PNG) { b"IEND" } else { &[0xFF, 0xD9] };
    match seen {
        Some(sight) if memchr::memmem::find(&end, mark).is_some() => Ok(sight),
        _ => {
            let Picture { height, width, is_gray, .. } =
                decode(&std::fs::read(path).map_err(Error::io(path))?).map_err(wrong)?;
            Ok(Sight { height, width, is_gray })
        }
    }
}

/// What the first bytes of an image say of it, if they do.
fn sight(head: &[u8]) -> Option<Sight> {
    let sight = if head.starts_with(PNG) { png_sight(head)? } else { jpeg_sight(head)? };
    let is_side = |side: usize| (1..=SIDE_LIMIT).contains(&side);
    (is_side(sight.height) && is_side(sight.width)).then_some(sight)
}

/// Signature, length and name of the first chunk, then width, height, bits and the kind of colours.
fn png_sight(head: &[u8]) -> Option<Sight> {
    let number = |at: usize| Some(u32::from_be_bytes(*head.get(at..)?.first_chunk()?) as usize);
    let is_gray = matches!(head.get(25)?, 0 | 4);
    Some(Sight { height: number(20)?, width: number(16)?, is_gray })
}

fn jpeg_sight(head: &[u8]) -> Option<Sight> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(head), options());
    decoder.decode_headers().ok()?;
    let (info, colors) = (decoder.info()?, decoder.input_colorspace()?);
    Some(Sight { height: info.height.into(), width: info.width.into(), is_gray: colors == ColorSpace::Luma })
}

/// The image of a file that was read.
pub(crate) fn read(path: &Path, bytes: &[u8], resize: Option<Resize>) -> Result<Picture> {
    let picture = decode(bytes).map_err(|message| Error::format(path, message))?;
    Ok(match resize {
        Some(resize) => resize.apply(&picture),
        None => picture,
    })
}

/// Decodes PNG or JPEG; the content tells which.
pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Picture, String> {
    if bytes.starts_with(PNG) {
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

/// What a decoder says of a broken file, without the empty lines that it may end with.
fn not_whole(kind: &str, error: &dyn std::fmt::Debug) -> String {
    format!("is not a whole {kind}: {}", format!("{error:?}").trim_end())
}

fn png(bytes: &[u8]) -> std::result::Result<Picture, String> {
    let broken = |error: &dyn std::fmt::Debug| not_whole("PNG", error);
    let mut decoder =
        PngDecoder::new_with_options(ZCursor::new(bytes), options().png_set_strip_to_8bit(true));
    let raw = decoder.decode_raw().map_err(|error| broken(&error))?;
    let (width, height) = decoder.dimensions().ok_or("has no size")?;
    let colors = decoder.colorspace().ok_or("has no colours")?;
    picture(raw, height, width, colors)
}

fn jpeg(bytes: &[u8]) -> std::result::Result<Picture, String> {
    let broken = |error: &dyn std::fmt::Debug| not_whole("JPEG", error);
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
