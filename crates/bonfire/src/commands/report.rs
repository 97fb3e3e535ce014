use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bonfire_report::{RunFolder, csv, report_page, trace, write_atomically, write_svgs};

use crate::terminal::say;

/// Write a page with charts of a run, or of several to compare them: one file that needs no network.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every run writes the page of its own, report.html, into its folder when it ends.\n\n\
                        Examples:\n  bonfire report runs/first                      writes runs/first/report.html\n  \
                        bonfire report runs/* --out compared.html      curves over each other, and what differs\n  \
                        bonfire report runs/w1 runs/w2 runs/w4         with the speed-up by workers\n  \
                        bonfire report runs/first --svg figures --csv points.csv --trace timeline.json"
)]
pub(crate) struct ReportArgs {
    /// The folders of the runs
    #[arg(required = true, value_name = "RUN_DIR")]
    folders: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the folder of the run, or here for several]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write the curves as SVG into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write all points as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write a timeline of one run, for chrome://tracing and Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    ensure!(args.trace.is_none() || args.folders.len() == 1, "--trace is of one run");
    for folder in &args.folders {
        RunFolder::open(folder)?;
    }
    let out = match (&args.out, &args.folders[..]) {
        (Some(out), _) => out.clone(),
        (None, [folder]) => folder.join("report.html"),
        (None, _) => PathBuf::from("report.html"),
    };
    let mut written = vec![out.clone()];
    write_atomically(&out, report_page(&args.folders)?.as_bytes())?;
    if let Some(folder) = &args.svg {
        written.extend(write_svgs(&args.folders, folder).context("--svg")?);
    }
    if let Some(path) = &args.csv {
        write_atomically(path, csv(&args.folders)?.as_bytes()).context("--csv")?;
        written.push(path.clone());
    }
    if let Some(path) = &args.trace {
        write_atomically(path, trace(&args.folders[0])?.as_bytes()).context("--trace")?;
        written.push(path.clone());
    }
    for path in written {
        say(&format!("wrote {}", path.display()));
    }
    Ok(())
}
