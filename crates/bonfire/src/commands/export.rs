use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bonfire_report::number;
use bonfire_run::interchange::{self, Which};
use bonfire_run::onnx;

use crate::terminal::{print, say};

/// Write the parameters of a run for PyTorch, as safetensors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  bonfire export runs/first\n  \
                        bonfire export runs/first --round 500 -o lenet5.safetensors\n  \
                        bonfire export runs/first --onnx\n\n\
                        In Python:\n  model.load_state_dict(safetensors.torch.load_file(\"lenet5.safetensors\"))")]
pub(crate) struct ExportArgs {
    /// The folder of the run
    run_dir: PathBuf,
    /// The file to write, which must be new [default: the folder's name and .safetensors or .onnx, in this folder]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The checkpoint of this round [default: the newest that is whole; with --onnx the one that did best]
    #[arg(long, value_name = "N")]
    round: Option<u64>,
    /// Write the whole model as ONNX, for other programs to run
    #[arg(long)]
    onnx: bool,
    /// The best by validation, of a run that is judged by it
    #[arg(long, conflicts_with = "round")]
    best: bool,
}

pub(crate) fn run(args: &ExportArgs) -> Result<()> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => default_name(args)?,
    };
    if args.onnx {
        return export_onnx(args, &out);
    }
    // torch.load would not read it, and whoever sees the name would use that.
    let is_torch =
        out.extension().is_some_and(|extension| ["pt", "pth", "bin"].iter().any(|e| extension == *e));
    ensure!(!is_torch, "{}: what is written is safetensors; let its name end so", out.display());
    let which = match args.round {
        _ if args.best => Which::Best,
        Some(round) => Which::Round(round),
        None => Which::Newest,
    };
    let exported = interchange::export(&args.run_dir, which, &out)?;
    for reason in &exported.skipped {
        say(&format!("passed over {reason}"));
    }
    print(&format!(
        "{}: {} tensors, {} parameters of round {}",
        out.display(),
        exported.tensors,
        number::count(exported.parameters as u64),
        number::count(exported.round)
    ))
}

fn export_onnx(args: &ExportArgs, out: &Path) -> Result<()> {
    let is_named = out.extension().is_some_and(|extension| extension == "onnx");
    ensure!(is_named, "{}: what is written is ONNX; let its name end in .onnx", out.display());
    let exported = onnx::export(&args.run_dir, args.round, out)?;
    print(&format!(
        "{}: {} nodes, {} parameters of round {}",
        out.display(),
        exported.nodes,
        number::count(exported.parameters as u64),
        number::count(exported.round)
    ))
}

fn default_name(args: &ExportArgs) -> Result<PathBuf> {
    let run_dir = args.run_dir.canonicalize().unwrap_or_else(|_| args.run_dir.clone());
    let mut name =
        run_dir.file_name().context("the folder of the run has no name; choose one with -o")?.to_owned();
    name.push(if args.onnx { ".onnx" } else { ".safetensors" });
    Ok(name.into())
}
