use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, ensure};
use bonfire_report::{PageSource, RunFolder};

use super::page_args::{USUAL, listen, serve};
use super::stop_on_ctrl_c;
use crate::terminal::print;

/// Show a run, or all runs of a folder, in a browser; also while they go on.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The page is read-only. Off this machine it is shown only under an address with a secret in it, \
                        which is printed; `/metrics` below the address of a run is for Prometheus. Ctrl-C ends it.\n\n\
                        Examples:\n  bonfire page runs                          a list of all runs\n  \
                        bonfire page runs/first\n  \
                        bonfire page runs --listen 0.0.0.0:8080    for others, too"
)]
pub(crate) struct PageCommandArgs {
    /// The folder of a run, or one with folders of runs
    folder: PathBuf,
    /// Where [default: 127.0.0.1:4780, or a free port]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

pub(crate) fn run(args: &PageCommandArgs) -> Result<()> {
    let source = source(&args.folder)?;
    let listener = listen("--listen", args.listen.as_deref().unwrap_or_default(), USUAL)?;
    let server = serve(listener, source)?;
    print(&server.url())?;
    let stop = stop_on_ctrl_c()?;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A folder with a log is that of a run.
fn source(folder: &Path) -> Result<PageSource> {
    if folder.join("events.jsonl").is_file() {
        RunFolder::open(folder)?;
        return Ok(PageSource::Run(folder.to_owned()));
    }
    ensure!(folder.is_dir(), "{}: there is no such folder", folder.display());
    Ok(PageSource::Runs(folder.to_owned()))
}
