use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;

/// Write the man pages: one of the program, and one of every command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  bonfire man ~/.local/share/man/man1 && man bonfire-train")]
pub(crate) struct ManArgs {
    /// Where to; the folder is made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> Result<()> {
    write(&args.dir).with_context(|| format!("cannot write man pages to {}", args.dir.display()))
}

fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(super::Arguments::command(), dir)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_commands_have_pages_and_what_is_hidden_has_none() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path()).expect("pages");
        let page = |name: &str| std::fs::read_to_string(dir.path().join(name));
        let train = page("bonfire-train.1").expect("a page");
        assert!(train.contains(".TH") && train.contains("resume"), "{train}");
        assert!(page("bonfire.1").expect("a page").contains("bonfire\\-train(1)"));
        assert!(page("bonfire-host.1").is_err());
    }
}
