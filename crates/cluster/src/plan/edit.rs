//! Keys of a run file that are set in its text: what its author wrote otherwise stays as it is, comments too.

use bonfire_run::Overrides;
use bonfire_run::run_file::{RunFile, Settings};
use bonfire_yaml::{YamlError, to_yaml};

/// The keys that say who exchanges with whom, and how.
const OWN: [&str; 9] = [
    "arch",
    "workers",
    "parameter_server",
    "global_server",
    "allreduce",
    "head",
    "compression",
    "local_steps",
    "min_workers",
];

/// The keys that are for local steps alone.
const OF_LOCAL_STEPS: [&str; 2] = ["outer", "easgd"];

/// A run file's text in which these keys alone say who exchanges with whom.
pub(super) fn with_keys(
    settings: &Settings,
    text: &str,
    keys: &[(&'static str, String)],
) -> Result<String, YamlError> {
    let added: String = keys.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    let steps_alone = keys.iter().any(|(key, _)| *key == "local_steps");
    let is_set = |key: &str| keys.iter().any(|(set, _)| *set == key);
    let is_own =
        |key: &str| OWN.contains(&key) || is_set(key) || (OF_LOCAL_STEPS.contains(&key) && !steps_alone);
    let edited = without(text, is_own);
    let separator = if edited.is_empty() || edited.ends_with('\n') { "" } else { "\n" };
    let edited = format!("{edited}{separator}{added}");
    let read = |text: &str| Settings::read("plan", text, &Overrides::default(), 1);
    // One mapping in braces, or anchors across keys, cannot be edited by lines.
    match read(&edited) {
        Ok(found) if is_same(&found.file, &settings.file) => Ok(edited),
        other => {
            let written = format!("{}{added}", without(&to_yaml(&plain(&settings.file))?, is_own));
            match (read(&written), other) {
                (Ok(_), _) => Ok(written),
                // What is wrong with the keys is the same in both.
                (Err(error), _) => Err(error),
            }
        }
    }
}

/// Whether two files differ in these keys alone.
fn is_same(a: &RunFile, b: &RunFile) -> bool {
    plain(a) == plain(b)
}

fn plain(file: &RunFile) -> RunFile {
    let none = RunFile::default();
    RunFile {
        arch: none.arch,
        workers: None,
        parameter_server: None,
        global_server: None,
        allreduce: None,
        head: none.head,
        compression: none.compression,
        local_steps: none.local_steps,
        outer: None,
        easgd: None,
        min_workers: none.min_workers,
        ..file.clone()
    }
}

/// The lines of a text but for those of these keys, each with what is indented below it.
fn without(text: &str, is_own: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut is_dropped = false;
    for line in text.lines() {
        let is_inside =
            line.starts_with([' ', '\t', '#']) || line.starts_with("- ") || line.trim().is_empty();
        if !is_inside {
            let key = line.split(':').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            is_dropped = is_own(key);
        } else if line.starts_with('#') {
            is_dropped = false;
        }
        if !is_dropped {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, keys: &[(&'static str, &str)]) -> Result<String, String> {
        let settings = Settings::read("run.yml", text, &Overrides::default(), 1).expect("a run file");
        let keys: Vec<(&'static str, String)> =
            keys.iter().map(|&(key, value)| (key, value.to_owned())).collect();
        with_keys(&settings, text, &keys).map_err(|error| error.to_string())
    }

    const GROUP: [(&str, &str); 2] = [("arch", "allreduce"), ("allreduce", "{num_workers: 3}")];

    #[test]
    fn only_what_is_chosen_changes() {
        let text = "# my run\nmodel: lenet5   # small\narch: flat\nparameter_server:\n  aggr_type: sync\n  \
                    num_workers: 2\n\nepochs: 3\n";
        let expect =
            "# my run\nmodel: lenet5   # small\nepochs: 3\narch: allreduce\nallreduce: {num_workers: 3}\n";
        assert_eq!(edit(text, &GROUP).as_deref(), Ok(expect));
        assert_eq!(edit("", &GROUP).as_deref(), Ok("arch: allreduce\nallreduce: {num_workers: 3}\n"));
    }

    #[test]
    fn a_file_in_braces_is_written_anew() {
        let written = edit("{model: lenet5, epochs: 3, workers: 2}", &GROUP).expect("a run file");
        assert!(
            written.contains("epochs: 3") && written.ends_with("allreduce: {num_workers: 3}\n"),
            "{written}"
        );
    }

    #[test]
    fn what_a_run_file_refuses_is_refused() {
        let wrong = edit("epochs: 1", &[("arch", "single"), ("compression", "{powersgd: 2}")]);
        assert!(wrong.as_ref().is_err_and(|wrong| wrong.contains("powersgd")), "{wrong:?}");
    }
}
