//! One host of a lab.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::emulation::{self, Emulator};
use super::network::{host_address, link_name};
use super::state::LabState;
use super::tool::Tools;
use super::{LabError, file_error, write};
use crate::process::ProcessId;

pub(super) const INVENTORY: &str = "hosts.ini";
pub(super) const SSH_CONFIG: &str = "ssh_config";
const KNOWN_HOSTS: &str = "known_hosts";
const USER_KEY: &str = "id_ed25519";
const LOG: &str = "sshd.log";

/// How long an sshd may take to listen.
const SSH_DEADLINE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// What a host's first process does before it becomes sshd, in namespaces of its own. The folder of the host is entered
/// first and paths are relative to it, because the mounts hide the way there.
const ENTER: &str = r#"
set -e
cd "$1"
echo "$2" > /proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lab
mount -c --bind etc /run/lab
mount -c --bind root /root
mount -c --bind tmp /tmp
mount -c --bind var_tmp /var/tmp
if [ -d /dev/shm ]; then mount -t tmpfs -o mode=1777 tmpfs /dev/shm; fi
if [ -d "$4" ]; then mount -t tmpfs -o mode=755 tmpfs "$4"; fi
cd /
sshd=$3
shift 4
"#;

/// The end of what it does.
const SERVE: &str = r#"exec "$sshd" -D -e -f /run/lab/sshd_config"#;

/// A host of a lab and the names that things of it have.
#[derive(Debug)]
pub(super) struct LabHost {
    pub name: String,
    /// Of its network namespace, and of its cable's end at the bridge.
    pub link: String,
    pub bridge: String,
    pub address: Ipv4Addr,
    folder: PathBuf,
}

impl LabHost {
    /// A host by its number, from 1.
    pub(super) fn new(state: &LabState, number: usize) -> Self {
        let subnet = state.subnet;
        assert!(subnet.is_some(), "the subnet of a lab is chosen before its hosts");
        let bridge = link_name(&state.name);
        Self {
            name: format!("{}-{number}", state.name),
            link: format!("{bridge}-{number}"),
            bridge,
            address: host_address(subnet.unwrap_or(Ipv4Addr::UNSPECIFIED), number),
            folder: state.folder().join("hosts").join(number.to_string()),
        }
    }

    /// Starts its sshd, in namespaces of mounts, processes and names. With the first process of them all others end.
    /// With an emulator, its programs are of another architecture.
    pub(super) fn start(
        &self,
        tools: &Tools,
        state: &LabState,
        emulator: Option<Emulator>,
    ) -> Result<ProcessId, LabError> {
        let lab = state.folder();
        self.make_folders(tools, lab, emulator.as_ref())?;
        let path = self.folder.join(LOG);
        let log = File::create(&path).map_err(file_error(&path))?;
        let errors = log.try_clone().map_err(file_error(&path))?;
        let mut command = Command::new(tools.path("ip"));
        command.args(["netns", "exec", &self.link]).arg(tools.path("unshare"));
        command.args(["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        let emulate = if emulator.is_some() { emulation::ENTER } else { "" };
        command.arg(tools.path("sh")).args(["-c", &[ENTER, emulate, SERVE].concat(), "sh"]);
        command.arg(&self.folder).arg(&self.name).arg(tools.path("sshd")).arg(lab);
        command.args(emulator.iter().flat_map(|emulator| emulator.entry(&state.name)));
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        // A group of its own, so that Ctrl-C at the terminal where the lab was made does not end it.
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let child = command.spawn();
        let child = child.map_err(|error| LabError::Failed(format!("{}: {error}", self.name)))?;
        ProcessId::of(child.id()).ok_or_else(|| LabError::Failed(format!("{} ended at once", self.name)))
    }

    fn make_folders(&self, tools: &Tools, lab: &Path, emulator: Option<&Emulator>) -> Result<(), LabError> {
        for (name, mode) in [("etc", 0o755), ("root", 0o700), ("tmp", 0o1777), ("var_tmp", 0o1777)] {
            let path = self.folder.join(name);
            fs::create_dir_all(&path).map_err(file_error(&path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(file_error(&path))?;
        }
        let etc = self.folder.join("etc");
        make_key(tools, &etc.join("host_key"), &self.name)?;
        let key = lab.join(USER_KEY).with_extension("pub");
        fs::copy(&key, etc.join("authorized_keys")).map_err(file_error(&key))?;
        let more = match emulator {
            Some(emulator) => {
                emulator.furnish(&etc)?;
                emulator.sshd_line()
            }
            None => String::new(),
        };
        write(&etc.join("sshd_config"), &(self.sshd_config() + &more))
    }

    fn sshd_config(&self) -> String {
        // Without PAM, sshd refuses a root whose password is locked.
        let locked = fs::read_to_string("/etc/shadow")
            .is_ok_and(|text| text.lines().any(|line| line.starts_with("root:!")));
        format!(
            "ListenAddress {}:22\n\
             HostKey /run/lab/host_key\n\
             AuthorizedKeysFile /run/lab/authorized_keys\n\
             PidFile none\n\
             PermitRootLogin prohibit-password\n\
             PasswordAuthentication no\n\
             KbdInteractiveAuthentication no\n\
             StrictModes no\n\
             UsePAM {}\n\
             UseDNS no\n\
             PrintMotd no\n\
             PrintLastLog no\n\
             MaxStartups 100\n\
             MaxSessions 100\n\
             Subsystem sftp internal-sftp\n",
            self.address,
            if locked { "yes" } else { "no" }
        )
    }

    /// Waits until something listens there.
    pub(super) fn await_ssh(&self, process: &ProcessId, stop: &AtomicBool) -> Result<(), LabError> {
        let (address, end) = (SocketAddr::from((self.address, 22)), Instant::now() + SSH_DEADLINE);
        loop {
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Stopped);
            }
            let fate = match process.is_alive() {
                false => "ended",
                true if Instant::now() > end => "does not listen",
                true => {
                    thread::sleep(LOOK);
                    continue;
                }
            };
            let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
            let said = log.trim().lines().next_back().unwrap_or("nothing").to_owned();
            return Err(LabError::Failed(format!("the sshd of {} {fate}; it said last: {said}", self.name)));
        }
    }

    /// The public half of its host key, as `known_hosts` has it.
    fn host_key(&self) -> Result<String, LabError> {
        let path = self.folder.join("etc").join("host_key.pub");
        let text = fs::read_to_string(&path).map_err(file_error(&path))?;
        Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    }
}

/// The key that opens every host of the lab.
pub(super) fn make_user_key(tools: &Tools, state: &LabState) -> Result<(), LabError> {
    make_key(tools, &state.folder().join(USER_KEY), &state.name)
}

fn make_key(tools: &Tools, path: &Path, comment: &str) -> Result<(), LabError> {
    let path = path.to_string_lossy();
    tools.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", &path]).map(drop)
}

/// Writes what tells others of the hosts: an inventory, and how ssh gets there without a question.
pub(super) fn write_guides(state: &LabState) -> Result<(), LabError> {
    let folder = state.folder();
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, known) = (path(USER_KEY), path(KNOWN_HOSTS));
    let (mut inventory, mut known_hosts, mut config) = ("[pool]\n".to_owned(), String::new(), String::new());
    for number in 1..=state.hosts {
        let host = LabHost::new(state, number);
        let LabHost { name, address, .. } = &host;
        inventory += &format!("{name} ansible_host={address}\n");
        known_hosts += &format!("{name},{address} {}\n", host.host_key()?);
        config += &format!("Host {name}\n    HostName {address}\n\n");
    }
    inventory += &format!(
        "\n[pool:vars]\nansible_user=root\nansible_ssh_private_key_file={key}\n\
         ansible_ssh_common_args='-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes'\n"
    );
    config += &format!(
        "Host *\n    User root\n    IdentityFile {key}\n    IdentitiesOnly yes\n    UserKnownHostsFile {known}\n    \
         StrictHostKeyChecking yes\n"
    );
    write(&folder.join(KNOWN_HOSTS), &known_hosts)?;
    write(&folder.join(SSH_CONFIG), &config)?;
    // Last, so that one who waits for it finds all the others.
    write(&folder.join(INVENTORY), &inventory)
}
