//! YAML, and JSON with it, as other programs write it.

use std::path::Path;

use bonfire_yaml::{Dialect, LoadFault, ScalarForm, YamlData, YamlEntry, YamlNode, load};

use super::error::{InventoryError, short};
use super::variables::VariableValue;

/// Reads a file, whose top level must be a mapping or nothing.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<YamlEntry>, InventoryError> {
    let wrong = |line: usize, message: String| {
        // What is missing at the end of a file is told of the line behind it.
        let last = text.lines().count().max(1);
        InventoryError::of_line(path, line.clamp(1, last), message)
    };
    let root = load(text, Dialect::Lenient).map_err(|error| wrong(error.line, in_words(error.fault)))?;
    let nothing = root.is_null();
    match root.data {
        YamlData::Map(entries) => Ok(entries),
        YamlData::Scalar(_) if nothing => Ok(Vec::new()),
        YamlData::Scalar(_) | YamlData::List(_) => {
            let message = "expected a mapping, such as `all: {hosts: {pi1: {}, pi2: {}}}`";
            Err(wrong(root.place.line(), message.to_owned()))
        }
    }
}

fn in_words(fault: LoadFault) -> String {
    match fault {
        LoadFault::NoYaml(info) => format!("is no YAML: {info}"),
        LoadFault::SecondDocument => "a second document begins here; an inventory is one".to_owned(),
        LoadFault::KeyTwice { key, first_line } => {
            format!("the key `{}` is given twice, first on line {first_line}", short(&key))
        }
        LoadFault::Refused(message) => message,
    }
}

/// What a variable is that is set to this.
pub(super) fn value(node: &YamlNode) -> VariableValue {
    match &node.data {
        YamlData::Scalar(_) if node.is_null() => VariableValue::Nothing,
        YamlData::Scalar(_) => {
            text(node).map_or(VariableValue::Encrypted, |text| VariableValue::Text(text.to_owned()))
        }
        YamlData::List(_) => VariableValue::List,
        YamlData::Map(entries) => VariableValue::Mapping(pairs(entries)),
    }
}

/// The keys of a mapping, and their values where those are text.
pub(super) fn pairs(entries: &[YamlEntry]) -> Vec<(String, Option<String>)> {
    let pair = |entry: &YamlEntry| (entry.key.clone(), text(&entry.value).map(str::to_owned));
    entries.iter().map(pair).collect()
}

/// The text of a scalar, unless it is empty or only ansible-vault can read it.
pub(super) fn text(node: &YamlNode) -> Option<&str> {
    let YamlData::Scalar(scalar) = &node.data else { return None };
    let encrypted =
        matches!(&scalar.form, ScalarForm::Tagged(tag) if tag == "vault" || tag == "vault-encrypted");
    (!encrypted && !node.is_null()).then_some(&scalar.text)
}
