//! A folder, or a file, as one stream of bytes: for each file a line with its length, its mode and its path, then its
//! content; a line `end` behind the last. Without that line the parcel is not whole.
//!
//! A parcel has no links: a link is followed, and what it leads to is packed under the link's name.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// What came with a parcel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub bytes: u64,
    /// By their names in the folder.
    pub files: Vec<PathBuf>,
}

/// No path that a file system allows is longer.
const LONGEST_LINE: u64 = 8 << 10;

/// Writes what is at a path. Files and folders that `leave_out` names are left out, and so are devices, pipes and
/// sockets. Links are followed; one that leads nowhere is an error.
pub(crate) fn pack(path: &Path, leave_out: &[&str], out: &mut impl Write) -> io::Result<()> {
    let mut files = Vec::new();
    if path.is_dir() {
        list(path, Path::new(""), &mut files)?;
    } else {
        let name = path.file_name().ok_or_else(|| invalid("a path without a name"))?;
        files.push((path.to_owned(), PathBuf::from(name)));
    }
    files.retain(|(_, name)| !leave_out.iter().any(|out| name.starts_with(out)));
    files.sort();
    write(&files, out)
}

/// Writes those of some files of a folder that are there, in this order.
pub(crate) fn pack_some(folder: &Path, names: &[PathBuf], out: &mut impl Write) -> io::Result<()> {
    let there = names.iter().map(|name| (folder.join(name), name.clone()));
    let there: Vec<_> = there.filter(|(file, _)| file.is_file()).collect();
    write(&there, out)
}

fn write(files: &[(PathBuf, PathBuf)], out: &mut impl Write) -> io::Result<()> {
    for (file, name) in files {
        let name = name.to_str().filter(|name| !name.contains('\n'));
        let name = name.ok_or_else(|| invalid(&format!("{} has a name that is no text", file.display())))?;
        let mut content = File::open(file).map_err(|error| named(file, &error))?;
        let facts = content.metadata()?;
        writeln!(out, "{} {:o} {name}", facts.len(), facts.permissions().mode() & 0o777)?;
        // A log may grow while it is read.
        let sent = io::copy(&mut (&mut content).take(facts.len()), out)?;
        if sent < facts.len() {
            return Err(invalid(&format!("{} became shorter while it was read", file.display())));
        }
    }
    writeln!(out, "end")?;
    out.flush()
}

fn list(folder: &Path, below: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| named(folder, &error))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        // What a link in the data leads to belongs to the data.
        let facts = fs::metadata(entry.path()).map_err(|error| named(&entry.path(), &error))?;
        if facts.is_dir() {
            list(&entry.path(), &name, files)?;
        } else if facts.is_file() {
            files.push((entry.path(), name));
        }
    }
    Ok(())
}

/// Reads a parcel into a folder, which is made if it is not there.
pub(crate) fn unpack(parcel: impl Read, folder: &Path) -> io::Result<Unpacked> {
    let mut parcel = BufReader::new(parcel);
    let mut unpacked = Unpacked::default();
    fs::create_dir_all(folder)?;
    loop {
        let mut line = String::new();
        (&mut parcel).take(LONGEST_LINE).read_line(&mut line)?;
        let line = line.strip_suffix('\n').ok_or_else(|| invalid("the parcel is not whole"))?;
        if line == "end" {
            return Ok(unpacked);
        }
        let (len, mode, name) = parts(line).ok_or_else(|| invalid(&format!("no file's line: {line:?}")))?;
        let path = folder.join(&name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(mode);
        let mut file = options.open(&path).map_err(|error| named(&path, &error))?;
        let came = io::copy(&mut (&mut parcel).take(len), &mut file).map_err(|error| named(&path, &error))?;
        if came < len {
            return Err(invalid("the parcel is not whole"));
        }
        unpacked.bytes += len;
        unpacked.files.push(name);
    }
}

/// A path that leads out of the folder is refused, whoever sent it.
fn parts(line: &str) -> Option<(u64, u32, PathBuf)> {
    let mut parts = line.splitn(3, ' ');
    let len = parts.next()?.parse().ok()?;
    let mode = u32::from_str_radix(parts.next()?, 8).ok()? & 0o777;
    let name = PathBuf::from(parts.next()?);
    let stays = name.components().all(|part| matches!(part, Component::Normal(_)));
    (stays && name.components().next().is_some()).then_some((len, mode, name))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_out_as_it_went_in() {
        let temp = tempfile::tempdir().expect("a folder");
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        fs::create_dir_all(from.join("check points")).expect("a folder");
        fs::write(from.join("check points/a.bin"), [0, 10, 255, 10]).expect("a file");
        fs::write(from.join("empty"), "").expect("a file");
        fs::write(from.join("keys.json"), "secret").expect("a file");
        fs::set_permissions(from.join("empty"), fs::Permissions::from_mode(0o600)).expect("a mode");
        let mut parcel = Vec::new();
        pack(&from, &["keys.json"], &mut parcel).expect("packed");
        assert_eq!(unpack(&parcel[..], &to).expect("unpacked").bytes, 4);
        assert_eq!(fs::read(to.join("check points/a.bin")).expect("a file"), [0, 10, 255, 10]);
        let mode = fs::metadata(to.join("empty")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!to.join("keys.json").exists());

        let mut one = Vec::new();
        pack(&from.join("empty"), &[], &mut one).expect("packed");
        assert_eq!(one, b"0 600 empty\nend\n");
        let names = ["empty", "gone", "check points/a.bin"].map(PathBuf::from);
        let mut some = Vec::new();
        pack_some(&from, &names, &mut some).expect("packed");
        let came = unpack(&some[..], &temp.path().join("some")).expect("unpacked");
        assert_eq!(came.files, [&names[0], &names[2]].map(PathBuf::clone));
        let mut without = Vec::new();
        pack(&from, &["check points", "keys.json"], &mut without).expect("packed");
        assert_eq!(without, one, "a folder is left out with all that is in it");
        for len in 0..parcel.len() {
            assert!(unpack(&parcel[..len], &temp.path().join("cut")).is_err(), "cut after {len}");
        }
    }

    #[test]
    fn a_path_stays_in_its_folder() {
        let check = |line: &str, expect: bool| assert_eq!(parts(line).is_some(), expect, "{line}");
        check("0 600 a", true);
        check("0 600 a/b c", true);
        check("0 600 ../a", false);
        check("0 600 a/../../b", false);
        check("0 600 /etc/passwd", false);
        check("0 600 ", false);
        check("0 a", false);
        check("x 600 a", false);
        check("-1 600 a", false);
    }
}
