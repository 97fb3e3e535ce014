//! Processes that are never mistaken for others: a number that was used again has another start time.

use std::fs;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A process of this machine, for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// The states of labs once had other names, and no `boot`. A process without one counts as gone.
    #[serde(alias = "id")]
    pub pid: u32,
    /// When it started, in the kernel's ticks since the machine did.
    #[serde(alias = "started")]
    pub start: u64,
    /// Which start of the machine that was.
    #[serde(default)]
    pub boot: String,
}

/// How a process is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// In order.
    Term,
    /// At once.
    Kill,
}

/// A process that is held on to: its number cannot come to mean another one to whoever has this.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    #[cfg(target_os = "linux")]
    fd: std::os::fd::OwnedFd,
    #[cfg(target_os = "linux")]
    clock: libc::clockid_t,
}

#[cfg(target_os = "linux")]
impl ProcessHandle {
    /// The process that has this number now; none if there is none.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let mut clock = 0;
        // SAFETY: the clock's number is written to a place of ours.
        let found = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
        (found == 0).then_some(Self { fd: open_fd(pid).ok()??, clock })
    }

    /// Has it stand still until it is released. False if it is gone.
    pub(crate) fn hold(&self) -> bool {
        send(&self.fd, libc::SIGSTOP).is_ok()
    }

    /// False if it is gone.
    pub(crate) fn release(&self) -> bool {
        send(&self.fd, libc::SIGCONT).is_ok()
    }

    /// The processor time of all its threads, also of those that have ended. The kernel counts at its ticks, and
    /// whenever a thread stops running.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is written to a place of ours.
        let told = unsafe { libc::clock_gettime(self.clock, &mut time) };
        (told == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

/// Elsewhere there are no labs.
#[cfg(not(target_os = "linux"))]
impl ProcessHandle {
    pub(crate) fn open(_pid: u32) -> Option<Self> {
        None
    }

    pub(crate) fn hold(&self) -> bool {
        false
    }

    pub(crate) fn release(&self) -> bool {
        false
    }

    pub(crate) fn processor_time(&self) -> Option<Duration> {
        None
    }
}

#[cfg(target_os = "linux")]
fn open_fd(pid: u32) -> io::Result<Option<std::os::fd::OwnedFd>> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: the call takes two numbers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ESRCH) { Ok(None) } else { Err(error) };
    }
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

#[cfg(target_os = "linux")]
fn send(process: &std::os::fd::OwnedFd, signal: libc::c_int) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (fd, none) = (process.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: the descriptor is open, and no information goes with the signal.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, 0) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets this thread run before all ordinary ones, for one that works little and must be on time. Where that is not
/// allowed, it takes its turn.
#[cfg(target_os = "linux")]
pub(crate) fn go_first() {
    // SAFETY: all zero is a value of this type; some systems have more fields in it.
    let mut turn: libc::sched_param = unsafe { std::mem::zeroed() };
    turn.sched_priority = 1;
    // SAFETY: the calls read numbers and a place of ours.
    unsafe {
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &turn) != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn go_first() {}

impl ProcessId {
    /// The process that has this number now; none if there is none.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = stat(pid)?;
        Some(Self { pid, start: start_of(&stat)?, boot: boot()? })
    }

    /// Whether it is still there. One that has ended and was not waited for yet is not.
    pub(crate) fn is_alive(&self) -> bool {
        let Some(stat) = stat(self.pid) else { return false };
        start_of(&stat) == Some(self.start) && !is_ended(&stat) && boot().as_ref() == Some(&self.boot)
    }

    /// Sends a signal to this process, and to no other that may have its number by now. False if it is gone.
    #[cfg(target_os = "linux")]
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(process) = open_fd(self.pid)? else { return Ok(false) };
        // Looked at only now: from here on the descriptor stands for whoever it was opened for.
        if !self.is_alive() {
            return Ok(false);
        }
        send(&process, number(signal)).map(|()| true)
    }

    /// Elsewhere start times are not known, so nobody is hit.
    #[cfg(not(target_os = "linux"))]
    pub fn signal(&self, _signal: Signal) -> io::Result<bool> {
        Ok(false)
    }
}

/// Sends a signal to a process group that this process has made, and whose first member it has not waited for yet: so
/// long nobody else can have its number.
pub(crate) fn signal_own_group(leader: u32, signal: Signal) {
    // SAFETY: the call takes two numbers. That the group is gone is no error here.
    unsafe { libc::kill(-(leader as libc::pid_t), number(signal)) };
}

fn number(signal: Signal) -> libc::c_int {
    match signal {
        Signal::Term => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    }
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// What the kernel says of a process, by its first thread: of a process itself qemu answers in its place, with another
/// start time than others see.
fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).ok()
}

/// The fields behind the name, which is in brackets and may hold brackets and spaces itself.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace()
}

/// The 22nd field of all, the 20th behind the name.
fn start_of(stat: &str) -> Option<u64> {
    fields(stat).nth(19)?.parse().ok()
}

fn is_ended(stat: &str) -> bool {
    fields(stat).next().is_none_or(|state| state == "Z" || state == "X")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let rest = "S 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000 10";
        for name in ["bonfire", "a b", "a) R 1", "((("] {
            assert_eq!(start_of(&format!("77 ({name}) {rest}")), Some(987_654), "{name}");
        }
        assert_eq!(start_of("77 (cut) S 1"), None);
        assert_eq!(start_of(""), None);
        assert!(is_ended("7 (x) Z 1") && !is_ended("7 (x) S 1") && is_ended(""));
    }

    #[test]
    fn what_labs_once_wrote_of_a_process_is_read() {
        let old: ProcessId = serde_json::from_str(r#"{"id": 7, "started": 9}"#).expect("a process");
        assert_eq!(old, ProcessId { pid: 7, start: 9, boot: String::new() });
        assert!(!old.is_alive());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let own = ProcessId::of(child.id()).expect("an id");
        let others = [
            ProcessId { start: own.start - 1, ..own.clone() },
            ProcessId { boot: "another".into(), ..own.clone() },
        ];
        for other in &others {
            assert!(!other.is_alive());
            assert!(!other.signal(Signal::Kill).expect("no error"), "nobody is hit");
        }
        assert!(own.is_alive(), "it is not the one that was meant");
        assert!(own.signal(Signal::Kill).expect("sent"));
        child.wait().expect("its end");
        assert!(!own.is_alive() && !own.signal(Signal::Kill).expect("no error"));
    }
}
