//! The best parameters of a run that is judged by validation. They lie beside the checkpoints and are never removed
//! with them.
//!
//! A run that goes on from a checkpoint must have what was the best then, also if a better one came before it was
//! killed: so the file that the newest checkpoint speaks of is kept under another name until the next checkpoint.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bonfire_learn::Layout;
use bonfire_report::PartFile;
use serde::{Deserialize, Deserializer, Serialize};

use super::{hex_digest, parameters_from_bytes, write_parameters};

/// An evaluation that no other was better than.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestRound {
    pub round: u64,
    pub loss: f64,
    /// NaN of a number that is learned, for which JSON has `null`.
    #[serde(deserialize_with = "or_nan")]
    pub accuracy: f64,
    /// Of the file of its parameters.
    pub sha256: String,
}

fn or_nan<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

const BEST: &str = "best.safetensors";

/// What was the best when the newest checkpoint was written.
const BEFORE: &str = "best-before.safetensors";

/// The file of the best parameters in a folder of checkpoints.
pub fn file(folder: &Path) -> PathBuf {
    folder.join(BEST)
}

/// Keeps parameters as the best. Returns the checksum of their file.
pub fn keep(folder: &Path, layout: &Layout, parameters: &[f32]) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let (best, before) = (folder.join(BEST), folder.join(BEFORE));
    let (written, aside) = PartFile::write(&best, |file| write_parameters(file, layout, parameters))?;
    if best.exists() && !before.exists() {
        fs::rename(&best, &before).with_context(|| format!("{}", before.display()))?;
    }
    aside.put_in_place()?;
    Ok(written.sha256)
}

/// A checkpoint speaks of the best file as it is now, or no other checkpoint will come.
pub fn settle(folder: &Path) -> Result<()> {
    remove(&folder.join(BEFORE))
}

/// Puts the best file of a checkpoint back in its place, or none if it speaks of none. False if it is gone.
pub fn restore(folder: &Path, best: Option<&BestRound>) -> Result<bool> {
    let (file, before) = (folder.join(BEST), folder.join(BEFORE));
    let Some(best) = best else {
        remove(&before)?;
        return remove(&file).map(|()| true);
    };
    let is_it = |path: &Path| fs::read(path).is_ok_and(|bytes| hex_digest(&bytes) == best.sha256);
    if is_it(&before) {
        fs::rename(&before, &file).with_context(|| format!("{}", file.display()))?;
        return Ok(true);
    }
    settle(folder)?;
    Ok(is_it(&file))
}

/// The parameters of a best evaluation.
pub fn read(folder: &Path, layout: &Layout, best: &BestRound) -> Result<Vec<f32>> {
    let path = folder.join(BEST);
    let bytes = fs::read(&path).with_context(|| format!("{}", path.display()))?;
    ensure!(hex_digest(&bytes) == best.sha256, "{}: is not what was kept there", path.display());
    parameters_from_bytes(layout, &bytes).with_context(|| format!("{}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::Shape;
    use bonfire_learn::models::{ModelSpec, mlp};

    fn layout() -> Layout {
        let spec = ModelSpec::Mlp(mlp::Options { hidden: vec![4] });
        let shape = Shape::Images { height: 2, width: 3, channels: 1, classes: 3 };
        spec.build(&shape).expect("a model").layout().clone()
    }

    fn kept(folder: &Path, layout: &Layout, seed: u64) -> BestRound {
        let sha256 = keep(folder, layout, &layout.initial(seed)).expect("kept");
        BestRound { round: seed, loss: 0.5, accuracy: 0.5, sha256 }
    }

    #[test]
    fn a_checkpoint_finds_what_was_the_best_then() {
        let (folder, layout) = (tempfile::tempdir().expect("a folder"), layout());
        let folder = folder.path();
        let found = |best: &BestRound| read(folder, &layout, best).expect("parameters");
        let first = kept(folder, &layout, 1);
        settle(folder).expect("a checkpoint");
        let (_, third) = (kept(folder, &layout, 2), kept(folder, &layout, 3));
        assert_eq!(found(&third), layout.initial(3));
        assert!(restore(folder, Some(&first)).expect("a look"), "it is there still");
        assert_eq!(found(&first), layout.initial(1));
        let fourth = kept(folder, &layout, 4);
        settle(folder).expect("a checkpoint");
        assert!(restore(folder, Some(&fourth)).expect("a look"));
        assert!(!restore(folder, Some(&first)).expect("a look"), "it is gone");
        assert!(read(folder, &layout, &first).is_err());
        assert!(restore(folder, None).expect("a look"));
        assert_eq!(
            fs::read_dir(folder).expect("a folder").count(),
            0,
            "of a run that begins again nothing is left"
        );
    }
}
