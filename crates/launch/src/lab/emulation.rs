//! Hosts of another architecture than the machine below: their programs run under qemu.
//!
//! The kernel is told, by `binfmt_misc`, to start programs for that architecture through qemu. It is told so for the
//! whole machine, as it knows no other way, and forgets it with the lab. sshd and the system's own programs stay those
//! of the machine; `uname` says what the host is meant to be.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::shape::HostShape;
use super::tool::{Tools, find};
use super::{LabError, file_error, write};

/// What a host is meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostArch {
    #[serde(rename = "x86_64")]
    X86_64,
    Aarch64,
    Armv7,
}

impl HostArch {
    const ALL: [Self; 3] = [Self::X86_64, Self::Aarch64, Self::Armv7];

    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Armv7 => "armv7",
        }
    }

    /// As `uname -m` says it.
    fn uname(self) -> &'static str {
        match self {
            Self::Armv7 => "armv7l",
            _ => self.name(),
        }
    }

    /// What emulates it, where its C library is, and the Debian package that has this.
    fn needs(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::X86_64 => ("qemu-x86_64", "/usr/x86_64-linux-gnu", "libc6-amd64-cross"),
            Self::Aarch64 => ("qemu-aarch64", "/usr/aarch64-linux-gnu", "libc6-arm64-cross"),
            Self::Armv7 => ("qemu-arm", "/usr/arm-linux-gnueabihf", "libc6-armhf-cross"),
        }
    }

    /// Word size and number of the machine in the head of an ELF file.
    fn elf(self) -> (u8, u8) {
        match self {
            Self::X86_64 => (2, 62),
            Self::Aarch64 => (2, 183),
            Self::Armv7 => (1, 40),
        }
    }

    fn is_native(self) -> bool {
        crate::facts::arch(self.uname()) == std::env::consts::ARCH
    }
}

impl FromStr for HostArch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|arch| arch.name() == text);
        found.ok_or_else(|| "expected an architecture: x86_64, aarch64 or armv7".to_owned())
    }
}

impl fmt::Display for HostArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What runs the programs of a host.
#[derive(Debug)]
pub(super) struct Emulator {
    arch: HostArch,
    qemu: PathBuf,
    libraries: &'static str,
}

/// Where the kernel is told.
const BINFMT: &str = "/proc/sys/fs/binfmt_misc";

/// What a host of another architecture does beside all others when it starts, in its own namespace of mounts. The name
/// of the lab's entry is `$1`, its line `$2`. All hosts of an architecture share an entry, and it goes with the last
/// mount of that file system, or when the lab is taken down.
pub(super) const ENTER: &str = r#"
test -e "$3/register" || mount -t binfmt_misc binfmt_misc "$3"
test -e "$3/$1" || printf %s "$2" > "$3/register" || test -e "$3/$1"
mount -c --bind /run/lab/uname "$4"
"#;

/// Takes a lab's entries away.
const FORGET: &str = r#"
test -e "$1/register" || mount -t binfmt_misc binfmt_misc "$1" || exit 0
for entry in "$1/$2"*; do if test -e "$entry"; then echo -1 > "$entry"; fi; done
"#;

impl Emulator {
    /// What a host of this shape needs; nothing if it is of the machine's own kind.
    pub(super) fn of(shape: HostShape) -> Result<Option<Self>, LabError> {
        let Some(arch) = shape.arch.filter(|arch| !arch.is_native()) else { return Ok(None) };
        let (program, libraries, package) = arch.needs();
        let qemu = find(program).or_else(|| find(&format!("{program}-static")));
        match (qemu, Path::new(libraries).is_dir()) {
            (Some(qemu), true) => Ok(Some(Self { arch, qemu, libraries })),
            (qemu, _) => {
                let (missing, package) =
                    if qemu.is_none() { (program, "qemu-user") } else { (libraries, package) };
                Err(LabError::Unfit(format!(
                    "a host that is {arch} needs {missing}, which is not here; on Debian: apt install {package}"
                )))
            }
        }
    }

    /// Writes what the host says of itself into its folder.
    pub(super) fn furnish(&self, etc: &Path) -> Result<(), LabError> {
        let (own, shown) = (etc.join("uname.machine"), etc.join("uname"));
        fs::copy(uname(), &own).map_err(file_error(&own))?;
        let (machine, arch) = (std::env::consts::ARCH, self.arch.uname());
        write(&shown, &format!("#!/bin/sh\n/run/lab/uname.machine \"$@\" | sed 's/{machine}/{arch}/g'\n"))?;
        fs::set_permissions(&shown, fs::Permissions::from_mode(0o755)).map_err(file_error(&shown))
    }

    /// Where programs of the host find their C library, for its sshd to tell them.
    pub(super) fn sshd_line(&self) -> String {
        format!("SetEnv QEMU_LD_PREFIX={}\n", self.libraries)
    }

    /// The arguments of [`ENTER`].
    pub(super) fn entry(&self, lab: &str) -> [String; 4] {
        let name = format!("{}{}", prefix(lab), self.arch);
        // Little-endian programs and libraries, of whatever system: what differs there is not looked at.
        let (class, machine) = self.arch.elf();
        let magic = format!(r"\x7fELF\x{class:02x}\x01\x01{}\x02\x00\x{machine:02x}\x00", r"\x00".repeat(9));
        let mask = format!(r"{}\x00{}\xfe\xff\xff\xff", r"\xff".repeat(7), r"\xff".repeat(8));
        let line = format!(":{name}:M::{magic}:{mask}:{}:F", self.qemu.display());
        [name, line, BINFMT.to_owned(), uname().display().to_string()]
    }
}

/// The system's own.
fn uname() -> PathBuf {
    find("uname").unwrap_or_else(|| PathBuf::from("/usr/bin/uname"))
}

fn prefix(lab: &str) -> String {
    format!("bonfire-lab-{lab}-")
}

/// Has the kernel forget what it was told for a lab.
pub(super) fn forget(tools: &Tools, lab: &str) -> Result<(), LabError> {
    if !Path::new(BINFMT).exists() {
        return Ok(());
    }
    let shell = tools.path("sh").display().to_string();
    tools.run("unshare", &["--mount", &shell, "-c", FORGET, "sh", BINFMT, &prefix(lab)]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read_as_they_are_shown() {
        for arch in HostArch::ALL {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        assert!("arm".parse::<HostArch>().is_err() && "".parse::<HostArch>().is_err());
    }

    #[test]
    fn the_kernel_is_told_of_programs_by_the_head_of_their_files() {
        let (qemu, libraries) = (PathBuf::from("/usr/bin/qemu-arm"), "/usr/arm-linux-gnueabihf");
        let [name, line, ..] = Emulator { arch: HostArch::Armv7, qemu, libraries }.entry("desk");
        assert_eq!(name, "bonfire-lab-desk-armv7");
        let head = r"\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x28\x00";
        let mask = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";
        assert_eq!(line, format!(":bonfire-lab-desk-armv7:M::{head}:{mask}:/usr/bin/qemu-arm:F"));
        // The kernel takes lines of fewer than 1,920 bytes, and masks as long as the head.
        let parts: Vec<&str> = line.split(':').collect();
        assert_eq!(parts[4].matches(r"\x").count() + 3, 20);
        assert_eq!(parts[5].matches(r"\x").count(), 20);
    }
}
