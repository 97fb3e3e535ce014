//! Archives of `tar`, read from front to back.

use anyhow::{Context, Result, bail, ensure};
use std::io::Read;

const BLOCK: usize = 512;

/// No archive here has so many.
const MOST_FILES: usize = 10_000;

/// Gives the name, without folders, and the content of every file to `take`. What it does not read is passed over.
pub(super) fn each_file(
    mut from: impl Read,
    mut take: impl FnMut(&str, &mut dyn Read) -> Result<()>,
) -> Result<()> {
    let mut header = [0; BLOCK];
    for _ in 0..MOST_FILES {
        from.read_exact(&mut header).context("is not a whole archive")?;
        if header == [0; BLOCK] {
            return Ok(());
        }
        let size = size(&header)?;
        let mut content = (&mut from).take(size);
        // A file is 0, or nothing in old archives; folders, links and remarks are passed over.
        if matches!(header[156], b'0' | 0) {
            let name = text(&header[..100])?;
            take(name.rsplit('/').next().unwrap_or_default(), &mut content)?;
        }
        let left = content.limit() + size.next_multiple_of(BLOCK as u64) - size;
        let passed = std::io::copy(&mut (&mut from).take(left), &mut std::io::sink())?;
        ensure!(passed == left, "is not a whole archive");
    }
    bail!("has more than {MOST_FILES} files")
}

/// Up to the first zero.
fn text(field: &[u8]) -> Result<&str> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).context("has a name that is no text")
}

/// The size of what follows, if the header is one.
fn size(header: &[u8; BLOCK]) -> Result<u64> {
    let octal = |field: &[u8]| u64::from_str_radix(text(field)?.trim(), 8).context("is no archive of tar");
    let blank = |place: usize| (148..156).contains(&place);
    let sum = header
        .iter()
        .enumerate()
        .map(|(i, &byte)| u64::from(if blank(i) { b' ' } else { byte }))
        .sum::<u64>();
    ensure!(octal(&header[148..156])? == sum, "is no archive of tar: a checksum is wrong");
    octal(&header[124..136])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An archive as `tar` writes it.
    pub(crate) fn archive_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, content) in files {
            let mut header = [0; BLOCK];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[148..156].fill(b' ');
            header[156] = if name.ends_with('/') { b'5' } else { b'0' };
            let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            bytes.extend(header);
            bytes.extend(*content);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        bytes
    }

    #[test]
    fn files_are_found_and_damage_is_noticed() {
        let archive = archive_of(&[("a/", b""), ("a/one.bin", &[7; 700]), ("a/two.bin", b"2")]);
        let mut found = Vec::new();
        let read = |bytes: &[u8], found: &mut Vec<(String, usize)>| {
            each_file(bytes, |name, content| {
                let mut all = Vec::new();
                // Of the first only a part is wanted.
                content.take(if name == "one.bin" { 10 } else { 100 }).read_to_end(&mut all)?;
                found.push((name.to_owned(), all.len()));
                Ok(())
            })
        };
        read(&archive, &mut found).unwrap();
        assert_eq!(found, [("one.bin".to_owned(), 10), ("two.bin".to_owned(), 1)]);
        for end in [0, 100, 600, 1100, archive.len() - 1024] {
            assert!(read(&archive[..end], &mut Vec::new()).is_err(), "cut at {end}");
        }
        let mut damaged = archive.clone();
        damaged[520] ^= 1;
        assert!(read(&damaged, &mut Vec::new()).unwrap_err().to_string().contains("a checksum is wrong"));
    }
}
