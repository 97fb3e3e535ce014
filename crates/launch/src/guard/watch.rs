//! The launcher's end of a guard.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};

use super::{BEAT, GuardOrder, Report, Word};
use crate::program::{START, START_DETACHED};
use crate::ssh::Remote;
use crate::trouble::Trouble;

/// What comes from the guard of a process.
#[derive(Debug)]
pub(crate) enum GuardNews {
    Report(Report),
    /// The guard is out of reach; if nothing else has ended its process, it does so itself, unless it is detached.
    Lost(Trouble),
}

/// A guard that was started, and is given signs of life. Dropped, it hears no more of this launcher.
#[derive(Debug)]
pub(crate) struct Watch {
    words: SyncSender<Word>,
    ssh: Child,
}

impl Watch {
    /// Starts a guard on a host, by the program at a place there. What it tells goes into `news` under the number of
    /// its process.
    pub(crate) fn start(
        remote: &Remote,
        place: &str,
        order: &GuardOrder,
        news: SyncSender<(usize, GuardNews)>,
    ) -> Result<Self, Trouble> {
        let no_ssh = |error: std::io::Error| Trouble::NoSsh(error.to_string());
        let start = if order.is_detached { START_DETACHED } else { START };
        let mut ssh = remote.command(start, &[place, "host", "guard"]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = ssh.spawn().map_err(no_ssh)?;
        let (stdin, stdout, stderr) = (ssh.stdin.take(), ssh.stdout.take(), ssh.stderr.take());
        let first = serde_json::to_string(order).map_err(|error| Trouble::Other(error.to_string()))?;
        let (words, heard) = sync_channel(16);
        if let Some(stdin) = stdin {
            std::thread::spawn(move || speak(stdin, &first, &heard));
        }
        let number = order.number;
        std::thread::spawn(move || hear(number, stdout, stderr, &news));
        Ok(Self { words, ssh })
    }

    /// Says something; a guard that is gone does not hear it.
    pub(crate) fn say(&self, word: Word) {
        let _ = self.words.try_send(word);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A detached guard goes on, so that its ssh would never come to an end.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

fn speak(mut stdin: ChildStdin, first: &str, words: &Receiver<Word>) {
    let mut say = |line: &str| writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_ok();
    let mut is_heard = say(first);
    while is_heard {
        let word = match words.recv_timeout(BEAT) {
            Ok(word) => word,
            Err(RecvTimeoutError::Timeout) => Word::Beat,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        is_heard = serde_json::to_string(&word).is_ok_and(|line| say(&line));
    }
}

/// Hands on every report; behind the last that the guard is out of reach, unless its process has ended.
fn hear(
    number: usize,
    stdout: Option<impl Read>,
    stderr: Option<impl Read>,
    news: &SyncSender<(usize, GuardNews)>,
) {
    let mut is_over = false;
    for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()).map_while(Result::ok) {
        // What a login shell prints of its own is passed over.
        let Ok(report) = serde_json::from_str::<Report>(&line) else { continue };
        is_over |= matches!(report, Report::Ended { .. } | Report::Failed { .. });
        if news.send((number, GuardNews::Report(report))).is_err() {
            return;
        }
    }
    if !is_over {
        let mut said = String::new();
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
        let _ = news.send((number, GuardNews::Lost(Trouble::of_broken(&said))));
    }
}
