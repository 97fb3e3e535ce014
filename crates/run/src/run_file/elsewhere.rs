//! Keys that people know from elsewhere, and where what they mean is here.

use bonfire_yaml::{Tree, YamlError};

/// A key of other programs, and what to write instead.
const KEYS: &[(&str, &str)] = &[
    ("lr", "optimizer: {adam: {lr: 0.001}}"),
    ("learning_rate", "optimizer: {adam: {lr: 0.001}}"),
    ("momentum", "optimizer: {sgd: {momentum: 0.9}}"),
    ("weight_decay", "optimizer: {adamw: {weight_decay: 0.01}}"),
    ("num_epochs", "epochs: 5"),
    ("n_epochs", "epochs: 5"),
    ("max_epochs", "epochs: 5"),
    ("max_steps", "num_server_rounds: 500"),
    ("steps", "num_server_rounds: 500"),
    ("batch", "batch_size: 32"),
    ("train_batch_size", "batch_size: 32"),
    ("num_workers", "workers: 2"),
    ("dataset", "data: digits"),
    ("random_seed", "seed: 1234"),
    ("scheduler", "schedule: cosine"),
    ("lr_scheduler", "schedule: cosine"),
    ("grad_clip", "clip_norm: 1.0"),
    ("max_grad_norm", "clip_norm: 1.0"),
    ("gradient_clip_val", "clip_norm: 1.0"),
    ("output_dir", "--out FOLDER on the command line"),
    ("resume", "--resume RUN_DIR on the command line"),
    ("layers", "model: {layers: […]}"),
    ("loss", "--set data.value=COLUMN for mean squared error; what has classes has cross-entropy"),
];

/// Refuses a run file that has one of them.
pub(super) fn check(tree: &Tree) -> Result<(), YamlError> {
    match KEYS.iter().find(|(key, _)| tree.has(key)) {
        Some((key, here)) => {
            Err(tree.wrong(key, format!("this is written otherwise here: {}", quoted(here))))
        }
        None => Ok(()),
    }
}

/// What a flag of other programs is here, if it is one that is known or a key of the run file.
pub fn of_flag(flag: &str) -> Option<String> {
    let key = flag.trim_start_matches('-').split('=').next()?.replace('-', "_");
    if let Some((_, here)) =
        KEYS.iter().find(|(known, _)| *known == key).filter(|(_, here)| here.contains(": "))
    {
        let (name, rest) = here.split_once(": ")?;
        let option = rest.trim_matches(['{', '}']).replace(": {", ".").replace(": ", "=");
        let is_option = rest.starts_with('{');
        return Some(if is_option {
            format!("--set {name}.{option}")
        } else {
            format!("--set {name}={rest}")
        });
    }
    let own =
        ["epochs", "batch_size", "seed", "model", "data", "optimizer", "schedule", "warmup", "clip_norm"];
    own.contains(&key.as_str()).then(|| format!("--set {key}=VALUE"))
}

fn quoted(here: &str) -> String {
    if here.starts_with("--") { here.to_owned() } else { format!("`{here}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_others_are_known() {
        let check = |flag: &str, expect: Option<&str>| assert_eq!(of_flag(flag).as_deref(), expect, "{flag}");
        check("--epochs", Some("--set epochs=VALUE"));
        check("--batch-size=5", Some("--set batch_size=VALUE"));
        check("--lr", Some("--set optimizer.adam.lr=0.001"));
        check("--num-epochs", Some("--set epochs=5"));
        check("--batch", Some("--set batch_size=32"));
        check("--output-dir", None);
        check("--nonsense", None);
    }

    #[test]
    fn keys_of_others_say_what_is_here() {
        let tree = Tree::parse("run.yml", "seed: 1\nlearning_rate: 0.1\n").expect("a tree");
        let error = check(&tree).expect_err("a key of others").to_string();
        let expect =
            "run.yml:2: learning_rate: this is written otherwise here: `optimizer: {adam: {lr: 0.001}}`";
        assert_eq!(error, expect);
    }
}
