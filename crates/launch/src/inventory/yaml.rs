//! Ansible's YAML, and the same as JSON.

use std::path::Path;

use bonfire_yaml::{YamlData, YamlEntry, YamlNode};

use super::document;
use super::error::{InventoryError, short};
use super::graph::{Graph, GroupId};
use super::listing;
use super::pattern;
use super::variables::InventoryPlace;

/// Reads groups by name, each with `hosts`, `children` and `vars`.
pub(super) fn read(path: &Path, text: &str) -> Result<Graph, InventoryError> {
    let entries = document::read(path, text)?;
    if let Some(plugin) = entries.iter().find(|entry| entry.key == "plugin") {
        let message = "configures a plugin of Ansible; keep what `ansible-inventory --list` prints in a file";
        return Err(InventoryPlace::of(path, &plugin.place).wrong(message));
    }
    if listing::is_one(&entries) {
        return listing::read(path, &entries);
    }
    let mut reader = YamlReader { graph: Graph::new(), path };
    for entry in &entries {
        reader.take_group(entry)?;
    }
    Ok(reader.graph)
}

struct YamlReader<'a> {
    graph: Graph,
    path: &'a Path,
}

impl YamlReader<'_> {
    fn take_group(&mut self, entry: &YamlEntry) -> Result<(), InventoryError> {
        let group = self.graph.group(&entry.key);
        let parts = match &entry.value.data {
            YamlData::Map(parts) => parts,
            _ if entry.value.is_null() => return Ok(()),
            _ => return Err(self.wrong(entry, "expected a group with `hosts`, `children` or `vars`")),
        };
        for part in parts {
            match part.key.as_str() {
                "hosts" => self.take_hosts(group, part)?,
                "children" => self.take_children(group, part)?,
                "vars" => self.take_variables(group, part)?,
                _ => return Err(self.wrong(part, "a group has only `hosts`, `children` and `vars`")),
            }
        }
        Ok(())
    }

    fn take_hosts(&mut self, group: GroupId, part: &YamlEntry) -> Result<(), InventoryError> {
        for entry in self.entries(part)? {
            let place = InventoryPlace::of(self.path, &entry.place);
            let pattern = pattern::expand(&entry.key).map_err(|message| place.wrong(message))?;
            let variables = match &entry.value.data {
                YamlData::Map(variables) => variables.as_slice(),
                _ if entry.value.is_null() => &[],
                _ => {
                    return Err(
                        self.wrong(&entry, "expected the variables of a host, such as `{ansible_port: 22}`")
                    );
                }
            };
            for name in &pattern.names {
                let host = self.graph.add_host(group, name, pattern.port, &place);
                let host = host.map_err(|message| place.wrong(message))?;
                for variable in variables {
                    let place = InventoryPlace::of(self.path, &variable.place);
                    self.graph.set_host(host, &variable.key, document::value(&variable.value), &place);
                }
            }
        }
        Ok(())
    }

    fn take_children(&mut self, group: GroupId, part: &YamlEntry) -> Result<(), InventoryError> {
        for entry in self.entries(part)? {
            let child = self.graph.group(&entry.key);
            self.graph.adopt(group, child).map_err(|message| self.wrong(&entry, &message))?;
            self.take_group(&entry)?;
        }
        Ok(())
    }

    fn take_variables(&mut self, group: GroupId, part: &YamlEntry) -> Result<(), InventoryError> {
        for entry in self.entries(part)? {
            let place = InventoryPlace::of(self.path, &entry.place);
            let set = self.graph.set_group(group, &entry.key, document::value(&entry.value), &place);
            set.map_err(|message| place.wrong(message))?;
        }
        Ok(())
    }

    /// What stands below `hosts`, `children` or `vars`. A single name may stand there without a colon.
    fn entries(&self, part: &YamlEntry) -> Result<Vec<YamlEntry>, InventoryError> {
        let name = document::text(&part.value).filter(|_| part.key != "vars");
        match (&part.value.data, name) {
            (YamlData::Map(entries), _) => Ok(entries.clone()),
            (_, Some(name)) => {
                let place = part.value.place.clone();
                let value = YamlNode::null(place.clone());
                Ok(vec![YamlEntry { key: name.to_owned(), place, value }])
            }
            _ if part.value.is_null() => Ok(Vec::new()),
            _ => Err(self.wrong(part, "expected names with a colon each, such as `pi1:`")),
        }
    }

    fn wrong(&self, entry: &YamlEntry, message: &str) -> InventoryError {
        InventoryPlace::of(self.path, &entry.place).wrong(format!("`{}`: {message}", short(&entry.key)))
    }
}
