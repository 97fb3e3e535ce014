//! Where the values of images lie: in memory or in a file, and in which order.

use crate::bytes::Bytes;
use crate::error::Error;
use crate::image_folder::{Album, Encoded};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// How many bytes are read at a time from end to end.
const PIECE: usize = 4 << 20;

/// The order of the values of an image, and how each is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PixelFormat {
    /// `(H, W, C)`, a byte a value.
    #[default]
    Rows,
    /// `(C, H, W)`, a byte a value.
    Planes,
    /// `(C, W, H)`, a byte a value: the order of languages that count columns first.
    Columns,
    /// `(H, W, C)`, four bytes a value: a little-endian `f32`.
    Floats,
}

impl PixelFormat {
    /// How many bytes a value has.
    pub const fn width(self) -> usize {
        match self {
            Self::Rows | Self::Planes | Self::Columns => 1,
            Self::Floats => 4,
        }
    }

    /// How far apart neighbours are, in values: down, to the right, and in the next channel.
    pub const fn strides(self, [height, width, channels]: [usize; 3]) -> [usize; 3] {
        match self {
            Self::Rows | Self::Floats => [width * channels, channels, 1],
            Self::Planes => [width, 1, height * width],
            Self::Columns => [1, height, height * width],
        }
    }
}

/// The values of all images of a half, one record after the other. What is mapped is read by the system as it is
/// needed and forgotten as memory runs short, so it may be larger than memory. So may images in files of their own.
#[derive(Clone, Debug, Default)]
pub struct Pixels {
    bytes: Bytes,
    /// Where they are, if not in `bytes`.
    album: Option<Arc<Album>>,
    /// The records within `bytes`.
    used: Range<usize>,
    /// The bytes of each record before its image.
    lead: usize,
    format: PixelFormat,
    /// Which of the records are meant, in order; all, unless this says so.
    chosen: Option<Arc<[u32]>>,
}

impl Pixels {
    /// Records that end where the bytes end: they begin at `start`, and each image has `lead` bytes before it.
    pub(crate) fn new(bytes: impl Into<Bytes>, start: usize, lead: usize, format: PixelFormat) -> Self {
        let bytes = bytes.into();
        bytes.will_jump();
        let used = start..bytes.len();
        Self { bytes, album: None, used, lead, format, chosen: None }
    }

    /// Numbers instead of bytes.
    pub fn of_floats(values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(bytes, 0, 0, PixelFormat::Floats)
    }

    /// Images in files of their own, decoded when they are wanted.
    pub(crate) fn of_files(album: Album) -> Self {
        Self { album: Some(Arc::new(album)), ..Self::default() }
    }

    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// Whether the values are in files still.
    pub fn is_in_files(&self) -> bool {
        self.album.is_some() || matches!(self.bytes, Bytes::Mapped(_))
    }

    /// Whether each has a file of its own, from which it is decoded when it is wanted.
    pub(crate) fn is_encoded(&self) -> bool {
        self.album.is_some()
    }

    /// Whether all of these images can be had at once.
    pub(crate) fn are_at_hand(&self, numbers: &[u32]) -> bool {
        let is_kept =
            |album: &Arc<Album>| numbers.iter().all(|&number| album.is_kept(self.record(number as usize)));
        self.album.as_ref().is_none_or(is_kept)
    }

    /// Whether each is resized when it is decoded.
    pub(crate) fn is_resized(&self) -> bool {
        self.album.as_ref().is_some_and(|album| album.is_resized())
    }

    /// An image that was wanted and could not be read, if there is one, and what is wrong with its file.
    pub(crate) fn failure(&self) -> Option<(usize, &Error)> {
        let (record, error) = self.album.as_ref()?.failure()?;
        let place = |chosen: &Arc<[u32]>| chosen.iter().position(|&number| number as usize == *record);
        Some((self.chosen.as_ref().map_or(Some(*record), place)?, error))
    }

    /// The bytes of image `number`, each image having so many values.
    pub(crate) fn image(&self, number: usize, values: usize) -> Cow<'_, [u8]> {
        let size = values * self.format.width();
        let number = self.record(number);
        if let Some(album) = &self.album {
            return album.image(number);
        }
        let start = self.used.start + number * (self.lead + size) + self.lead;
        Cow::Borrowed(&self.bytes[self.used.clone()][start - self.used.start..][..size])
    }

    /// Has the system begin to read some images, each of so many values, if they are in a file.
    pub(crate) fn fetch(&self, images: Range<usize>, values: usize) {
        let record = self.lead + values * self.format.width();
        let place = |image: usize| (self.used.start + image * record).min(self.used.end);
        let records = match &self.chosen {
            // Their numbers grow, so those in between are fetched with them.
            Some(chosen) => match chosen.get(images.start..images.end.min(chosen.len())) {
                Some([first, .., last]) => *first as usize..*last as usize + 1,
                Some([only]) => *only as usize..*only as usize + 1,
                _ => return,
            },
            None => images,
        };
        self.bytes.fetch(place(records.start)..place(records.end));
    }

    /// Those of the given numbers, which grow, each of so many values: in the same file, or copied out of memory.
    pub(crate) fn choose(&self, numbers: &[u32], values: usize) -> Self {
        if self.is_in_files() {
            let chosen = numbers.iter().map(|&number| self.record(number as usize) as u32);
            return Self { chosen: Some(chosen.collect()), ..self.clone() };
        }
        let images: Vec<_> = numbers.iter().map(|&number| self.image(number as usize, values)).collect();
        Self::new(images.concat(), 0, 0, self.format)
    }

    /// Whether only some of the records are meant.
    pub(crate) fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// The file of image `number`, where every image has its own.
    pub(crate) fn file(&self, number: usize) -> Option<&Encoded> {
        Some(&self.album.as_ref()?.files()[self.record(number)])
    }

    /// In which record an image is.
    fn record(&self, number: usize) -> usize {
        match &self.chosen {
            Some(chosen) => chosen[number] as usize,
            None => number,
        }
    }

    /// All records, with what stands between them, in pieces: for those who read from end to end. The piece that comes
    /// next is fetched while one is read.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let piece = |start: usize| start..(start + PIECE).min(self.used.end);
        self.bytes.fetch(piece(self.used.start));
        self.used.clone().step_by(PIECE).map(move |start| {
            self.bytes.fetch(piece((start + PIECE).min(self.used.end)));
            &self.bytes[piece(start)]
        })
    }

    /// Keeps the first so many images.
    pub(crate) fn truncate(&mut self, count: usize, values: usize) {
        if self.album.is_some() {
            let all: Vec<u32> = (0..count as u32).collect();
            *self = self.choose(&all, values);
            return;
        }
        let end = self.used.start + count * (self.lead + values * self.format.width());
        self.used.end = self.used.end.min(end);
    }
}

/// All records, with what stands between them.
impl AsRef<[u8]> for Pixels {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.used.clone()]
    }
}

impl From<Vec<u8>> for Pixels {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes, 0, 0, PixelFormat::Rows)
    }
}

/// Equal are the same records in the same format, wherever they lie.
impl PartialEq for Pixels {
    fn eq(&self, other: &Self) -> bool {
        let same = self.as_ref() == other.as_ref() && self.chosen == other.chosen;
        same && self.album == other.album && (self.lead, self.format) == (other.lead, other.format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_between_other_bytes() {
        let bytes: Vec<u8> = (0..16).collect();
        let mut pixels = Pixels::new(bytes, 1, 2, PixelFormat::Rows);
        assert_eq!(*pixels.image(0, 3), [3, 4, 5]);
        assert_eq!(*pixels.image(2, 3), [13, 14, 15]);
        pixels.truncate(2, 3);
        assert_eq!(pixels.as_ref(), (1..11).collect::<Vec<u8>>());
        assert_eq!(pixels.pieces().collect::<Vec<_>>(), [pixels.as_ref()]);
        let large = Pixels::new(vec![5; 2 * PIECE + 3], 2, 0, PixelFormat::Rows);
        assert_eq!(large.pieces().map(<[u8]>::len).collect::<Vec<_>>(), [PIECE, PIECE, 1]);
        assert_eq!(*Pixels::of_floats(&[1.0, 2.0]).image(1, 1), 2f32.to_le_bytes());
    }
}
