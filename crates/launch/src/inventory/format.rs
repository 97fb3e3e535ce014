use std::path::Path;

use super::error::InventoryError;
use super::{cloud, hostfile};

/// How a file tells its hosts. JSON is YAML; a plain list is a hostfile without slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InventoryFormat {
    Ini,
    Yaml,
    Hostfile,
    /// What the command line of a cloud prints.
    Cloud,
}

/// Looks at what stands in a file. The table is in the documentation of the module above.
pub(super) fn recognise(path: &Path, text: &str) -> Result<InventoryFormat, InventoryError> {
    if text.starts_with("#!") {
        let message =
            "is a program that prints an inventory; run it with --list and keep what it prints in a file";
        return Err(InventoryError::of_file(path, message));
    }
    if text.starts_with("$ANSIBLE_VAULT") {
        return Err(InventoryError::of_file(path, "is encrypted; decrypt it with `ansible-vault view`"));
    }
    if cloud::is_one(text) {
        return Ok(InventoryFormat::Cloud);
    }
    let lines =
        || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let Some(first) = lines().next() else {
        return Err(InventoryError::of_file(path, "has no hosts; write one a line"));
    };
    if lines().any(is_section) {
        return Ok(InventoryFormat::Ini);
    }
    let first_word = first.split_whitespace().next().unwrap_or_default();
    if first.starts_with(['{', '%', '"', '\'']) || first_word == "---" || first_word.ends_with(':') {
        return Ok(InventoryFormat::Yaml);
    }
    Ok(if lines().any(is_ansible) { InventoryFormat::Ini } else { InventoryFormat::Hostfile })
}

fn is_section(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim_end();
    line.starts_with('[') && line.ends_with(']')
}

/// Whether a line can only be Ansible's: a range, an address in brackets, or a variable that no hostfile has.
fn is_ansible(line: &str) -> bool {
    let line = hostfile::close_up(line.split('#').next().unwrap_or_default());
    let mut words = line.split_whitespace();
    let is_range = words.next().is_some_and(|host| host.contains('['));
    is_range || words.any(|word| word.split_once('=').is_some_and(|(key, _)| !hostfile::is_key(key)))
}
