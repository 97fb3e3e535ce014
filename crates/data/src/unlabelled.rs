//! Samples without labels, in the form of a data set: what a trained model is asked about.

use crate::error::{Error, Result};
use crate::image_folder::{self, Resize};
use crate::pixels::{PixelFormat, Pixels};
use crate::source::text;
use crate::{Dataset, Images, Samples, Sentences, Source, Texts, Vocabulary, idx, prepared, reviews};
use std::path::Path;

impl Dataset {
    /// Texts as numbers of words; one without any known word is an unknown one.
    pub fn texts(&self, source: &Source, texts: &[String]) -> Result<Samples> {
        let reading = prepared::reading(source)?;
        let (mut starts, mut words) = (vec![0], Vec::new());
        for text in texts {
            let before = words.len();
            match &reading {
                Some((mapper, length)) => {
                    let mut cleaned = Vec::new();
                    mapper.clean(text, &mut cleaned);
                    let cleaned = String::from_utf8_lossy(&cleaned);
                    words.extend(cleaned.split_whitespace().take(*length).map(|word| self.number(word)));
                }
                None => {
                    let text = reviews::normal(text, source.lower_case);
                    words.extend(text::kept_words(source, &text).map(|word| self.number(word)));
                }
            }
            if words.len() == before {
                words.push(Vocabulary::UNKNOWN);
            }
            starts.push(words.len() as u32);
        }
        Ok(Samples::Texts(Texts { starts, words: words.into(), labels: vec![0; texts.len()] }))
    }

    /// Sentences, cut into words, as numbers.
    pub fn sentences(&self, source: &Source, sentences: &[Vec<String>]) -> Samples {
        let mut found = Sentences { starts: vec![0], ..Sentences::default() };
        for words in sentences {
            found.words.extend(words.iter().map(|word| self.number(&text::fold(word, source.lower_case))));
            found.starts.push(found.words.len() as u32);
        }
        found.tags = vec![0; found.words.len()];
        Samples::Sentences(found)
    }

    /// Rows of numbers, as many as the table has columns.
    pub fn rows(&self, rows: &[Vec<f32>]) -> Result<Samples> {
        let form = self.images()?;
        if let Some(row) = rows.iter().find(|row| row.len() != form.channels) {
            let message = format!("a row has {} numbers, the data have {}", row.len(), form.channels);
            return Err(Error::mismatch(message));
        }
        let pixels = Pixels::of_floats(&rows.concat());
        Ok(Samples::Images(Images { pixels, labels: vec![0; rows.len()], augment: None, ..form.clone() }))
    }

    /// The images of a file, PNG, JPEG or IDX, in the size of the data set's.
    pub fn image_file(&self, path: &Path) -> Result<Samples> {
        let form = self.images()?;
        let [height, width, channels] = form.size();
        let begin = std::fs::read(path).map_err(Error::io(path))?;
        if begin.starts_with(b"\x89PNG") || begin.starts_with(&[0xFF, 0xD8]) {
            return self.image(&begin).map_err(|message| Error::format(path, message));
        }
        let (sizes, start, bytes) = idx::read_values(path, "images", &[3, 4])?;
        let [count, rest @ ..] = &sizes[..] else { return Err(Error::format(path, "holds no images")) };
        let expect: &[u64] = &[height as u64, width as u64, channels as u64][..rest.len()];
        if rest != expect || (rest.len() == 2 && channels != 1) {
            let message = format!("its images are {rest:?}, those of the data {height}×{width}×{channels}");
            return Err(Error::format(path, message));
        }
        in_form(form, bytes[start..].to_vec(), PixelFormat::Rows, *count as usize)
    }

    /// An image, PNG or JPEG, in the size of the data set's; or what is wrong with it.
    pub fn image(&self, bytes: &[u8]) -> std::result::Result<Samples, String> {
        let form = self.images().map_err(|error| error.to_string())?;
        let [height, width, channels] = form.size();
        let picture = image_folder::decode(bytes)?;
        let picture = Resize([height, width]).apply(&picture);
        let bytes: Vec<u8> = match channels {
            1 => picture.pixels.chunks_exact(3).map(luma).collect(),
            3 => picture.pixels,
            _ => return Err(format!("the data have {channels} channels, not 1 or 3")),
        };
        in_form(form, bytes, PixelFormat::Rows, 1).map_err(|error| error.to_string())
    }

    fn number(&self, word: &str) -> u32 {
        self.vocabulary.as_ref().map_or(Vocabulary::UNKNOWN, |words| words.number(word))
    }

    fn images(&self) -> Result<&Images> {
        match &*self.train {
            Samples::Images(images) => Ok(images),
            _ => Err(Error::mismatch(format!("data {}: are texts, not images", self.name))),
        }
    }
}

/// How bright a place looks, as Pillow has it.
fn luma(place: &[u8]) -> u8 {
    let [red, green, blue] = [0, 1, 2].map(|i| u32::from(place[i]));
    ((red * 19_595 + green * 38_470 + blue * 7_471 + (1 << 15)) >> 16) as u8
}

/// Bytes of so many images as samples; scaled as the others are.
fn in_form(form: &Images, bytes: Vec<u8>, format: PixelFormat, count: usize) -> Result<Samples> {
    // Where the others are numbers, a byte is one, too.
    let pixels = match form.pixels.format() {
        PixelFormat::Floats => {
            Pixels::of_floats(&bytes.iter().map(|&byte| f32::from(byte)).collect::<Vec<f32>>())
        }
        _ => Pixels::new(bytes, 0, 0, format),
    };
    Ok(Samples::Images(Images { pixels, labels: vec![0; count], augment: None, ..form.clone() }))
}
