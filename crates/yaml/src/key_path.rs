/// One step of a key path such as `local_servers[1].num_workers`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyStep {
    Key(String),
    Index(usize),
}

/// Takes a key path apart, or says what is wrong with it.
pub(crate) fn steps(path: &str) -> Result<Vec<KeyStep>, String> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, indices) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        if key.is_empty() {
            return Err(format!("`{path}` is no key path; write it like `optimizer.adam.lr`"));
        }
        steps.push(KeyStep::Key(key.to_owned()));
        for index in indices.split_inclusive(']') {
            let number = index.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let number = number.and_then(|digits| digits.parse().ok());
            let wrong = || format!("`{part}` is no list item; write it like `local_servers[0]`");
            steps.push(KeyStep::Index(number.ok_or_else(wrong)?));
        }
    }
    Ok(steps)
}

/// The path of `key` in the mapping at `path`.
pub(crate) fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
