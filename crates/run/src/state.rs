//! `state.json`: what a run needs to be made again. The program, the sources, the machine and the data.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use bonfire_data::{Dataset, Samples, pack};
use bonfire_report::{FORMAT, GitFacts, HostFacts, write_json};
use serde::Serialize;
use sha2::{Digest, Sha256};

#[derive(Debug, Serialize)]
struct StateFile {
    /// Of the run folder.
    format: u32,
    version: &'static str,
    command: Vec<String>,
    folder: Option<PathBuf>,
    /// Of the folder that the command was run in.
    git: Option<GitFacts>,
    host: HostFacts,
    data: DataFacts,
}

#[derive(Debug, Serialize)]
struct DataFacts {
    name: String,
    train_samples: usize,
    train_sha256: String,
    /// Of a run that is judged by validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_samples: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_sha256: Option<String>,
    test_samples: usize,
    test_sha256: String,
}

/// Collects and writes the state on a thread of its own: git and checksums take longer than the first round.
pub fn write_in_background(
    path: PathBuf,
    dataset: Arc<Dataset>,
    held_out: Option<Arc<Samples>>,
) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("state".into());
    thread.spawn(move || write(&path, &dataset, held_out.as_deref()))
}

fn write(path: &Path, dataset: &Dataset, held_out: Option<&Samples>) {
    let (test, validation) = match held_out {
        Some(test) => (test, Some(&*dataset.test)),
        None => (&*dataset.test, None),
    };
    let folder = std::env::current_dir().ok();
    let state = StateFile {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        command: std::env::args().collect(),
        git: folder.as_deref().and_then(GitFacts::collect),
        folder,
        host: HostFacts::collect(Some(bonfire_learn::kernels::instructions::name().to_owned())),
        data: DataFacts {
            name: dataset.name.clone(),
            train_samples: dataset.train.len(),
            train_sha256: checksum(&dataset.train),
            validation_samples: validation.map(Samples::len),
            validation_sha256: validation.map(checksum),
            test_samples: test.len(),
            test_sha256: checksum(test),
        },
    };
    // A state that cannot be written costs the state, not the run; the checkpoints say loudly enough that a disk is
    // full.
    let _ = write_json(path, &state);
}

/// The checksum of a data set, by which nodes tell that theirs is the same.
pub fn data_digest(dataset: &Dataset) -> std::io::Result<Vec<u8>> {
    let mut sum = Checksum(Sha256::new());
    pack::write(dataset, &mut sum)?;
    Ok(sum.0.finalize().to_vec())
}

/// Sums up what is written to it.
struct Checksum(Sha256);

impl std::io::Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The checksum of samples as they were trained on, whichever files they came from.
fn checksum(samples: &Samples) -> String {
    let mut hash = Sha256::new();
    let mut numbers = |numbers: &[u32]| {
        for chunk in numbers.chunks(1024) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|number| number.to_le_bytes()).collect();
            hash.update(&bytes);
        }
    };
    match samples {
        Samples::Images(images) => {
            numbers(&[images.height as u32, images.width as u32, images.channels as u32]);
            images.pieces().for_each(|piece| hash.update(&piece));
            hash.update(&images.labels);
            images.numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
        }
        Samples::Sentences(sentences) => {
            numbers(&sentences.starts);
            numbers(&sentences.words);
            hash.update(&sentences.tags);
        }
        Samples::Texts(texts) => {
            numbers(&texts.starts);
            for start in (0..texts.words.len()).step_by(1024) {
                let mut block = Vec::with_capacity(1024);
                texts.words.each(start..texts.words.len().min(start + 1024), |word| block.push(word));
                numbers(&block);
            }
            hash.update(&texts.labels);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
