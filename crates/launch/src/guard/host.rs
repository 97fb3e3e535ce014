//! The guard itself, on the host.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::{FAREWELL, GRACE, GuardOrder, Report, SILENCE, Word};
use crate::process::{ProcessId, Signal, signal_own_group};
use crate::run_process::{ProcessEnd, ProcessRecord, RunProcess, run_folder};

/// How often a guard looks at its process.
const LOOK: Duration = Duration::from_millis(50);

/// Starts what the first line of the input orders, and watches over it until it has ended.
pub fn guard(mut input: impl BufRead + Send + 'static, out: &mut impl Write) -> io::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let order: GuardOrder = serde_json::from_str(&line)?;
    let started = start(&order);
    let (process, child, record) = match started {
        Ok(started) => started,
        Err(error) => {
            tell(out, &Report::Failed { reason: error.to_string() });
            return Ok(());
        }
    };
    tell(out, &Report::Started { process: record.process.clone(), command: record.command.clone() });
    let words = listen(input);
    let patience = if order.number == 0 { Duration::ZERO } else { FAREWELL };
    let mut guard = Guard {
        process,
        child,
        awaited: order.awaited,
        is_detached: order.is_detached,
        patience,
        alone: None,
        ending: None,
    };
    let end = guard.watch(&words, out)?;
    let record = ProcessRecord { end: Some(end.clone()), ..record };
    // A full disk costs the record of the end, not the end.
    let _ = guard.process.save(&record);
    tell(out, &Report::Ended { end });
    Ok(())
}

fn start(order: &GuardOrder) -> io::Result<(RunProcess, Child, ProcessRecord)> {
    let own = std::process::id();
    let guard = ProcessId::of(own).ok_or_else(|| io::Error::other("/proc does not tell of processes"))?;
    let run_process = RunProcess::create(&order.run, order.number)?;
    if let Some((from, to)) = &order.folder {
        std::fs::rename(run_folder(&order.run)?.join(from), run_process.folder().join(to))?;
    }
    for (name, content) in &order.files {
        run_process.write(name, content.as_bytes())?;
    }
    run_process.write("log", b"")?;
    let log = File::options().append(true).open(run_process.log())?;
    let program = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(&order.arguments).current_dir(run_process.folder());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    die_with_guard(&mut command, own);
    let child = command.spawn()?;
    let process = ProcessId::of(child.id()).ok_or_else(|| io::Error::other("the process is gone at once"))?;
    let words = std::iter::once(program.display().to_string()).chain(order.arguments.iter().cloned());
    let record = ProcessRecord {
        run: order.run.clone(),
        number: order.number,
        role: order.role.clone(),
        command: words.collect(),
        process,
        guard,
        is_detached: order.is_detached,
        end: None,
    };
    let mut child = child;
    if let Err(error) = run_process.save(&record) {
        // One that is not recorded could not be found again.
        signal_own_group(child.id(), Signal::Kill);
        child.wait()?;
        return Err(error);
    }
    Ok((run_process, child, record))
}

/// A guard that is killed takes its process with it.
#[cfg(target_os = "linux")]
fn die_with_guard(command: &mut Command, guard: u32) {
    let ask = move || {
        // SAFETY: the calls take numbers only, and may be made between fork and exec.
        let is_orphan = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
            libc::getppid() as u32 != guard
        };
        if is_orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_guard(_command: &mut Command, _guard: u32) {}

/// The words of the launcher. The channel closes with the input.
fn listen(input: impl BufRead + Send + 'static) -> Receiver<Word> {
    let (sender, words) = sync_channel(16);
    std::thread::spawn(move || {
        for line in input.lines() {
            // What is no word of ours is no sign of life either.
            let Some(word) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            if sender.send(word).is_err() {
                break;
            }
        }
    });
    words
}

struct Guard {
    process: RunProcess,
    child: Child,
    awaited: Option<String>,
    is_detached: bool,
    /// How long the process may go on without a launcher.
    patience: Duration,
    /// Since when there is none.
    alone: Option<Instant>,
    /// Since when the process is to end, and why.
    ending: Option<(Instant, String)>,
}

impl Guard {
    fn watch(&mut self, words: &Receiver<Word>, out: &mut impl Write) -> io::Result<ProcessEnd> {
        let mut heard = Instant::now();
        loop {
            if let Some(content) = self.awaited.as_ref().and_then(|name| self.process.take(name)) {
                self.awaited = None;
                tell(out, &Report::Awaited { content: content.trim_end().to_owned() });
            }
            if let Some(status) = self.child.try_wait()? {
                let reason = self.ending.take().map(|(_, reason)| reason);
                return Ok(ProcessEnd { code: status.code(), reason, said: self.process.tail() });
            }
            match words.recv_timeout(LOOK) {
                Ok(word) => {
                    heard = Instant::now();
                    self.alone = None;
                    self.obey(word);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.end_unless_detached("the launcher is gone");
                    std::thread::sleep(LOOK);
                }
            }
            if heard.elapsed() > SILENCE {
                self.end_unless_detached("the launcher gave no sign of life");
            }
            match self.process.wish() {
                Some(Signal::Kill) => self.kill("it was told to end at once"),
                Some(Signal::Term) => self.stop("it was told to stop"),
                None => {}
            }
            if self.ending.as_ref().is_some_and(|(since, _)| since.elapsed() > GRACE) {
                signal_own_group(self.child.id(), Signal::Kill);
            }
        }
    }

    fn obey(&mut self, word: Word) {
        match word {
            Word::Beat => {}
            Word::Stop => self.stop("it was told to stop"),
            Word::Kill => self.kill("it was told to end at once"),
        }
    }

    /// There is no launcher any more.
    fn end_unless_detached(&mut self, reason: &str) {
        let alone = *self.alone.get_or_insert_with(Instant::now);
        if !self.is_detached && alone.elapsed() >= self.patience {
            self.stop(reason);
        }
    }

    /// Once: to a head, a second wish means at once.
    fn stop(&mut self, reason: &str) {
        if self.ending.is_none() {
            self.ending = Some((Instant::now(), reason.to_owned()));
            signal_own_group(self.child.id(), Signal::Term);
        }
    }

    fn kill(&mut self, reason: &str) {
        self.ending.get_or_insert_with(|| (Instant::now(), reason.to_owned()));
        signal_own_group(self.child.id(), Signal::Kill);
    }
}

/// A launcher that is gone is noticed by its silence, not here.
fn tell(out: &mut impl Write, report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}
