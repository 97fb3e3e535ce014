//! Parameters out of a run folder, and into a new one from a file of PyTorch's.
//!
//! A checkpoint is a safetensors file under PyTorch's names already, so what leaves is a checked copy. What comes in is
//! held against the model, tensor by tensor, before anything is written.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_learn::Layout;
use bonfire_learn::torch_file::{self, ScalarType, Weight};
use bonfire_report::{Event, Log, RunFolder, read_events, write_atomically};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use crate::checkpoint::{self, Progress, Snapshot};
use crate::job::Job;

/// What was written out of a run folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    pub round: u64,
    pub tensors: usize,
    /// In all tensors but the statistics of batch norms.
    pub parameters: usize,
    /// Newer checkpoints that are not whole, and why.
    pub skipped: Vec<String>,
}

/// Which parameters of a run are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of the newest checkpoint that is whole.
    Newest,
    Round(u64),
    /// Of a run that is judged by validation.
    Best,
}

/// Writes parameters of a run into a new file.
pub fn export(run_dir: &Path, which: Which, out: &Path) -> Result<Exported> {
    ensure!(!out.exists(), "{}: is there already; choose another name with -o", out.display());
    let folder = RunFolder::open(run_dir)?;
    let (found, bytes, skipped) = match which {
        Which::Round(round) => of_round(&folder, round)?,
        Which::Newest => newest(&folder)?,
        Which::Best => best(&folder)?,
    };
    let file =
        SafeTensors::deserialize(&bytes).context("a checkpoint that fits its state is no safetensors")?;
    let is_statistic = |name: &str| name.ends_with(".running_mean") || name.ends_with(".running_var");
    let parameters = file.iter().filter(|(name, _)| !is_statistic(name));
    let parameters = parameters.map(|(_, tensor)| tensor.shape().iter().product::<usize>()).sum();
    write_atomically(out, &bytes)?;
    Ok(Exported { round: found, tensors: file.len(), parameters, skipped })
}

/// A round, its parameters, and what was passed over.
type Found = (u64, Vec<u8>, Vec<String>);

/// The parameters of a checkpoint for a model of this layout: of one round, or of the one that did best on the test
/// data, or of the newest if none was measured.
pub fn parameters(
    folder: &RunFolder,
    round: Option<u64>,
    layout: &Layout,
    model: &str,
) -> Result<(u64, Vec<f32>)> {
    let (round, bytes, _) = match round.or_else(|| best_round(folder)) {
        Some(round) => of_round(folder, round)?,
        None => newest(folder)?,
    };
    let flat = fit(layout, model, &read_safetensors(&bytes)?).map_err(|message| anyhow!(message))?;
    Ok((round, flat))
}

/// The round of the checkpoint that was right most often, of those that are still there; of numbers, least far off.
fn best_round(folder: &RunFolder) -> Option<u64> {
    let kept: Vec<u64> =
        checkpoint::list(&folder.checkpoints()).ok()?.into_iter().map(|(round, _)| round).collect();
    let events = read_events(&folder.events()).ok()?;
    let measured = events.iter().filter_map(|stamped| match stamped.event {
        Event::Evaluated { round, accuracy, loss, .. } if kept.contains(&round) => {
            Some((round, if accuracy.is_nan() { -loss } else { accuracy }))
        }
        _ => None,
    });
    // Of equals the later one.
    measured.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(round, _)| round)
}

fn newest(folder: &RunFolder) -> Result<Found> {
    let mut skipped = Vec::new();
    for (round, file) in checkpoint::list(&folder.checkpoints())?.into_iter().rev() {
        match checkpoint::whole_bytes(&file) {
            Ok(bytes) => return Ok((round, bytes, skipped)),
            Err(reason) => skipped.push(format!("{}: {reason:#}", file.display())),
        }
    }
    let path = folder.path().display();
    match skipped.first() {
        Some(reason) => bail!("{path}: no checkpoint is whole; {reason}"),
        None => bail!("{path}: there is no checkpoint yet"),
    }
}

/// The best, as the summary, or else the newest checkpoint, speaks of it.
fn best(folder: &RunFolder) -> Result<Found> {
    let file = checkpoint::best::file(&folder.checkpoints());
    let Ok(bytes) = fs::read(&file) else {
        let path = folder.path().display();
        bail!("{path}: there is no best yet; a run has one with `validation` in its run file");
    };
    ensure!(checkpoint::is_whole(&bytes), "{}: is not whole", file.display());
    let digest = checkpoint::hex_digest(&bytes);
    let states = checkpoint::list(&folder.checkpoints())?.into_iter().rev();
    let mut known = states.filter_map(|(_, file)| checkpoint::progress_of(&file)?.best);
    let round = known.find(|best| best.sha256 == digest).map_or(0, |best| best.round);
    Ok((round, bytes, Vec::new()))
}

fn of_round(folder: &RunFolder, round: u64) -> Result<Found> {
    let files = checkpoint::list(&folder.checkpoints())?;
    let Some((_, file)) = files.iter().find(|(other, _)| *other == round) else {
        let rounds: Vec<String> = files.iter().map(|(round, _)| round.to_string()).collect();
        let path = folder.path().display();
        bail!("{path}: there is no checkpoint of round {round}; those there are: {}", rounds.join(", "));
    };
    let bytes = checkpoint::whole_bytes(file).with_context(|| format!("{}", file.display()))?;
    Ok((round, bytes, Vec::new()))
}

/// The tensors of a file of `torch.save`, or of safetensors; its content tells which.
pub fn read_weights(path: &Path) -> Result<Vec<Weight>> {
    let bytes = fs::read(path).with_context(|| format!("{}", path.display()))?;
    let weights = if bytes.starts_with(torch_file::ARCHIVE) || bytes.starts_with(torch_file::LEGACY) {
        torch_file::parse(&bytes).map_err(|message| anyhow!(message))
    } else {
        read_safetensors(&bytes)
    };
    weights.with_context(|| format!("{}", path.display()))
}

fn read_safetensors(bytes: &[u8]) -> Result<Vec<Weight>> {
    let file =
        SafeTensors::deserialize(bytes).context("is neither of torch.save nor a whole safetensors file")?;
    let weights = file.iter().map(|(name, tensor)| {
        let scalar = scalar(tensor.dtype())
            .with_context(|| format!("{name} is of type {}, which cannot be read", tensor.dtype()))?;
        let (name, shape) = (name.to_owned(), tensor.shape().to_vec());
        Ok(Weight { name, shape, values: scalar.floats(tensor.data()) })
    });
    weights.collect()
}

fn scalar(dtype: Dtype) -> Option<ScalarType> {
    Some(match dtype {
        Dtype::F64 => ScalarType::F64,
        Dtype::F32 => ScalarType::F32,
        Dtype::F16 => ScalarType::F16,
        Dtype::BF16 => ScalarType::BF16,
        Dtype::I64 => ScalarType::I64,
        Dtype::I32 => ScalarType::I32,
        Dtype::I16 => ScalarType::I16,
        Dtype::I8 => ScalarType::I8,
        Dtype::U8 => ScalarType::U8,
        Dtype::BOOL => ScalarType::Bool,
        _ => return None,
    })
}

/// Makes a run folder whose run has done nothing yet but begin with these weights.
pub fn import(mut job: Job, path: &Path, weights: &[Weight], out: &Path) -> Result<()> {
    job.replica.parameters = fit(job.layout(), &job.model_name, weights)
        .map_err(|message| anyhow!("{}: {message}", path.display()))?;
    let folder = RunFolder::create(out)?;
    let filled = fill(&folder, &job, path);
    if filled.is_err() {
        // The folder was empty, so all of this was made here. The first error is the one to tell of.
        let _ = fs::remove_dir_all(folder.checkpoints());
        let _ = fs::remove_file(vocabulary(&folder));
        let _ = folder.remove_if_unstarted();
    }
    filled
}

fn vocabulary(folder: &RunFolder) -> PathBuf {
    folder.path().join("vocabulary.txt")
}

/// The log comes last: without it, this is no run folder.
fn fill(folder: &RunFolder, job: &Job, weights: &Path) -> Result<()> {
    let started = Instant::now();
    write_atomically(&folder.run_file(), job.settings.to_yaml()?.as_bytes())?;
    if let Some(words) = &job.dataset.vocabulary {
        words.save(&vocabulary(folder))?;
    }
    let snapshot = Snapshot {
        layout: job.layout(),
        parameters: &job.replica.parameters,
        moments: job.replica.optimizer.moments(),
        velocity: job.replica.velocity(),
        progress: &Progress::default(),
    };
    let (file, bytes) = checkpoint::write(&folder.checkpoints(), snapshot, 1)?;
    let file = file.strip_prefix(folder.path()).unwrap_or(&file).display().to_string();
    let seconds = started.elapsed().as_secs_f64();
    let mut log = Log::open(folder, started, Vec::new())?;
    for event in [
        job.started(),
        Event::Noted { message: format!("the parameters are from {}", weights.display()) },
        Event::Checkpointed { round: 0, file, bytes, seconds },
    ] {
        log.record(Instant::now(), event);
    }
    ensure!(log.failed_writes() == 0, "{}: cannot be written", folder.events().display());
    Ok(())
}

/// Puts weights into the places that a model has for them; an error if they are of another model.
fn fit(layout: &Layout, model: &str, weights: &[Weight]) -> Result<Vec<f32>, String> {
    // How many batches a batch norm has seen; only PyTorch counts them.
    let is_count = |name: &str| name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
    let mut given: HashMap<&str, &Weight> =
        weights.iter().map(|weight| (&*weight.name, weight)).filter(|(name, _)| !is_count(name)).collect();
    let (mut flat, mut missing) = (vec![0.0; layout.len()], Vec::new());
    for tensor in layout.tensors() {
        let (name, expect) = (&tensor.name, &tensor.shape);
        match tensor.names().find_map(|name| given.remove(name)) {
            None => missing.push(format!("{name} {expect:?}")),
            Some(weight) if weight.shape == *expect => tensor.set_from_torch(&weight.values, &mut flat),
            Some(weight) => {
                let Weight { name, shape, .. } = weight;
                return Err(format!("{name} has the shape {shape:?}; {model} expects {expect:?}"));
            }
        }
    }
    // In the order of the file, not of the map.
    let surplus = weights.iter().filter(|weight| given.contains_key(&*weight.name));
    let surplus: Vec<String> = surplus.map(|weight| format!("{} {:?}", weight.name, weight.shape)).collect();
    match (&missing[..], &surplus[..]) {
        ([], []) => Ok(flat),
        (_, []) => Err(format!("has no tensor {}, which {model} expects", few(&missing))),
        ([], _) => {
            let all = layout.tensors().iter().map(|tensor| format!("{} {:?}", tensor.name, tensor.shape));
            let all: Vec<String> = all.collect();
            Err(format!(
                "has the tensor {}, which {model} has not; it expects only {}",
                few(&surplus),
                few(&all)
            ))
        }
        _ => Err(format!(
            "has no tensor {}, which {model} expects, but {}, which it has not",
            few(&missing),
            few(&surplus)
        )),
    }
}

/// The first names of a list, and how many more there are.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut text = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::Shape;
    use bonfire_learn::models::{ModelSpec, mlp, vgg};
    use safetensors::tensor::TensorView;

    fn layout() -> Layout {
        let spec = ModelSpec::Mlp(mlp::Options { hidden: vec![4] });
        let shape = Shape::Images { height: 2, width: 3, channels: 1, classes: 3 };
        spec.build(&shape).expect("a model").layout().clone()
    }

    /// What a file with the parameters of a layout holds.
    fn weights(layout: &Layout, flat: &[f32]) -> Vec<Weight> {
        let weight = |tensor: &bonfire_learn::layout::Tensor| Weight {
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            values: tensor.to_torch(flat),
        };
        layout.tensors().iter().map(weight).collect()
    }

    fn named(name: &str, shape: &[usize]) -> Weight {
        Weight { name: name.into(), shape: shape.into(), values: vec![0.0; shape.iter().product()] }
    }

    #[test]
    fn weights_find_their_places() {
        let layout = layout();
        let flat = layout.initial(1);
        let mut weights = weights(&layout, &flat);
        weights.reverse();
        weights.push(named("bn.num_batches_tracked", &[]));
        assert_eq!(fit(&layout, "mlp", &weights), Ok(flat));
    }

    /// torchvision's VGGs have their dropout behind the linear layers, so these are `classifier.0`, `3` and `6`; ours
    /// have it before them, and are `classifier.1`, `4` and `6`.
    #[test]
    fn vggs_are_read_under_torchvisions_names_and_under_ours() {
        let spec = ModelSpec::Vgg11(vgg::Options { width: 2, hidden: 3, ..vgg::Options::default() });
        let shape = Shape::Images { height: 32, width: 32, channels: 1, classes: 3 };
        let layout = spec.build(&shape).expect("a model").layout().clone();
        let flat = layout.initial(1);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vgg11.safetensors");
        let check = |rename: &dyn Fn(&str) -> String| {
            let weights = weights(&layout, &flat);
            let bytes: Vec<Vec<u8>> = weights
                .iter()
                .map(|weight| weight.values.iter().flat_map(|value| value.to_le_bytes()).collect())
                .collect();
            let views = weights.iter().zip(&bytes).map(|(weight, bytes)| {
                let view = TensorView::new(Dtype::F32, weight.shape.clone(), bytes).expect("a tensor");
                (rename(&weight.name), view)
            });
            fs::write(&path, safetensors::serialize(views, None).expect("a file")).expect("written");
            let found = fit(&layout, "vgg11", &read_weights(&path).expect("weights"));
            found.map(|found| found == flat)
        };
        let theirs = |name: &str| {
            name.replace("classifier.1.", "classifier.0.").replace("classifier.4.", "classifier.3.")
        };
        assert_eq!(check(&str::to_owned), Ok(true));
        assert_eq!(check(&theirs), Ok(true));
        let error = check(&|name| name.replace("classifier.6.", "classifier.5.")).expect_err("a wrong name");
        assert!(error.starts_with("has no tensor classifier.6.weight [3, 3]"), "{error}");
    }

    #[test]
    fn weights_of_another_model_are_refused() {
        let layout = layout();
        let all = "fc1.weight [4, 6], fc1.bias [4], fc2.weight [3, 4], fc2.bias [3]";
        let check = |change: &dyn Fn(&mut Vec<Weight>), expect: &str| {
            let mut weights = weights(&layout, &layout.initial(1));
            change(&mut weights);
            assert_eq!(fit(&layout, "mlp", &weights), Err(expect.to_owned()));
        };
        check(&|weights| drop(weights.remove(3)), "has no tensor fc2.bias [3], which mlp expects");
        check(
            &|weights| weights[0].shape = vec![6, 4],
            "fc1.weight has the shape [6, 4]; mlp expects [4, 6]",
        );
        check(
            &|weights| weights.push(named("fc3.bias", &[2])),
            &format!("has the tensor fc3.bias [2], which mlp has not; it expects only {all}"),
        );
        check(
            &|weights| *weights = (0..11).map(|i| named(&format!("net.{i}"), &[i, 1])).collect(),
            &format!(
                "has no tensor {all}, which mlp expects, but {} and 1 more, which it has not",
                (0..10).map(|i| format!("net.{i} [{i}, 1]")).collect::<Vec<_>>().join(", ")
            ),
        );
    }

    #[test]
    fn the_content_of_a_file_tells_its_format() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("weights");
        let bytes = [0x00, 0x3C, 0x00, 0xC0];
        let safetensors = |dtype: Dtype, shape: &[usize]| {
            let view = TensorView::new(dtype, shape.to_vec(), &bytes).expect("a tensor");
            safetensors::serialize([("w", view)], None).expect("a file")
        };
        fs::write(&path, safetensors(Dtype::F16, &[2, 1])).expect("written");
        let expect = Weight { name: "w".into(), shape: vec![2, 1], values: vec![1.0, -2.0] };
        assert_eq!(read_weights(&path).expect("weights"), [expect]);

        let check = |bytes: &[u8], expect: &str| {
            fs::write(&path, bytes).expect("written");
            let error = format!("{:#}", read_weights(&path).expect_err(expect));
            let prefix = format!("{}: ", path.display());
            assert!(error.starts_with(&prefix) && error.contains(expect), "{error:?} should say {expect:?}");
        };
        check(&safetensors(Dtype::U32, &[1]), "w is of type U32, which cannot be read");
        check(b"", "neither of torch.save nor a whole safetensors file");
        check(b"PK\x03\x04", "not a whole ZIP archive");
        check(torch_file::LEGACY, "before 1.6");
    }
}
