//! What this program does on a host when the launcher calls it there: the commands of `bonfire host`.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::parcel;
use crate::process::Signal;
use crate::reach::{self, Speed, Token};
use crate::run_process::{RunProcess, run_folder};

pub use crate::guard::guard;
pub use crate::run_process::{remove_run, sweep};

/// What a host knows of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessState {
    #[serde(rename = "seat")]
    pub(crate) number: usize,
    pub(crate) is_alive: bool,
    /// With which it ended.
    pub(crate) code: Option<i32>,
}

/// How long somebody who measures is waited for.
const ANSWERS_FOR: Duration = Duration::from_secs(300);

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(4);

/// Copies what a process writes to a file of its folder, until it has ended or the launcher is gone, whose side of the
/// input ends then; or `once`, only what is there now.
pub fn follow(
    run: &str,
    number: usize,
    (file, offset): (&Path, u64),
    once: bool,
    input: impl Read + Send + 'static,
    out: &mut impl Write,
) -> io::Result<()> {
    let gone = until_end_of(input);
    if once {
        gone.store(true, Ordering::Relaxed);
    }
    RunProcess::of(run, number)?.follow(file, offset, gone, out)
}

/// Asks the processes of a run to end, or the one with this number.
pub fn end(run: &str, number: Option<usize>, now: bool) -> io::Result<()> {
    for process in RunProcess::all(run)? {
        let found = process.record()?.number;
        if number.is_none_or(|number| number == found) && process.is_alive() {
            process.end(if now { Signal::Kill } else { Signal::Term }).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot end process {found}: {error}"))
            })?;
        }
    }
    Ok(())
}

/// What is known of the processes of a run.
pub fn states(run: &str) -> io::Result<Vec<ProcessState>> {
    let state = |process: &RunProcess| {
        let record = process.record()?;
        let code = record.end.and_then(|end| end.code);
        Ok(ProcessState { number: record.number, is_alive: process.is_alive(), code })
    };
    RunProcess::all(run)?.iter().map(state).collect()
}

/// Sends what is at a path of a run's folder.
pub fn send(run: &str, path: &Path, out: &mut impl Write) -> io::Result<()> {
    // Whoever has the keys can let others join, and the run is over.
    parcel::pack(&run_folder(run)?.join(path), &["keys.json"], out)
}

/// Sends those of some files that are there, in a folder of a run's folder.
pub fn send_some(run: &str, path: &Path, names: &[PathBuf], out: &mut impl Write) -> io::Result<()> {
    parcel::pack_some(&run_folder(run)?.join(path), names, out)
}

/// Takes files into a run's folder.
pub fn receive(run: &str, path: &Path, input: impl Read) -> io::Result<()> {
    parcel::unpack(input, &run_folder(run)?.join(path)).map(drop)
}

/// For each address why it is not reached from here.
pub fn try_to_reach(addresses: &[String]) -> Vec<Option<String>> {
    let try_one = |address: &String| reach::reach(address, CONNECT).err().map(|error| error.to_string());
    addresses.iter().map(try_one).collect()
}

/// Answers those who measure the way to this host, and prints the port at which it does. The input is a token, and then
/// nothing until the launcher is gone.
pub fn answer(mut input: impl Read + Send + 'static, out: &mut impl Write) -> io::Result<()> {
    let token = read_token(&mut input)?;
    let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
    writeln!(out, "{}", listener.local_addr()?.port())?;
    out.flush()?;
    let (gone, until) = (until_end_of(input), Instant::now() + ANSWERS_FOR);
    let is_over = || gone.load(Ordering::Relaxed) || Instant::now() > until;
    reach::answer(&listener, &token, &is_over)
}

/// Measures the way to a host that answers. The input is its token.
pub fn measure(address: &str, mut input: impl Read) -> io::Result<Speed> {
    reach::measure(address, &read_token(&mut input)?)
}

/// Not a byte more is read than the token has: the rest of the input is for others.
fn read_token(input: &mut impl Read) -> io::Result<Token> {
    let mut token = Token::default();
    input.read_exact(&mut token).map_err(|_| io::Error::other("the token is missing"))?;
    Ok(token)
}

/// Sets a flag when the other side of the input is gone.
pub(crate) fn until_end_of(input: impl Read + Send + 'static) -> &'static AtomicBool {
    let gone: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    thread::spawn(move || {
        let _ = io::copy(&mut { input }, &mut io::sink());
        gone.store(true, Ordering::Relaxed);
    });
    gone
}
