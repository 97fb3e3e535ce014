use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use bonfire_launch::RunList;
use bonfire_report::{RunFolder, status_line, status_table};

use crate::terminal::print;

/// Show how far runs are: those below a folder and those on hosts, or one with its nodes. On a terminal the table of a
/// run that goes on is drawn again every second, until the run or Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bonfire status                 runs below runs/, and those on hosts\n  \
                        bonfire status runs/first      one run, with its nodes, for as long as it goes on\n  \
                        bonfire status runs/first --once"
)]
pub(crate) struct StatusArgs {
    /// The folder of a run, or one with folders of runs
    #[arg(default_value = "runs")]
    folder: PathBuf,
    /// Show it as it is now, and do not wait for what comes
    #[arg(long)]
    once: bool,
}

/// How often the table of a run is drawn.
const REDRAW: Duration = Duration::from_secs(1);

/// So many of the newest are shown.
const MOST: usize = 20;

/// Room for the name of a run beside what is said of it.
const NAME: usize = 44;

pub(crate) fn run(args: &StatusArgs) -> Result<()> {
    if args.folder.join("events.jsonl").is_file() {
        RunFolder::open(&args.folder)?;
        return one(&args.folder, !args.once && stdout().is_terminal());
    }
    let is_default = args.folder == Path::new("runs");
    ensure!(is_default || args.folder.is_dir(), "{}: there is no such folder", args.folder.display());
    let mut lines = below(&args.folder);
    if is_default {
        lines.extend(on_hosts());
    }
    if lines.is_empty() {
        lines.push(format!("no runs below {}, and none on hosts", args.folder.display()));
    }
    lines.iter().try_for_each(|line| print(line))
}

/// The table of a run; again and again for as long as it goes on, if it is to be followed.
fn one(folder: &Path, follows: bool) -> Result<()> {
    let mut drawn = 0;
    loop {
        let table = status_table(folder)?;
        // The cursor goes up to where the table began, and every line ends what stood there.
        let up = if drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
        match follows {
            true => print(&format!("{up}{}\x1b[K\x1b[J", table.lines.join("\x1b[K\n")))?,
            false => table.lines.iter().try_for_each(|line| print(line))?,
        }
        if !follows || table.is_over {
            return Ok(());
        }
        drawn = table.lines.len();
        thread::sleep(REDRAW);
    }
}

fn below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    runs.retain(|run| run.join("events.jsonl").is_file());
    runs.sort();
    let line = |run: &PathBuf| {
        let state = status_line(run).unwrap_or_else(|error| error.to_string());
        row(&run.file_name().unwrap_or_default().to_string_lossy(), &state)
    };
    runs.iter().rev().take(MOST).map(line).collect()
}

/// Those whose folders are not here yet: `bonfire attach` looks at them.
fn on_hosts() -> Vec<String> {
    let runs = RunList::open().map(|list| list.all()).unwrap_or_default();
    let open = runs.iter().rev().filter(|run| !run.is_collected).take(MOST);
    open.map(|run| row(&run.id, &format!("on {} hosts: bonfire attach", run.hosts.len()))).collect()
}

/// Of at most 80 columns.
fn row(name: &str, state: &str) -> String {
    let name: String = name.chars().take(NAME).collect();
    let state: String = state.chars().take(80 - NAME - 2).collect();
    format!("{name:<NAME$}  {state}").trim_end().to_owned()
}
