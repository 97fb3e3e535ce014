//! This program, as it is copied to other machines.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::deadline;
use crate::ssh::Remote;
use crate::trouble::{Trouble, is_disk_full, last_line};

/// The file of a program and what tells it from others.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    pub bytes: u64,
    pub version: String,
    pub sha256: String,
    /// What it runs on, as the compiler names it.
    pub arch: String,
}

/// Written aside, compared, renamed: what is seen under the name is whole. What an earlier copy left is taken away.
const INSTALL: &str = r#"
umask 077
target="$HOME/$1"
mkdir -p "${target%/*}" || exit 1
for left in "$target".part.*; do rm -f "$left"; done
part="$target.part.$$"
trap 'rm -f "$part"' EXIT
cat > "$part" || exit 1
set -- $(sha256sum < "$part") "$2"
if test "$1" != "$3"; then echo "only a part of the program arrived" >&2; exit 1; fi
chmod 700 "$part" && mv -f "$part" "$target"
"#;

/// A connection that brings less than this many bytes a second is as good as none.
pub(crate) const SLOWEST: u64 = 50_000;

impl Program {
    /// The one that runs now, of this version.
    pub fn own(version: &str) -> io::Result<Self> {
        // The kernel's own link holds also when the file was replaced, as a build does it.
        let link = PathBuf::from("/proc/self/exe");
        let path = if link.exists() { link } else { std::env::current_exe()? };
        Self::at(path, version, std::env::consts::ARCH)
    }

    pub(crate) fn at(path: PathBuf, version: &str, arch: &str) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut file = File::open(&path)?;
        let mut chunk = vec![0; 1 << 20];
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                len => hash.update(&chunk[..len]),
            }
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            bytes: fs::metadata(&path)?.len(),
            path,
            version: version.to_owned(),
            sha256,
            arch: arch.to_owned(),
        })
    }

    /// Where it stands on every host, below the home folder. Others stand beside it. On hosts of another architecture
    /// the program for them has the same name: a run is asked for by one name everywhere.
    pub(crate) fn place(&self) -> String {
        format!(".bonfire/bin/bonfire-{}-{}", self.version, &self.sha256[..12])
    }

    /// Copies it to a place of a host. `tell` is called with the number of bytes that are on their way.
    pub(crate) fn install(
        &self,
        remote: &Remote,
        place: &str,
        tell: impl Fn(u64) + Send,
    ) -> Result<(), Trouble> {
        let here = |error: io::Error| Trouble::Other(format!("this program cannot be read here: {error}"));
        let file = Counted { inner: File::open(&self.path).map_err(here)?, count: 0, tell };
        let time = Duration::from_secs(30 + self.bytes / SLOWEST);
        let outcome = remote.run(INSTALL, &[place, &self.sha256], file, time)?;
        if outcome.succeeded() {
            Ok(())
        } else if is_disk_full(&outcome.stderr) {
            Err(Trouble::DiskFull(last_line(&outcome.stderr)))
        } else {
            Err(Trouble::Other(last_line(&outcome.stderr)))
        }
    }
}

/// Runs the program that stands at a place of a host; what it printed if it went well.
pub(crate) fn call(
    remote: &Remote,
    place: &str,
    arguments: &[&str],
    input: impl Read + Send,
    time: Duration,
) -> Result<Vec<u8>, Trouble> {
    let all: Vec<&str> = [place].into_iter().chain(arguments.iter().copied()).collect();
    let outcome = remote.run(START, &all, input, time)?;
    if outcome.succeeded() {
        return Ok(outcome.stdout);
    }
    let line = last_line(&outcome.stderr);
    Err(Trouble::Other(line.strip_prefix("error: ").unwrap_or(&line).to_owned()))
}

/// The same for output that may be large: `read` gets it as it comes.
pub(crate) fn call_and_read<T>(
    remote: &Remote,
    place: &str,
    arguments: &[&str],
    time: Duration,
    read: impl FnOnce(&mut dyn Read) -> io::Result<T>,
) -> Result<T, Trouble> {
    let all: Vec<&str> = [place].into_iter().chain(arguments.iter().copied()).collect();
    let mut command = remote.command(START, &all);
    let ran = deadline::stream(&mut command, io::empty(), time, read);
    let (result, outcome) = ran.map_err(|error| Trouble::NoSsh(error.to_string()))?;
    match outcome.status {
        None => Err(Trouble::TimedOut),
        Some(status) if status.success() => result.map_err(|error| Trouble::Other(error.to_string())),
        Some(_) => Err(Trouble::of_ssh(&outcome.stderr)),
    }
}

/// Starts the program at `$1` with the arguments behind it.
pub(crate) const START: &str = r#"program="$HOME/$1"; shift; exec "$program" "$@""#;

/// The same for one that is to outlive its login. Where systemd ends what a login has started, it does not end a scope
/// of the system, nor one of a user who lingers. A user's scope without that would end with the last login, which plain
/// processes need not: so there, and without systemd, it is started plainly.
pub(crate) const START_DETACHED: &str = r#"
program="$HOME/$1"; shift
scope="systemd-run --quiet --scope --collect"
if test "$(id -u)" != 0; then
    case $(loginctl show-user "$(id -un)" --property=Linger 2>/dev/null) in
    Linger=yes) scope="$scope --user";;
    *) scope=false;;
    esac
fi
if $scope true </dev/null >/dev/null 2>&1; then exec $scope -- "$program" "$@"; fi
exec "$program" "$@"
"#;

struct Counted<R, F> {
    inner: R,
    count: u64,
    tell: F,
}

impl<R: Read, F: Fn(u64)> Read for Counted<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.count += len as u64;
        (self.tell)(self.count);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Installs `content` in a home folder, by the same script, without ssh in between.
    fn install(home: &std::path::Path, content: &[u8], sha256: &str) -> deadline::ProgramOutcome {
        let mut sh = Command::new("sh");
        sh.args(["-c", INSTALL, "sh", ".bonfire/bin/it's here", sha256]).env("HOME", home);
        deadline::run(&mut sh, content, Duration::from_secs(20)).expect("a shell")
    }

    #[test]
    fn what_outlives_its_login_is_in_a_scope_where_there_are_some() {
        let home = tempfile::tempdir().expect("a folder");
        let path = |name: &str| home.path().join(name);
        let script = |name: &str, text: &str| {
            fs::write(path(name), format!("#!/bin/sh\n{text}\n")).expect("a file");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path(name), mode).expect("a mode");
        };
        fs::create_dir(path("bin")).expect("a folder");
        script("program", "echo \"$SCOPE: $*\"");
        script("bin/id", "test \"$1\" = -u && echo $NUMBER || echo pi");
        script("bin/loginctl", "echo Linger=$LINGERS");
        let run =
            "while test \"${1#--}\" != \"$1\"; do SCOPE=\"$SCOPE$1\"; shift; done; SCOPE=$SCOPE exec \"$@\"";
        let check = |number: &str, lingers: &str, has_systemd: bool, expect: &str| {
            script("bin/systemd-run", if has_systemd { run } else { "exit 1" });
            let mut sh = Command::new("sh");
            sh.args(["-c", START_DETACHED, "sh", "program", "host", "guard"]).env("HOME", home.path());
            sh.env("PATH", format!("{}:/usr/bin:/bin", path("bin").display()));
            sh.env("NUMBER", number).env("LINGERS", lingers).env_remove("SCOPE");
            let outcome = deadline::run(&mut sh, io::empty(), Duration::from_secs(20)).expect("a shell");
            let said = String::from_utf8_lossy(&outcome.stdout).trim().to_owned();
            assert_eq!(said, expect, "{number} {lingers} {has_systemd}: {outcome:?}");
        };
        check("0", "no", true, "--quiet--scope--collect--: host guard");
        check("1000", "yes", true, "--quiet--scope--collect--user--: host guard");
        check("1000", "no", true, ": host guard");
        check("0", "no", false, ": host guard");
    }

    #[test]
    fn only_a_whole_program_is_installed() {
        let home = tempfile::tempdir().expect("a folder");
        let (bin, content) = (home.path().join(".bonfire/bin"), b"#!/bin/sh\nexit 0\n");
        let path = home.path().join("source");
        fs::write(&path, content).expect("a file");
        let program = Program::at(path, "1.2", "x86_64").expect("a program");
        assert_eq!(program.bytes, content.len() as u64);
        assert_eq!(program.place(), format!(".bonfire/bin/bonfire-1.2-{}", &program.sha256[..12]));

        fs::create_dir_all(&bin).expect("a folder");
        fs::write(bin.join("it's here.part.77"), "half").expect("a file");
        let outcome = install(home.path(), &content[..5], &program.sha256);
        assert!(!outcome.succeeded() && outcome.stderr.contains("only a part"), "{outcome:?}");
        assert_eq!(fs::read_dir(&bin).expect("a folder").count(), 0, "nothing is left of a part");

        let outcome = install(home.path(), content, &program.sha256);
        assert!(outcome.succeeded(), "{outcome:?}");
        assert_eq!(fs::read(bin.join("it's here")).expect("a file"), content);
        assert_eq!(fs::read_dir(&bin).expect("a folder").count(), 1);
    }
}
