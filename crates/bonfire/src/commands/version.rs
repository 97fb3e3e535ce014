use anyhow::Result;
use bonfire_learn::kernels::instructions;
use serde::Serialize;

use crate::failure::Failed;
use crate::terminal::print;

/// Print the version of this program, what it was built for, and the instructions it finds here.
#[derive(Debug, clap::Args)]
pub(crate) struct VersionArgs {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
    /// The triple of the target, as Rust names it.
    target: &'static str,
    /// Of those that may be left out of a build, the ones that are in this.
    features: Vec<&'static str>,
    /// The vector instructions that this machine and this program have in common, the best first.
    instructions: Vec<&'static str>,
}

impl Version {
    fn here() -> Self {
        let features = [("mpi", cfg!(feature = "mpi")), ("parquet", cfg!(feature = "parquet"))];
        Self {
            version: env!("CARGO_PKG_VERSION"),
            target: env!("BONFIRE_TARGET"),
            features: features.into_iter().filter(|&(_, built_in)| built_in).map(|(name, _)| name).collect(),
            instructions: instructions::available().collect(),
        }
    }
}

pub(crate) fn run(args: &VersionArgs) -> Result<()> {
    let here = Version::here();
    if args.json {
        return print(&serde_json::to_string_pretty(&here).map_err(|error| Failed(error.to_string()))?);
    }
    print(&format!("bonfire {} for {}, with {}", here.version, here.target, here.instructions.join(", ")))
}
