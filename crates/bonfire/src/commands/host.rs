use std::io::{self, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bonfire_launch::reach::Token;
use bonfire_launch::run_process::{RunProcess, remove_run, run_folder, until_end_of};
use bonfire_launch::{Signal, guard, parcel, reach};

use crate::failure::Failed;
use crate::terminal;

/// What this program does on a host for the launcher. Nobody types these commands.
#[derive(Debug, clap::Args)]
pub struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HostCommand {
    /// Start a process and watch over it: the order is the first line of the input
    Guard,
    /// Print what is written to a file of a process
    Follow {
        run: String,
        number: usize,
        file: PathBuf,
        /// Only what is there now
        #[arg(long)]
        once: bool,
    },
    /// Ask the processes of a run to end, or one of them
    End {
        run: String,
        #[arg(long = "seat")]
        number: Option<usize>,
        #[arg(long)]
        now: bool,
    },
    /// Print what is known of the processes of a run
    #[command(name = "seats")]
    Processes { run: String },
    /// Send what is at a path of a run's folder
    Send { run: String, path: PathBuf },
    /// Take files into a run's folder
    Receive { run: String, path: PathBuf },
    /// Remove what is left of a run
    Remove { run: String },
    /// Try to connect to each of some addresses
    Reach { addresses: Vec<String> },
    /// Answer those who measure the way to this host
    Answer,
    /// Measure the way to a host that answers
    Measure { address: String },
}

/// What a host knows of a process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ProcessState {
    #[serde(rename = "seat")]
    pub number: usize,
    pub is_alive: bool,
    /// With which it ended.
    pub code: Option<i32>,
}

impl ProcessState {
    fn of(process: &RunProcess) -> io::Result<Self> {
        let record = process.record()?;
        let code = record.end.and_then(|end| end.code);
        Ok(Self { number: record.number, is_alive: process.is_alive(), code })
    }
}

/// How long somebody who measures is waited for.
const ANSWERS_FOR: Duration = Duration::from_secs(300);

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(4);

pub fn run(args: HostArgs) -> Result<()> {
    let failed = || Failed("this host failed".to_owned());
    match args.command {
        HostCommand::Guard => {
            guard::guard(BufReader::new(io::stdin()), &mut io::stdout()).with_context(failed)
        }
        HostCommand::Follow { run, number, file, once } => {
            let gone = until_end_of(BufReader::new(io::stdin()));
            if once {
                gone.store(true, Ordering::Relaxed);
            }
            RunProcess::of(&run, number)?
                .follow(&file, 0, gone, &mut io::stdout().lock())
                .with_context(failed)
        }
        HostCommand::End { run, number, now } => end(&run, number, now),
        HostCommand::Processes { run } => {
            let states: io::Result<Vec<ProcessState>> =
                RunProcess::all(&run)?.iter().map(ProcessState::of).collect();
            print(&states?)
        }
        HostCommand::Send { run, path } => {
            let path = run_folder(&run)?.join(path);
            // Whoever has the keys can let others join, and the run is over.
            let mut out = io::BufWriter::new(io::stdout().lock());
            parcel::pack(&path, &["keys.json"], &mut out).with_context(failed)
        }
        HostCommand::Receive { run, path } => {
            let folder = run_folder(&run)?.join(path);
            parcel::unpack(io::stdin().lock(), &folder).map(|_| ()).with_context(failed)
        }
        HostCommand::Remove { run } => remove_run(&run).with_context(failed),
        HostCommand::Reach { addresses } => {
            let try_one =
                |address: &String| reach::reach(address, CONNECT).err().map(|error| error.to_string());
            print(&addresses.iter().map(try_one).collect::<Vec<_>>())
        }
        HostCommand::Answer => answer().with_context(failed),
        HostCommand::Measure { address } => {
            let speed = reach::measure(&address, &token()?).with_context(failed)?;
            print(&speed)
        }
    }
}

fn print(value: &impl serde::Serialize) -> Result<()> {
    terminal::print(&serde_json::to_string(value)?)
}

fn end(run: &str, number: Option<usize>, now: bool) -> Result<()> {
    for each in RunProcess::all(run)? {
        let found = each.record()?.number;
        if number.is_none_or(|number| number == found) && each.is_alive() {
            each.end(if now { Signal::Kill } else { Signal::Term })
                .with_context(|| format!("cannot end process {found}"))?;
        }
    }
    Ok(())
}

fn answer() -> Result<()> {
    let token = token()?;
    let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
    print(&listener.local_addr()?.port())?;
    let (gone, until) = (until_end_of(BufReader::new(io::stdin())), Instant::now() + ANSWERS_FOR);
    let is_over = || gone.load(Ordering::Relaxed) || Instant::now() > until;
    Ok(reach::answer(&listener, &token, &is_over)?)
}

/// The first line of the input, in hexadecimal digits. Read byte by byte: the rest of the input is for others.
fn token() -> Result<Token> {
    let mut line = Vec::new();
    for byte in io::stdin().lock().bytes().take(64) {
        match byte? {
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    ensure!(line.len() == 32, "the token is missing");
    let mut token = Token::default();
    for (byte, digits) in token.iter_mut().zip(line.chunks(2)) {
        *byte = u8::from_str_radix(&String::from_utf8_lossy(digits), 16)?;
    }
    Ok(token)
}
