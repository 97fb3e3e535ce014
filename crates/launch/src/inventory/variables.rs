use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use bonfire_yaml::YamlPlace;

use super::error::InventoryError;

/// The variables that tell how to reach a host and what it is; all others are not kept. Of two names for the same, the
/// later one in this list counts more, as with Ansible.
pub(super) const KNOWN: &[&str] = &[
    "ansible_connection",
    "ansible_group_priority",
    "ansible_host",
    "ansible_ssh_host",
    "ansible_user",
    "ansible_ssh_user",
    "ansible_port",
    "ansible_ssh_port",
    "ansible_private_key_file",
    "ansible_ssh_private_key_file",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "slots",
    "watts",
];

/// Where something was given.
#[derive(Clone, Debug)]
pub(super) struct InventoryPlace {
    pub file: Rc<Path>,
    pub line: usize,
}

impl InventoryPlace {
    /// The place of a key or value of a YAML file, all of which are lines.
    pub(crate) fn of(file: &Path, place: &YamlPlace) -> Self {
        Self { file: file.into(), line: place.line() }
    }

    pub(crate) fn wrong(&self, message: impl Into<String>) -> InventoryError {
        InventoryError::of_line(&self.file, self.line, message)
    }
}

/// What a variable was set to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum VariableValue {
    Text(String),
    /// As if it had not been set; also where a group above sets it.
    Nothing,
    /// By ansible-vault.
    Encrypted,
    /// A mapping: its keys, and their values where those are text.
    Mapping(Vec<(String, Option<String>)>),
    List,
}

/// A variable that was set, and where.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub value: VariableValue,
    pub place: InventoryPlace,
}

/// The known variables of a host or group.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(BTreeMap<&'static str, Variable>);

impl Variables {
    /// Keeps the variable if it is known.
    pub(crate) fn set(&mut self, key: &str, value: VariableValue, place: &InventoryPlace) {
        if let Some(&key) = KNOWN.iter().find(|&&known| known == key) {
            self.0.insert(key, Variable { value, place: place.clone() });
        }
    }

    /// Lays others over these.
    pub(crate) fn lay(&mut self, others: &Self) {
        self.0.extend(others.0.iter().map(|(&key, variable)| (key, variable.clone())));
    }

    /// The variable with the last of these names that is set to something.
    pub(crate) fn last_of(&self, names: &[&'static str]) -> Option<(&'static str, &Variable)> {
        let variable = |&name: &&'static str| Some((name, self.0.get(name)?));
        names.iter().rev().filter_map(variable).find(|(_, variable)| variable.value != VariableValue::Nothing)
    }
}
