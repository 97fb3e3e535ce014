//! Ranks that PyTorch's torchrun and Slurm's srun start, each by its real program.
//!
//! `BONFIRE_TEST_TORCHRUN` is the path of a torchrun. `BONFIRE_TEST_SLURM=1` needs root and Debian's `slurm-wlm` and
//! `munge`: a controller, a node and its munge are started on loopback and end with the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::bed::wait_until;
use crate::program::Dir;
use crate::record::Record;

/// A run of a moment. Launchers differ in how many threads they leave to a rank, and bytes depend on that.
const DIGITS: &str = "
    data={name: digits, train: 1500, test: 200}
    epochs=2
    threads=1
";

#[track_caller]
fn equals_threads(dir: &Dir, name: &str) {
    dir.bonfire("train --quiet --out threads --workers 3").set(DIGITS).succeed();
    let record = Record::of(dir.path(name));
    assert!(record.parameters() == Record::of(dir.path("threads")).parameters(), "{name}");
    assert_eq!(record.told("node_joined").len(), 3);
}

#[test]
fn ranks_of_torchrun_are_workers_bit_for_bit() {
    let Ok(torchrun) = std::env::var("BONFIRE_TEST_TORCHRUN") else {
        eprintln!(
            "SKIPPED: ranks_of_torchrun_are_workers_bit_for_bit: BONFIRE_TEST_TORCHRUN names no torchrun"
        );
        return;
    };
    let dir = Dir::new();
    let line = "--standalone --no-python --nproc-per-node 3";
    dir.bonfire_under(&torchrun, line, "train --quiet --out torchrun").set(DIGITS).succeed();
    equals_threads(&dir, "torchrun");
}

#[test]
fn ranks_of_srun_are_workers_bit_for_bit() {
    if std::env::var("BONFIRE_TEST_SLURM").as_deref() != Ok("1") {
        eprintln!(
            "SKIPPED: ranks_of_srun_are_workers_bit_for_bit: BONFIRE_TEST_SLURM is not 1 (needs root, slurm-wlm, munge)"
        );
        return;
    }
    let dir = Dir::new();
    let slurm = Slurm::start(&dir);
    let conf = format!("SLURM_CONF={}", slurm.conf);
    let srun =
        |arguments: &str, line: &str| dir.bonfire_under("srun", arguments, line).set(DIGITS).env(&conf);
    srun("-n 3", "train --quiet --out srun").succeed();
    equals_threads(&dir, "srun");
    // A job of two steps, as a batch script has them: none takes the other's ticket.
    let script = format!("{conf} srun -n 1 true && {conf} exec srun -n 3 \"$@\"");
    let batch = dir
        .bonfire("train --quiet --out batch")
        .set(DIGITS)
        .env(&conf)
        .under(&["salloc", "-n", "3"], &script);
    batch.succeed();
    equals_threads_again(&dir, "batch");
}

#[track_caller]
fn equals_threads_again(dir: &Dir, name: &str) {
    let threads = Record::of(dir.path("threads")).parameters();
    assert!(Record::of(dir.path(name)).parameters() == threads, "{name}");
}

/// A cluster of one node. Ends when it is dropped.
struct Slurm {
    conf: String,
    daemons: Vec<Child>,
}

impl Slurm {
    #[track_caller]
    fn start(dir: &Dir) -> Self {
        let path = |name: &str| dir.path("slurm").join(name).display().to_string();
        for folder in ["", "state", "spool", "munge"] {
            fs::create_dir(dir.path("slurm").join(folder)).expect("a folder");
        }
        fs::write(path("munge/key"), [7; 64]).expect("a key");
        for (name, mode) in [("munge/key", 0o400), ("munge", 0o700)] {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let name = name.trim().split('.').next().unwrap_or_default();
        let text = CONF.replace("FOLDER", path("").trim_end_matches('/')).replace("HOST", name);
        let port = u16::try_from(20_000 + std::process::id() % 20_000).expect("a port");
        let text = text.replace("CTLDPORT", &port.to_string()).replace("NODEPORT", &(port + 1).to_string());
        fs::write(path("slurm.conf"), text).expect("a file");
        let mut slurm = Self { conf: path("slurm.conf"), daemons: Vec::new() };
        let munge = ["key-file=munge/key", "socket=munge/socket", "pid-file=munge/pid", "log-file=munge/log"];
        let seed = format!("--seed-file={}", path("munge/seed"));
        let munge = munge.map(|option| {
            let (name, file) = option.split_once('=').expect("a pair");
            format!("--{name}={}", path(file))
        });
        let munge: Vec<&str> =
            ["--force", "--foreground", &seed].into_iter().chain(munge.iter().map(String::as_str)).collect();
        slurm.daemon("munged", &munge);
        wait_until("munge", || Path::new(&path("munge/socket")).exists());
        slurm.daemon("slurmctld", &["-D"]);
        slurm.daemon("slurmd", &["-D"]);
        let mut sinfo = Command::new("timeout");
        sinfo.args(["5", "sinfo", "--noheader", "--format=%T"]).env("SLURM_CONF", &slurm.conf);
        wait_until("an idle node", || sinfo.output().is_ok_and(|said| said.stdout == b"idle\n"));
        slurm
    }

    #[track_caller]
    fn daemon(&mut self, program: &str, arguments: &[&str]) {
        let mut daemon = Command::new(program);
        daemon.args(arguments).env("SLURM_CONF", &self.conf);
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(daemon.spawn().unwrap_or_else(|error| panic!("{program}: {error}")));
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for mut daemon in self.daemons.drain(..).rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

const CONF: &str = "
ClusterName=bonfire
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
SlurmctldPort=CTLDPORT
SlurmdPort=NODEPORT
AuthType=auth/munge
AuthInfo=socket=FOLDER/munge/socket
StateSaveLocation=FOLDER/state
SlurmdSpoolDir=FOLDER/spool
SlurmctldPidFile=FOLDER/slurmctld.pid
SlurmdPidFile=FOLDER/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=HOST NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
";
