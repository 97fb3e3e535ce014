//! The programs that hosts get: this one, and others of the same version for hosts of other architectures.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::facts::{Facts, arch};
use crate::program::Program;

/// One program for each architecture that there is one for.
#[derive(Clone, Debug)]
pub struct Programs {
    /// This program.
    pub own: Program,
    /// Those of other architectures, the likeliest first.
    others: Vec<Program>,
    /// Where those are that nobody has to name.
    shelf: Option<PathBuf>,
}

/// What the file of a program is called, or how its name begins.
const NAME: &str = "bonfire";

/// What `release/build` makes.
const BUILT: [&str; 3] = ["x86_64", "aarch64", "armv7"];

impl Programs {
    /// This program, those that were `given`, as `ARCH=FILE`, `FILE` or a folder with several, and those in
    /// `~/.local/share/bonfire/VERSION`. An error says what is wrong with one that was given.
    pub fn gather(version: &str, given: &[String]) -> Result<Self, String> {
        let own =
            Program::own(version).map_err(|error| format!("this program cannot read itself: {error}"))?;
        let mut programs = Self { own, others: Vec::new(), shelf: shelf(version) };
        for said in given {
            let wrong = |error: String| format!("--program {said}: {error}");
            programs.add_given(version, said).map_err(wrong)?;
        }
        if let Some(shelf) = programs.shelf.clone() {
            // What cannot be read there is as good as missing, which is said when it is needed.
            let found = in_folder(&shelf).unwrap_or_default();
            programs
                .others
                .extend(found.into_iter().filter_map(|(path, arch)| Program::at(path, version, arch).ok()));
        }
        Ok(programs)
    }

    fn add_given(&mut self, version: &str, said: &str) -> Result<(), String> {
        let in_words = |error: io::Error| error.to_string();
        let (wanted, path) = match said.split_once('=') {
            Some((name, path)) => (Some(arch(name)), Path::new(path)),
            None => (None, Path::new(said)),
        };
        let found = match path.is_dir() {
            true => in_folder(path).map_err(in_words)?,
            false => {
                let arch = arch_of(path).map_err(in_words)?;
                vec![(path.to_owned(), arch.ok_or("it is no program for Linux that is known here")?)]
            }
        };
        if let (Some(wanted), [(_, found)]) = (wanted, found.as_slice())
            && wanted != *found
        {
            return Err(format!("it is a program for {found}"));
        }
        if found.is_empty() {
            return Err(format!("the folder has no program whose name begins with {NAME}"));
        }
        for (path, arch) in found {
            self.others.push(Program::at(path, version, arch).map_err(in_words)?);
        }
        Ok(())
    }

    /// Where the program stands on every host.
    pub(crate) fn place(&self) -> String {
        self.own.place()
    }

    /// The one for a host; or which file is missing, and how to come by it.
    pub(crate) fn for_host(&self, facts: &Facts) -> Result<&Program, String> {
        let mut all = self.others.iter().chain([&self.own]);
        if facts.takes(&self.own.arch) {
            return Ok(&self.own);
        }
        all.find(|program| facts.takes(&program.arch)).ok_or_else(|| self.missing(facts))
    }

    fn missing(&self, facts: &Facts) -> String {
        let is = format!("it is {} {}, and this program is for", facts.arch, facts.system);
        let (own, system) = (&self.own.arch, std::env::consts::OS);
        let Some(shelf) = self.shelf.as_ref().filter(|_| facts.system.eq_ignore_ascii_case(system)) else {
            return format!("{is} {own} {system}");
        };
        let target = match arch(&facts.arch) {
            "arm" => "armv7",
            other => other,
        };
        let triple = match target {
            "armv7" => "armv7-unknown-linux-gnueabihf".to_owned(),
            other => format!("{other}-unknown-linux-gnu"),
        };
        let folder = shelf.join(target);
        let (file, folder, version) = (folder.join(NAME), folder.display(), &self.own.version);
        let file = file.display();
        let make = match BUILT.contains(&target) {
            true => format!(
                "\n    to make it, in the sources: release/build {target} && install -D \
                 target/{triple}/dist/{NAME} {file}"
            ),
            false => String::new(),
        };
        format!(
            "{is} {own}: {file} is missing.{make}\n    to get it from a host that has cargo: mkdir -p {folder} && \
             ssh HOST cargo install {NAME}@{version} && scp HOST:.cargo/bin/{NAME} {file}\n    one that is \
             elsewhere: --program {target}=FILE"
        )
    }

    /// Refuses a program that says of itself that it is another version.
    pub(crate) fn check_version(&self, said: &str) -> Result<(), String> {
        let version = said.split_whitespace().nth(1).unwrap_or_default();
        if version == self.own.version {
            return Ok(());
        }
        Err(format!(
            "it is version {version}, and this program is {}: all must be the same",
            self.own.version
        ))
    }
}

/// Where programs for other architectures are kept.
fn shelf(version: &str) -> Option<PathBuf> {
    let folder = |key: &str| std::env::var_os(key).filter(|path| !path.is_empty()).map(PathBuf::from);
    let data = folder("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(folder("HOME")?.join(".local").join("share")))?;
    Some(data.join(NAME).join(version))
}

/// The programs of a folder, and of the folders in it, with what they run on.
fn in_folder(folder: &Path) -> io::Result<Vec<(PathBuf, &'static str)>> {
    let mut paths: Vec<PathBuf> = entries(folder)?;
    let inner: Vec<PathBuf> = paths.iter().filter(|path| path.is_dir()).cloned().collect();
    for folder in inner {
        paths.extend(entries(&folder)?);
    }
    let is_named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME));
    paths.retain(|path| path.is_file() && is_named(path));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        found.extend(arch_of(&path)?.map(|arch| (path, arch)));
    }
    Ok(found)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// What a program runs on, by the head of its file. None if it is no program that hosts could run.
fn arch_of(path: &Path) -> io::Result<Option<&'static str>> {
    let mut head = [0; 20];
    match File::open(path)?.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    // ELF, of little-endian machines.
    if head[..4] != *b"\x7fELF" || head[5] != 1 {
        return Ok(None);
    }
    Ok(match u16::from_le_bytes([head[18], head[19]]) {
        3 => Some("x86"),
        40 => Some("arm"),
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a program for a machine with this number.
    fn head(machine: u16) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(18, 0);
        head.extend(machine.to_le_bytes());
        head.extend([0; 40]);
        head
    }

    fn host(arch: &str) -> Facts {
        Facts { arch: arch.into(), system: "Linux".into(), ..Facts::default() }
    }

    #[test]
    fn every_host_gets_the_program_for_it() {
        let temp = tempfile::tempdir().expect("a folder");
        let shelf = temp.path().join("shelf");
        fs::create_dir_all(shelf.join("armv7-unknown-linux-gnueabihf")).expect("a folder");
        fs::write(shelf.join("armv7-unknown-linux-gnueabihf/bonfire"), head(40)).expect("a file");
        fs::write(shelf.join("bonfire-0.1.0-aarch64"), head(183)).expect("a file");
        fs::write(shelf.join("bonfire.1"), "a man page").expect("a file");
        let given = [shelf.display().to_string()];
        let programs = Programs::gather("0.1.0", &given).expect("programs");
        let check = |uname: &str, expect: &str| {
            let found = programs.for_host(&host(uname)).map(|program| program.arch.as_str());
            assert_eq!(found, Ok(expect), "{uname}");
        };
        check("aarch64", "aarch64");
        check("armv7l", "arm");
        check(std::env::consts::ARCH, std::env::consts::ARCH);
        let own = programs.for_host(&host(std::env::consts::ARCH)).expect("this one");
        assert_eq!(own.sha256, programs.own.sha256);
        let missing = programs.for_host(&host("i686")).expect_err("there is none");
        for part in ["it is i686 Linux", "/0.1.0/x86/bonfire is missing", "cargo install"] {
            assert!(missing.contains(part), "{part} in {missing}");
        }
        assert!(!missing.contains("release/build"), "which makes none: {missing}");
        let other = Facts { system: "Darwin".into(), ..host("arm64") };
        let missing = programs.for_host(&other).expect_err("another system");
        assert!(
            missing.ends_with(&format!("this program is for {} linux", std::env::consts::ARCH)),
            "{missing}"
        );
        assert_eq!(programs.check_version("bonfire 0.1.0\n"), Ok(()));
        assert!(programs.check_version("bonfire 0.2.0\n").is_err());
    }

    #[test]
    fn a_program_that_was_given_wrongly_is_refused() {
        let temp = tempfile::tempdir().expect("a folder");
        let path = |name: &str| temp.path().join(name).display().to_string();
        fs::write(path("bonfire-arm"), head(183)).expect("a file");
        fs::write(path("text"), "text").expect("a file");
        fs::create_dir(path("empty")).expect("a folder");
        let check = |said: String, expect: &str| {
            let error = Programs::gather("0.1.0", &[said]).expect_err("wrong");
            assert!(error.starts_with("--program ") && error.contains(expect), "{error}");
        };
        check(format!("armv7={}", path("bonfire-arm")), "it is a program for aarch64");
        check(format!("aarch64={}", path("text")), "it is no program for Linux");
        check(path("none"), "No such file");
        check(path("empty"), "no program whose name begins with bonfire");
        assert!(Programs::gather("0.1.0", &[format!("arm64={}", path("bonfire-arm"))]).is_ok());
    }
}
