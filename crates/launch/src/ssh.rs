//! The system's `ssh`: `~/.ssh/config`, agents and jump hosts work as they do by hand. Each host is logged into once.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::deadline::{self, ProgramOutcome};
use crate::inventory::Host;
use crate::shell;
use crate::trouble::Trouble;

/// A private folder with the sockets of all logins of this process. Dropped, all are logged out.
#[derive(Debug)]
pub(crate) struct Ssh {
    sockets: PathBuf,
    /// For a connection to come about.
    patience: Duration,
}

/// How long a host may take to answer, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long a login that nobody uses stays open: so long a launcher that was killed leaves it behind.
const IDLE_S: u64 = 20;

/// A host that does not answer so many questions, so many seconds apart, is gone.
const ALIVE: [&str; 4] = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"];

/// The path of a socket must fit into an address of the kernel, with what ssh appends to it.
const LONGEST_SOCKET: usize = 80;

impl Ssh {
    pub(crate) fn new(patience: Duration) -> io::Result<Self> {
        let process = std::process::id().to_string();
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".bonfire").join("ssh"));
        let short = |folder: &PathBuf| folder.as_os_str().len() + process.len() < LONGEST_SOCKET;
        let above = match home.filter(short) {
            Some(above) => above,
            None => std::env::temp_dir(),
        };
        let mut folders = fs::DirBuilder::new();
        folders.mode(0o700);
        folders.recursive(true).create(&above)?;
        sweep(&above);
        let sockets = above.join(format!("login-{process}"));
        // Made by us and nobody before us: what lies in it is trusted.
        folders.recursive(false).create(&sockets)?;
        Ok(Self { sockets, patience })
    }

    /// A host of an inventory, not yet logged into.
    pub(crate) fn host(&self, number: usize, host: &Host) -> Remote {
        let mut options: Vec<String> = ["-o", "BatchMode=yes", "-T"].map(str::to_owned).into();
        options.extend(ALIVE.map(str::to_owned));
        let connect = format!("ConnectTimeout={}", self.patience.as_secs().max(1));
        options.extend(["-o".to_owned(), connect]);
        let socket = self.sockets.join(number.to_string());
        options.extend(["-o".to_owned(), format!("ControlPath={}", socket.display())]);
        if let Some(user) = &host.user {
            options.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = host.port {
            options.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(key) = &host.key {
            options.extend(["-i".to_owned(), key.display().to_string()]);
        }
        options.extend(host.ssh_args.iter().cloned());
        // Brackets are for what a port may stand behind, which ssh is told apart.
        let address = host.address.trim_matches(['[', ']']).to_owned();
        let name = host.name.clone();
        Remote { name, address, options, socket, patience: self.patience }
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            for socket in fs::read_dir(&self.sockets).into_iter().flatten().flatten() {
                scope.spawn(move || log_out(&socket.path()));
            }
        });
        let _ = fs::remove_dir_all(&self.sockets);
        if let Some(above) = self.sockets.parent() {
            sweep(above);
        }
    }
}

fn log_out(socket: &Path) {
    let mut ssh = Command::new("ssh");
    ssh.args(["-O", "exit", "-o", &format!("ControlPath={}", socket.display()), "host"]);
    // One that does not hear it ends when it was idle for a while.
    let _ = deadline::run(&mut ssh, io::empty(), Duration::from_secs(5));
}

/// Takes away the folders of processes that were killed; the logins in them have ended by themselves.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("login-"));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // One that is not empty is still in use by a login, or not ours.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A machine that ssh reaches.
#[derive(Clone, Debug)]
pub struct Remote {
    pub name: String,
    pub address: String,
    options: Vec<String>,
    socket: PathBuf,
    patience: Duration,
}

impl Remote {
    /// Logs in; later commands share this login. What keeps it open is a process of its own, which ends when it is no
    /// longer used.
    pub fn log_in(&self) -> Result<(), Trouble> {
        // A second login could not be shared, and so would never end.
        if self.socket.exists() {
            return Ok(());
        }
        let mut ssh = self.ssh();
        // The words of a failed login go to a file: the process that stays behind would keep a pipe open.
        let words = self.socket.with_extension("words");
        let stderr = fs::File::create(&words).map_err(|error| Trouble::NoSsh(error.to_string()))?;
        ssh.args(["-f", "-N", "-o", "ControlMaster=yes", "-o", &format!("ControlPersist={IDLE_S}")]);
        ssh.arg("--").arg(&self.address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let status = deadline::wait(&mut ssh, self.patience + Duration::from_secs(10));
        let said = fs::read_to_string(&words).unwrap_or_default();
        let _ = fs::remove_file(&words);
        match status.map_err(|error| Trouble::NoSsh(error.to_string()))? {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(Trouble::of_ssh(&said)),
            None => Err(Trouble::TimedOut),
        }
    }

    fn ssh(&self) -> Command {
        let mut ssh = Command::new("ssh");
        // Ctrl-C on this terminal is meant for this program, which then ends the others in order.
        ssh.args(&self.options).process_group(0);
        ssh
    }

    /// A script for `sh` there, with its arguments.
    pub(crate) fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut ssh = self.ssh();
        ssh.args(["-o", "ControlMaster=no", "--"]).arg(&self.address).arg(shell::script(script, arguments));
        ssh
    }

    /// Runs a script there to its end. Exit codes of the script are the caller's; all else is trouble.
    pub(crate) fn run(
        &self,
        script: &str,
        arguments: &[&str],
        input: impl Read + Send,
        time: Duration,
    ) -> Result<ProgramOutcome, Trouble> {
        let outcome = deadline::run(&mut self.command(script, arguments), input, time)
            .map_err(|error| Trouble::NoSsh(error.to_string()))?;
        match outcome.status {
            None => Err(Trouble::TimedOut),
            // By its manual, 255 is an error of ssh itself.
            Some(status) if status.code() == Some(255) => Err(Trouble::of_ssh(&outcome.stderr)),
            Some(_) => Ok(outcome),
        }
    }

    /// The same for a script that must succeed; what it printed.
    pub(crate) fn ask(&self, script: &str, arguments: &[&str], time: Duration) -> Result<String, Trouble> {
        let outcome = self.run(script, arguments, io::empty(), time)?;
        if outcome.succeeded() {
            Ok(String::from_utf8_lossy(&outcome.stdout).into_owned())
        } else {
            Err(Trouble::of_ssh(&outcome.stderr))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_of_itself_is_said_to_ssh() {
        let ssh = Ssh { sockets: PathBuf::from("/nowhere"), patience: Duration::from_secs(7) };
        let host = Host {
            user: Some("pi".into()),
            port: Some(2222),
            key: Some("/keys/a b".into()),
            ssh_args: vec!["-J".into(), "gate".into()],
            ..Host::at("10.0.0.9")
        };
        let command = ssh.host(3, &host).command("echo $1", &["it's"]);
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let has = |pair: [&str; 2]| words.windows(2).any(|window| window == pair);
        for pair in [
            ["-o", "BatchMode=yes"],
            ["-o", "ConnectTimeout=7"],
            ["-o", "ControlPath=/nowhere/3"],
            ["-l", "pi"],
            ["-p", "2222"],
            ["-i", "/keys/a b"],
            ["-J", "gate"],
            ["--", "10.0.0.9"],
        ] {
            assert!(has(pair), "{pair:?} in {words:?}");
        }
        assert_eq!(words.last().map(String::as_str), Some(r"sh -c 'echo $1' sh 'it'\''s'"));
    }
}
