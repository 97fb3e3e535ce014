//! Configurations of the device-pool project. They say how many rounds and workers there are, and nothing of model and
//! data, which its program has built in: LeNet-5 on Fashion-MNIST.

use bonfire_data::source::found;
use bonfire_run::{Overrides, Settings};

/// What such a file leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolData {
    /// `key=value` to be laid over the file.
    pub set: Vec<String>,
    /// What the user is to know.
    pub note: String,
}

const DATA: &str = "fashion-mnist";

/// Whether a run file is one of these: it has rounds and servers, and none of the keys that its program does not know.
pub(crate) fn is_one(text: &str) -> bool {
    let Ok(settings) = Settings::read("", text, &Overrides::default(), 1) else { return false };
    let has_all = ["num_server_rounds", "arch"].iter().all(|key| settings.says(key));
    let has_server = settings.says("parameter_server") || settings.says("global_server");
    let is_ours = ["model", "data", "optimizer", "seed", "name"].iter().any(|key| settings.says(key));
    has_all && has_server && !is_ours
}

/// What a run file of these trains on, unless the user says it: what is real, if it is on this machine.
pub(crate) fn data_of(text: &str, set: &[String]) -> Option<PoolData> {
    if !is_one(text) || set.iter().any(|assignment| assignment.starts_with("data")) {
        return None;
    }
    let Some(folder) = found(DATA) else {
        let note = format!(
            "the run file names no data, and {DATA}, which such files are for, is not on this machine: digits it is; \
             to get it: bonfire data get {DATA}"
        );
        return Some(PoolData { set: Vec::new(), note });
    };
    let note = format!("the run file names no data: {DATA}, in {}", folder.display());
    Some(PoolData { set: vec![format!("data={DATA}"), "distribute=ship".to_owned()], note })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_say_nothing_of_data_are_meant() {
        let check = |text: &str, expect: bool| assert_eq!(is_one(text), expect, "{text}");
        let pool = "num_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\narch: flat\n\
                    parameter_server: {aggr_type: sync, num_workers: 4}\n";
        check(pool, true);
        check(&format!("{pool}data: digits\n"), false);
        check(&format!("{pool}model: mlp\n"), false);
        check("num_server_rounds: 5\n", false);
        check("", false);
        check("arch: [", false);
        let set = ["data.train=5".to_owned()];
        assert_eq!(data_of(pool, &set), None, "the user says it");
        assert!(data_of(pool, &[]).is_some_and(|data| data.note.contains("fashion-mnist")));
    }
}
