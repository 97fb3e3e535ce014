//! Checkpoints: the parameters as safetensors under PyTorch's names, and beside them what a run needs to go on.
//!
//! `step-000500.state` is written first and `step-000500.safetensors` second, each aside and renamed, so that
//! parameters that can be seen are complete and have their state. The state knows the checksum of its parameters: a
//! pair that does not fit, or half a file, is never taken for whole.
//!
//! A state says its format. States of format 0, from before there were numbers, hold a digest that cannot be made
//! again; for them the names and shapes of the parameters must do.

pub mod best;
mod digest;
mod tensor_file;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_data::Cut;
use bonfire_learn::Layout;
use bonfire_learn::layout::Tensor;
use bonfire_report::{FORMAT, PartFile, newer_format};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;
use crate::schedule::Chosen;

pub use best::BestRound;
pub use digest::{hex_digest, layout_digest};
use tensor_file::{TensorOut, Written};

/// What a run needs, beside parameters and moments, to go on as if it had never stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How many rounds are done.
    pub round: u64,
    pub optimizer_steps: u64,
    /// Batches of one worker each.
    #[serde(default)]
    pub units: u64,
    /// Batches, by epoch and number, that others overtook: they are not among those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<(u64, u32)>,
    /// Those of them that were dealt out unequally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<(u64, u32, Cut)>,
    /// Samples seen in all.
    pub samples: u64,
    /// What was counted of the epochs under way.
    #[serde(default)]
    pub ledger: Ledger,
    /// The mean loss of the last whole epoch.
    pub train_loss: Option<f64>,
    pub best_accuracy: Option<f64>,
    pub target_reached_round: Option<u64>,
    /// The best evaluation of a run that is judged by validation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestRound>,
    /// and how many there were since.
    #[serde(default)]
    pub since_best: u64,
    /// How members exchange, where the run leaves that open and it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// How many samples of a round the workers have, by their names, where shares are unequal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, u32>,
}

/// A checkpoint that was read back.
#[derive(Debug)]
pub struct Checkpoint {
    pub file: PathBuf,
    pub parameters: Vec<f32>,
    pub moments: Vec<Vec<f32>>,
    /// Of the outer step, where workers train by themselves between two exchanges.
    pub velocity: Option<Vec<f32>>,
    pub progress: Progress,
}

/// What is about to be written.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    pub layout: &'a Layout,
    pub parameters: &'a [f32],
    pub moments: &'a [Vec<f32>],
    pub velocity: Option<&'a Vec<f32>>,
    pub progress: &'a Progress,
}

/// The part of a state that ties it to its parameters.
#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    #[serde(default)]
    format: u32,
    /// Of the whole file of parameters.
    sha256: String,
    /// The digest of the layout: moments are kept in the order of memory.
    layout: String,
    progress: Progress,
}

const SEAL: &str = "bonfire";

/// The velocity of the outer step, beside the optimiser's moments.
const VELOCITY: &str = "outer";

/// The file of the parameters of a round.
pub fn file_name(round: u64) -> String {
    format!("step-{round:06}.safetensors")
}

/// All files of parameters in a folder with their rounds, oldest first.
pub fn list(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("{}", folder.display()))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("{}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let round = name.strip_prefix("step-").and_then(|rest| rest.strip_suffix(".safetensors"));
        if let Some(round) = round.and_then(|round| round.parse().ok()) {
            files.push((round, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Writes a checkpoint and removes all but the newest `keep`. Returns the file and how many bytes both have.
pub fn write(folder: &Path, snapshot: Snapshot<'_>, keep: usize) -> Result<(PathBuf, u64)> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let file = folder.join(file_name(snapshot.progress.round));
    let (parameters, aside) =
        PartFile::write(&file, |file| write_parameters(file, snapshot.layout, snapshot.parameters))?;
    let seal = Seal {
        format: FORMAT,
        sha256: parameters.sha256,
        layout: layout_digest(snapshot.layout),
        progress: snapshot.progress.clone(),
    };
    let seal = serde_json::to_string(&seal)?;
    let state_file = file.with_extension("state");
    let (state, state_aside) = PartFile::write(&state_file, |file| write_state(file, snapshot, seal))?;
    state_aside.put_in_place()?;
    if let Err(error) = aside.put_in_place() {
        if !file.exists() {
            // On a full disk, states without their parameters would take what room there is.
            let _ = fs::remove_file(&state_file);
        }
        return Err(error.into());
    }
    remove_old(folder, keep, snapshot.progress.round)?;
    Ok((file, parameters.bytes + state.bytes))
}

fn write_parameters(file: &mut fs::File, layout: &Layout, flat: &[f32]) -> std::io::Result<Written> {
    // One entry only: the order of more would differ from run to run.
    let metadata = ("format", "pt".to_owned());
    let tensors = layout.tensors().iter();
    let tensors = tensors.map(|tensor| TensorOut {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        values: Box::new(in_torch_order(tensor, flat)),
    });
    tensor_file::write(file, metadata, tensors.collect())
}

/// The values of a tensor in PyTorch's order, each read where it lies.
fn in_torch_order<'a>(tensor: &'a Tensor, flat: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    let (factors, axes) = tensor.memory_order();
    let (mut strides, mut stride) = (vec![0; factors.len()], 1);
    for &axis in axes.iter().rev() {
        (strides[axis], stride) = (stride, stride * factors[axis]);
    }
    let (mut steps, mut at) = (vec![0; factors.len()], tensor.range.start);
    tensor.range.clone().map(move |_| {
        let value = flat[at];
        for axis in (0..factors.len()).rev() {
            (steps[axis], at) = (steps[axis] + 1, at + strides[axis]);
            if steps[axis] < factors[axis] {
                break;
            }
            (steps[axis], at) = (0, at - factors[axis] * strides[axis]);
        }
        value
    })
}

/// The moments of the optimiser, and the velocity of the outer step if there is one, in the order of memory, under a
/// seal.
fn write_state(file: &mut fs::File, snapshot: Snapshot<'_>, seal: String) -> std::io::Result<Written> {
    let moments = snapshot.moments.iter().enumerate().map(|(i, values)| (format!("moment.{i}"), values));
    let velocity = snapshot.velocity.map(|values| (VELOCITY.to_owned(), values));
    let tensors = moments.chain(velocity).map(|(name, values)| TensorOut {
        name,
        shape: vec![values.len()],
        values: Box::new(values.iter().copied()),
    });
    tensor_file::write(file, (SEAL, seal), tensors.collect())
}

/// Removes all but the newest checkpoints up to `round`. Those of later rounds are of a run that was resumed from
/// before them, and are about to be written again.
fn remove_old(folder: &Path, keep: usize, round: u64) -> Result<()> {
    let mut files = list(folder)?;
    files.retain(|(other, _)| *other <= round);
    for (_, file) in files.iter().rev().skip(keep) {
        // Parameters go first: what can be seen has its state.
        fs::remove_file(file).with_context(|| format!("{}", file.display()))?;
        let state = file.with_extension("state");
        if state.exists() {
            fs::remove_file(&state).with_context(|| format!("{}", state.display()))?;
        }
    }
    Ok(())
}

/// The newest checkpoint that is whole, with the reasons why newer ones are not.
pub fn newest_whole(folder: &Path, layout: &Layout) -> Result<(Option<Checkpoint>, Vec<String>)> {
    let mut skipped = Vec::new();
    for (_, file) in list(folder)?.into_iter().rev() {
        match read(&file, layout) {
            Ok(checkpoint) => return Ok((Some(checkpoint), skipped)),
            Err(Unfit::Broken(reason)) => skipped.push(format!("{}: {reason:#}", file.display())),
            Err(Unfit::Foreign(reason)) => return Err(reason.context(format!("{}", file.display()))),
        }
    }
    Ok((None, skipped))
}

/// Why a checkpoint cannot be used: a crash cut it short, or it is of another model or a newer format.
enum Unfit {
    Broken(anyhow::Error),
    Foreign(anyhow::Error),
}

fn read(file: &Path, layout: &Layout) -> Result<Checkpoint, Unfit> {
    let Sealed { bytes, seal, moments, velocity } = sealed(file)?;
    let parameters = parameters_from_bytes(layout, &bytes).map_err(Unfit::Foreign)?;
    if seal.format > 0 && seal.layout != layout_digest(layout) {
        let reason = anyhow!("it was written by another version of Bonfire; its parameters can be evaluated");
        return Err(Unfit::Foreign(reason));
    }
    Ok(Checkpoint { file: file.to_owned(), parameters, moments, velocity, progress: seal.progress })
}

/// The bytes of a file of parameters, whichever the model; an error if it or its state was cut short.
pub fn whole_bytes(file: &Path) -> Result<Vec<u8>> {
    match sealed(file) {
        Ok(sealed) => Ok(sealed.bytes),
        Err(Unfit::Broken(reason) | Unfit::Foreign(reason)) => Err(reason),
    }
}

/// How far a run was with a file of parameters, if its state can be read.
pub fn progress_of(file: &Path) -> Option<Progress> {
    let (_, seal) = seal_text(&fs::read(file.with_extension("state")).ok()?).ok()?;
    serde_json::from_str::<Seal>(&seal).ok().map(|seal| seal.progress)
}

/// The bytes of a file of parameters, with the state that fits them.
struct Sealed {
    bytes: Vec<u8>,
    seal: Seal,
    moments: Vec<Vec<f32>>,
    velocity: Option<Vec<f32>>,
}

fn sealed(file: &Path) -> Result<Sealed, Unfit> {
    let bytes = fs::read(file).map_err(|error| Unfit::Broken(error.into()))?;
    let state = fs::read(file.with_extension("state")).context("its .state cannot be read");
    let (seal, moments, velocity) = state_from_bytes(&state.map_err(Unfit::Broken)?)?;
    if seal.sha256 != hex_digest(&bytes) {
        return Err(Unfit::Broken(anyhow!("its checksum is not the one in its .state")));
    }
    Ok(Sealed { bytes, seal, moments, velocity })
}

/// Turns the bytes of a safetensors file into parameters; an error if they are of another model.
pub fn parameters_from_bytes(layout: &Layout, bytes: &[u8]) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes).context("not a whole safetensors file")?;
    let mut flat = vec![0.0; layout.len()];
    for tensor in layout.tensors() {
        let name = &tensor.name;
        let Ok(view) = file.tensor(name) else {
            bail!("it is of another model: it has no tensor {name}");
        };
        ensure!(
            view.shape() == tensor.shape,
            "it is of another model: {name} has the shape {:?}, not {:?}",
            view.shape(),
            tensor.shape
        );
        ensure!(view.dtype() == Dtype::F32, "{name} is of type {:?}, not F32", view.dtype());
        tensor.set_from_torch(&floats(view.data()), &mut flat);
    }
    if let Some(other) =
        file.names().into_iter().find(|name| layout.tensors().iter().all(|t| t.name != *name))
    {
        bail!("it is of another model: this one has no tensor {other}");
    }
    Ok(flat)
}

/// Whether these bytes are a safetensors file of its full length.
pub fn is_whole(bytes: &[u8]) -> bool {
    SafeTensors::deserialize(bytes).is_ok()
}

/// What a state has to tell: its seal, the moments, and the velocity of the outer step.
type StateParts = (Seal, Vec<Vec<f32>>, Option<Vec<f32>>);

fn state_from_bytes(bytes: &[u8]) -> Result<StateParts, Unfit> {
    let (format, seal) = seal_text(bytes).map_err(Unfit::Broken)?;
    if format > FORMAT {
        return Err(Unfit::Foreign(anyhow!("it is {}", newer_format(format))));
    }
    let read = || -> Result<_> {
        let file = SafeTensors::deserialize(bytes).context("its .state is not whole")?;
        let velocity = file.tensor(VELOCITY).ok().map(|values| floats(values.data()));
        let moments = 0..file.len() - usize::from(velocity.is_some());
        let moments = moments.map(|i| Ok(floats(file.tensor(&format!("moment.{i}"))?.data())));
        Ok((serde_json::from_str(&seal)?, moments.collect::<Result<_>>()?, velocity))
    };
    read().map_err(Unfit::Broken)
}

/// The text of a seal, and its format, of which alone it is sure that any version can read it.
fn seal_text(bytes: &[u8]) -> Result<(u32, String)> {
    #[derive(Deserialize)]
    struct Numbered {
        #[serde(default)]
        format: u32,
    }
    let (_, header) = SafeTensors::read_metadata(bytes).context("its .state is not whole")?;
    let seal = header.metadata().as_ref().and_then(|metadata| metadata.get(SEAL));
    let seal = seal.context("its .state is not Bonfire's")?;
    Ok((serde_json::from_str::<Numbered>(seal)?.format, seal.clone()))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use bonfire_learn::Shape;
    use bonfire_learn::models::{ModelSpec, mlp};

    fn layout(hidden: usize) -> Layout {
        let spec = ModelSpec::Mlp(mlp::Options { hidden: vec![hidden] });
        let shape = Shape::Images { height: 2, width: 3, channels: 2, classes: 3 };
        spec.build(&shape).expect("a model").layout().clone()
    }

    fn write_rounds(folder: &Path, layout: &Layout, rounds: &[u64], keep: usize) {
        for &round in rounds {
            let parameters = layout.initial(round);
            let moments = [layout.initial(round + 1), layout.initial(round + 2)];
            let best_accuracy = Some(0.1 + 0.2);
            let chosen = (round > 3).then_some(Chosen { int8: true, steps: 8, after: 100 });
            let progress = Progress { round, samples: 7, best_accuracy, chosen, ..Progress::default() };
            // Of a run without an outer step, and of one with it.
            let velocity = round.is_multiple_of(2).then(|| layout.initial(round + 3));
            let snapshot = Snapshot {
                layout,
                parameters: &parameters,
                moments: &moments,
                velocity: velocity.as_ref(),
                progress: &progress,
            };
            write(folder, snapshot, keep).expect("a checkpoint");
        }
    }

    #[test]
    fn what_was_written_is_read_back_and_the_newest_are_kept() {
        let (folder, layout) = (tempfile::tempdir().expect("a folder"), layout(4));
        write_rounds(folder.path(), &layout, &[1, 2, 3, 4], 2);
        let rounds: Vec<u64> = list(folder.path()).expect("a list").iter().map(|(round, _)| *round).collect();
        assert_eq!(rounds, [3, 4]);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 4, "nothing else is left");
        let (checkpoint, skipped) = newest_whole(folder.path(), &layout).expect("a look");
        let checkpoint = checkpoint.expect("a checkpoint");
        assert!(skipped.is_empty());
        assert_eq!(checkpoint.parameters, layout.initial(4));
        assert_eq!(checkpoint.moments, [layout.initial(5), layout.initial(6)]);
        assert_eq!(checkpoint.velocity, Some(layout.initial(7)));
        assert_eq!((checkpoint.progress.round, checkpoint.progress.best_accuracy), (4, Some(0.1 + 0.2)));
        let chosen = Some(Chosen { int8: true, steps: 8, after: 100 });
        assert_eq!(checkpoint.progress.chosen, chosen);
        let progress_of = |round| progress_of(&folder.path().join(file_name(round)));
        assert_eq!(progress_of(4), Some(checkpoint.progress));
        assert_eq!(progress_of(3).expect("a state").chosen, None, "nothing was chosen then");
        assert_eq!(progress_of(5), None);
    }

    #[test]
    fn parameters_are_written_in_pytorchs_order() {
        for model in ["lenet5", "cnn", "mlp", "resnet20"] {
            let spec: ModelSpec = serde_json::from_value(serde_json::json!({model: {}})).expect("a model");
            let shape = Shape::Images { height: 28, width: 28, channels: 1, classes: 10 };
            let layout = spec.build(&shape).expect("a model").layout().clone();
            let flat = layout.initial(1);
            for tensor in layout.tensors() {
                let values: Vec<f32> = in_torch_order(tensor, &flat).collect();
                assert_eq!(values, tensor.to_torch(&flat), "{} of {model}", tensor.name);
            }
        }
    }

    #[test]
    fn a_broken_checkpoint_is_passed_over_with_its_reason() {
        type Damage = fn(&Path);
        let damages: [(&str, Damage); 5] = [
            ("not a whole", |file| cut(file, 10)),
            ("checksum", |file| cut(file, 100)),
            ("checksum", flip_last),
            ("cannot be read", |file| fs::remove_file(file.with_extension("state")).expect("removed")),
            ("not whole", |file| cut(&file.with_extension("state"), 50)),
        ];
        let layout = layout(4);
        for (i, (reason, damage)) in damages.into_iter().enumerate() {
            let folder = tempfile::tempdir().expect("a folder");
            write_rounds(folder.path(), &layout, &[1, 2], 5);
            damage(&folder.path().join(file_name(2)));
            let (checkpoint, skipped) = newest_whole(folder.path(), &layout).expect("a look");
            assert_eq!(checkpoint.expect("a checkpoint").progress.round, 1, "damage {i}");
            assert!(skipped[0].contains(reason) || skipped[0].contains("checksum"), "{}", skipped[0]);
        }
    }

    fn cut(file: &Path, len: u64) {
        fs::OpenOptions::new().write(true).open(file).expect("a file").set_len(len).expect("cut");
    }

    fn flip_last(file: &Path) {
        let mut bytes = fs::read(file).expect("a file");
        *bytes.last_mut().expect("bytes") ^= 1;
        fs::write(file, bytes).expect("written");
    }

    #[test]
    fn a_checkpoint_of_another_model_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        write_rounds(folder.path(), &layout(4), &[1], 5);
        let error = newest_whole(folder.path(), &layout(5)).expect_err("another model");
        let text = format!("{error:#}");
        assert!(text.contains("another model") && text.contains("fc1.weight"), "{text}");
    }

    /// Changes the seal of a checkpoint.
    fn reseal(file: &Path, change: impl Fn(&mut serde_json::Value)) {
        let state = file.with_extension("state");
        let bytes = fs::read(&state).expect("a state");
        let (_, text) = seal_text(&bytes).expect("a seal");
        let mut seal = serde_json::from_str(&text).expect("JSON");
        change(&mut seal);
        let old = SafeTensors::deserialize(&bytes).expect("moments");
        let metadata = HashMap::from([(SEAL.to_owned(), seal.to_string())]);
        fs::write(state, safetensors::serialize(old.tensors(), Some(metadata)).expect("a state"))
            .expect("written");
    }

    #[test]
    fn what_counts_is_the_format() {
        let (folder, layout) = (tempfile::tempdir().expect("a folder"), layout(4));
        write_rounds(folder.path(), &layout, &[1], 5);
        let file = folder.path().join(file_name(1));
        let look = || newest_whole(folder.path(), &layout).map(|(found, _)| found.map(|it| it.moments));
        let moments = look().expect("a look");
        assert!(moments.is_some());
        reseal(&file, |seal| seal["layout"] = "of a layout in another order".into());
        let error = format!("{:#}", look().expect_err("another layout"));
        assert!(error.contains("another version of Bonfire"), "{error}");
        reseal(&file, |seal| drop(seal.as_object_mut().expect("an object").remove("format")));
        assert_eq!(look().expect("format 0 has another digest, and is read all the same"), moments);
        reseal(&file, |seal| *seal = serde_json::json!({"format": 99, "anything": "else"}));
        let error = format!("{:#}", look().expect_err("a format of the future"));
        assert!(error.contains("of format 99, which a newer Bonfire writes"), "{error}");
    }
}
