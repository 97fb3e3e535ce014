//! Words, classes and scales that the owners of a run's data have agreed on. The run folder keeps them.

use std::fs::{self, File};
use std::io::BufReader;
use std::sync::Arc;

use anyhow::{Context, Result};
use bonfire_data::{Dataset, pack};
use bonfire_report::{RunFolder, write_atomically};

use super::{Distribute, Overrides, Settings};

impl Settings {
    /// Those of the run of a folder, for a machine of so many cores.
    pub fn of_run(folder: &RunFolder, cores: usize) -> Result<Self> {
        let file = folder.run_file();
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let settings = Self::read(&file.display().to_string(), &text, &Overrides::default(), cores)?;
        settings.as_agreed(folder)
    }

    /// The same with what was agreed on in the run of a folder, if anything was.
    pub fn as_agreed(mut self, folder: &RunFolder) -> Result<Self> {
        let path = folder.form();
        if self.file.distribute != Distribute::Own {
            return Ok(self);
        }
        if path.exists() {
            let read = File::open(&path)
                .map_err(anyhow::Error::from)
                .and_then(|file| Ok(pack::read(&mut BufReader::new(file))?));
            self.form = Some(Arc::new(read.with_context(|| format!("{}", path.display()))?));
        } else if folder.checkpoints().exists() {
            // A run from before there was such a file: then words and classes were the head's.
            self.form = Some(Arc::new(self.file.data.load()?.form()));
        }
        Ok(self)
    }

    /// Whether the owners of the data have to agree before there can be a model.
    pub fn is_to_agree(&self) -> bool {
        self.file.distribute == Distribute::Own && self.form.is_none()
    }
}

/// Keeps what was agreed on.
pub(crate) fn keep(form: &Dataset, folder: &RunFolder) -> Result<()> {
    let mut bytes = Vec::new();
    pack::write(form, &mut bytes)?;
    Ok(write_atomically(&folder.form(), &bytes)?)
}
