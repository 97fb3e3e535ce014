use std::collections::BTreeMap;
use std::io::Read;

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// The entries of a ZIP archive that are stored as they are; PyTorch packs none.
#[derive(Debug)]
pub(super) struct Archive<'a> {
    entries: BTreeMap<&'a str, &'a [u8]>,
}

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";

const END_LEN: usize = 22;
const LOCATOR_64_LEN: usize = 20;

/// The longest comment that may follow the end record.
const COMMENT_LIMIT: usize = u16::MAX as usize;

/// Stands for a number of 64 bits, which is in the extra field.
const ELSEWHERE: u64 = u32::MAX as u64;

const ENCRYPTED: u64 = 1;
const STORED: u64 = 0;
const DEFLATED: u64 = 8;

/// The error for an archive that was cut short, or whose directory is damaged.
const BROKEN: &str = "is not a whole ZIP archive";

impl<'a> Archive<'a> {
    /// Reads the directory at the end of the archive, and checks every entry against its checksum.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let (count, start) = directory(bytes).ok_or(BROKEN)?;
        let mut rest = bytes.get(start..).ok_or(BROKEN)?;
        let mut entries = BTreeMap::new();
        // If entries overlapped, the work could be many times the length of the file.
        let mut limit = bytes.len();
        for _ in 0..count {
            let record = Central::read(rest).ok_or(BROKEN)?;
            rest = rest.get(record.len..).ok_or(BROKEN)?;
            let name = str::from_utf8(record.name).map_err(|_| BROKEN)?;
            if record.flags & ENCRYPTED != 0 || record.method != STORED {
                return Err(format!(
                    "{name} is packed or encrypted, which PyTorch never does; save the file again"
                ));
            }
            let content = content(bytes, &record).ok_or(BROKEN)?;
            limit = limit.checked_sub(content.len()).ok_or(BROKEN)?;
            if record.crc != 0 && record.crc != checksum(content) {
                return Err(format!("{name}: the checksum is wrong: the file is damaged"));
            }
            entries.insert(name, content);
        }
        Ok(Self { entries })
    }

    /// The content of an entry.
    pub(super) fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.entries.get(name).copied()
    }

    /// The first entry with this name in any folder, and the folder with its slash.
    pub(super) fn find(&self, name: &str) -> Option<(&'a str, &'a [u8])> {
        self.entries.iter().find_map(|(path, content)| {
            let folder = path.strip_suffix(name)?;
            (folder.is_empty() || folder.ends_with('/')).then_some((folder, *content))
        })
    }
}

/// The entries of any ZIP archive, by name, those that are packed unpacked; together at most `limit` bytes.
pub fn unpacked(bytes: &[u8], limit: usize) -> Result<Vec<(String, Vec<u8>)>, String> {
    let (count, start) = directory(bytes).ok_or(BROKEN)?;
    let mut rest = bytes.get(start..).ok_or(BROKEN)?;
    let (mut entries, mut left) = (Vec::new(), limit);
    for _ in 0..count {
        let record = Central::read(rest).ok_or(BROKEN)?;
        rest = rest.get(record.len..).ok_or(BROKEN)?;
        let name = str::from_utf8(record.name).map_err(|_| BROKEN)?.to_owned();
        if record.flags & ENCRYPTED != 0 || ![STORED, DEFLATED].contains(&record.method) {
            return Err(format!("{name} is encrypted, or packed in a way that cannot be read"));
        }
        let packed = content(bytes, &record).ok_or(BROKEN)?;
        left = left.checked_sub(record.size).ok_or_else(|| format!("{name}: more than {limit} bytes"))?;
        let mut content = Vec::new();
        if record.method == STORED {
            content.extend_from_slice(packed);
        } else {
            // Memory grows with the bytes that really arrive, whatever the directory claims.
            let mut source = DeflateDecoder::new(packed).take(record.size as u64 + 1);
            source
                .read_to_end(&mut content)
                .map_err(|error| format!("{name}: cannot be unpacked: {error}"))?;
        }
        if content.len() != record.size || (record.crc != 0 && record.crc != checksum(&content)) {
            return Err(format!("{name}: the checksum is wrong: the file is damaged"));
        }
        entries.push((name, content));
    }
    Ok(entries)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// What the directory says of an entry.
struct Central<'a> {
    flags: u64,
    method: u64,
    /// 0 if the writer was told not to compute one.
    crc: u32,
    size: usize,
    /// As it is in the archive.
    packed: usize,
    /// Where the entry begins.
    start: usize,
    name: &'a [u8],
    /// Of this record.
    len: usize,
}

impl<'a> Central<'a> {
    fn read(record: &'a [u8]) -> Option<Self> {
        let name_len = number::<2>(record, 28)? as usize;
        let (extra_len, comment_len) = (number::<2>(record, 30)? as usize, number::<2>(record, 32)? as usize);
        let extra = record.get(46 + name_len..46 + name_len + extra_len)?;
        // In this order. The extra field has only those that did not fit.
        let mut wide = wide_numbers(extra);
        let mut resolve =
            |short: u64| if short == ELSEWHERE { wide.next() } else { Some(short) }.map(usize::try_from);
        let size = resolve(number::<4>(record, 24)?)?.ok()?;
        let packed = resolve(number::<4>(record, 20)?)?.ok()?;
        let start = resolve(number::<4>(record, 42)?)?.ok()?;
        let (flags, method) = (number::<2>(record, 8)?, number::<2>(record, 10)?);
        (record.starts_with(CENTRAL) && (method != STORED || size == packed)).then_some(Self {
            flags,
            method,
            crc: number::<4>(record, 16)? as u32,
            size,
            packed,
            start,
            name: &record[46..46 + name_len],
            len: 46 + name_len + extra_len + comment_len,
        })
    }
}

/// The numbers of the extra field that holds those of 64 bits.
fn wide_numbers(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut field: &[u8] = &[];
    while let (Some(kind), Some(len)) = (number::<2>(extra, 0), number::<2>(extra, 2)) {
        let end = 4 + len as usize;
        if kind == 1 {
            field = extra.get(4..end).unwrap_or_default();
            break;
        }
        extra = extra.get(end..).unwrap_or_default();
    }
    field.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The bytes of an entry: behind its own header, whose lengths may differ from the directory's.
fn content<'a>(bytes: &'a [u8], record: &Central<'_>) -> Option<&'a [u8]> {
    let header = bytes.get(record.start..)?;
    let start = 30 + number::<2>(header, 26)? as usize + number::<2>(header, 28)? as usize;
    let content = header.get(start..start.checked_add(record.packed)?)?;
    header.starts_with(LOCAL).then_some(content)
}

/// How many entries there are, and where their directory begins.
fn directory(bytes: &[u8]) -> Option<(u64, usize)> {
    let last = bytes.len().checked_sub(END_LEN)?;
    let first = last.saturating_sub(COMMENT_LIMIT);
    let end = (first..=last).rev().find(|&at| bytes[at..].starts_with(END))?;
    let record = &bytes[end..];
    let (count, start) = (number::<2>(record, 10)?, number::<4>(record, 16)?);
    if count != u64::from(u16::MAX) && start != ELSEWHERE {
        return Some((count, usize::try_from(start).ok()?));
    }
    let locator = &bytes[end.checked_sub(LOCATOR_64_LEN)?..end];
    let record = bytes.get(usize::try_from(number::<8>(locator, 8)?).ok()?..)?;
    let is_wide = locator.starts_with(LOCATOR_64) && record.starts_with(END_64);
    let (count, start) = (number::<8>(record, 32)?, number::<8>(record, 48)?);
    is_wide.then_some((count, usize::try_from(start).ok()?))
}

/// The little-endian number of N bytes at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
