//! Ansible's YAML, and the same as JSON.

use std::path::Path;

use super::error::{InventoryError, short};
use super::graph::{Graph, GroupId};
use super::listing;
use super::pattern;
use super::tree::{self, Data, Entry, Node};
use super::variables::Place;

/// Reads groups by name, each with `hosts`, `children` and `vars`.
pub(super) fn read(path: &Path, text: &str) -> Result<Graph, InventoryError> {
    let entries = tree::read(path, text)?;
    if let Some(plugin) = entries.iter().find(|entry| entry.key == "plugin") {
        let message = "configures a plugin of Ansible; keep what `ansible-inventory --list` prints in a file";
        return Err(InventoryError::of_line(path, plugin.line, message));
    }
    if listing::is_one(&entries) {
        return listing::read(path, &entries);
    }
    let mut reader = Reader { graph: Graph::new(), path };
    for entry in &entries {
        reader.take_group(entry)?;
    }
    Ok(reader.graph)
}

struct Reader<'a> {
    graph: Graph,
    path: &'a Path,
}

impl Reader<'_> {
    fn take_group(&mut self, entry: &Entry) -> Result<(), InventoryError> {
        let group = self.graph.group(&entry.key);
        let parts = match &entry.value.data {
            Data::Null => return Ok(()),
            Data::Map(parts) => parts,
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

    fn take_hosts(&mut self, group: GroupId, part: &Entry) -> Result<(), InventoryError> {
        for entry in self.entries(part)? {
            let place = self.place(entry.line);
            let pattern = pattern::expand(&entry.key).map_err(|message| place.wrong(message))?;
            let variables = match &entry.value.data {
                Data::Null => &[],
                Data::Map(variables) => variables.as_slice(),
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
                    let place = self.place(variable.line);
                    self.graph.set_host(host, &variable.key, variable.value.content(), &place);
                }
            }
        }
        Ok(())
    }

    fn take_children(&mut self, group: GroupId, part: &Entry) -> Result<(), InventoryError> {
        for entry in self.entries(part)? {
            let child = self.graph.group(&entry.key);
            self.graph.adopt(group, child).map_err(|message| self.wrong(&entry, &message))?;
            self.take_group(&entry)?;
        }
        Ok(())
    }

    fn take_variables(&mut self, group: GroupId, part: &Entry) -> Result<(), InventoryError> {
        for entry in self.entries(part)? {
            let place = self.place(entry.line);
            let set = self.graph.set_group(group, &entry.key, entry.value.content(), &place);
            set.map_err(|message| place.wrong(message))?;
        }
        Ok(())
    }

    /// What stands below `hosts`, `children` or `vars`. A single name may stand there without a colon.
    fn entries(&self, part: &Entry) -> Result<Vec<Entry>, InventoryError> {
        match &part.value.data {
            Data::Null => Ok(Vec::new()),
            Data::Map(entries) => Ok(entries.clone()),
            Data::Text(name) if part.key != "vars" => {
                let line = part.value.line;
                Ok(vec![Entry { key: name.clone(), line, value: Node { line, data: Data::Null } }])
            }
            _ => Err(self.wrong(part, "expected names with a colon each, such as `pi1:`")),
        }
    }

    fn place(&self, line: usize) -> Place {
        Place { file: self.path.into(), line }
    }

    fn wrong(&self, entry: &Entry, message: &str) -> InventoryError {
        InventoryError::of_line(self.path, entry.line, format!("`{}`: {message}", short(&entry.key)))
    }
}
