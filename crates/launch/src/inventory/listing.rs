//! What `ansible-inventory --list` prints, and programs that make inventories print too.

use std::path::Path;

use bonfire_yaml::{YamlData, YamlEntry, YamlNode, YamlPlace};

use super::document;
use super::error::{InventoryError, short};
use super::graph::{Graph, GroupId};
use super::pattern::check_address;
use super::variables::InventoryPlace;

/// Whether these groups name their hosts and children in lists, with the variables of hosts apart.
pub(super) fn is_one(entries: &[YamlEntry]) -> bool {
    let is_list = |node: Option<&YamlNode>| matches!(node, Some(YamlNode { data: YamlData::List(_), .. }));
    entries.iter().any(|entry| {
        let group = &entry.value;
        entry.key == "_meta"
            || is_list(Some(group))
            || is_list(group.get("hosts"))
            || is_list(group.get("children"))
    })
}

pub(super) fn read(path: &Path, entries: &[YamlEntry]) -> Result<Graph, InventoryError> {
    let mut reader = ListingReader { graph: Graph::new(), path };
    // The groups come sorted by name, while the lists of children have the order of the inventory.
    for entry in entries.iter().filter(|entry| entry.key != "_meta") {
        reader.take_group(entry)?;
    }
    let hostvars =
        entries.iter().find(|entry| entry.key == "_meta").and_then(|meta| meta.value.get("hostvars"));
    if let Some(YamlNode { data: YamlData::Map(hosts), .. }) = hostvars {
        reader.take_hostvars(hosts)?;
    }
    Ok(reader.graph)
}

struct ListingReader<'a> {
    graph: Graph,
    path: &'a Path,
}

impl ListingReader<'_> {
    fn take_group(&mut self, entry: &YamlEntry) -> Result<(), InventoryError> {
        let group = self.graph.group(&entry.key);
        match &entry.value.data {
            YamlData::List(_) => self.take_hosts(group, &entry.value),
            YamlData::Map(parts) => parts.iter().try_for_each(|part| match part.key.as_str() {
                "hosts" => self.take_hosts(group, &part.value),
                "children" => self.take_children(group, &part.value),
                "vars" => self.take_variables(group, &part.value),
                _ => Ok(()),
            }),
            YamlData::Scalar(_) if entry.value.is_null() => Ok(()),
            YamlData::Scalar(_) => {
                Err(self
                    .wrong(&entry.place, format!("expected the hosts of the group `{}`", short(&entry.key))))
            }
        }
    }

    fn take_hosts(&mut self, group: GroupId, node: &YamlNode) -> Result<(), InventoryError> {
        for (name, place) in self.names(node)? {
            let place = InventoryPlace::of(self.path, place);
            check_address(name).map_err(|message| place.wrong(message))?;
            self.graph.add_host(group, name, None, &place).map_err(|message| place.wrong(message))?;
        }
        Ok(())
    }

    fn take_children(&mut self, group: GroupId, node: &YamlNode) -> Result<(), InventoryError> {
        for (name, place) in self.names(node)? {
            let child = self.graph.group(name);
            self.graph.adopt(group, child).map_err(|message| self.wrong(place, message))?;
        }
        Ok(())
    }

    fn take_variables(&mut self, group: GroupId, node: &YamlNode) -> Result<(), InventoryError> {
        let YamlData::Map(variables) = &node.data else { return Ok(()) };
        for variable in variables {
            let place = InventoryPlace::of(self.path, &variable.place);
            let set = self.graph.set_group(group, &variable.key, document::value(&variable.value), &place);
            set.map_err(|message| place.wrong(message))?;
        }
        Ok(())
    }

    /// A host that has variables and is in no group is a host all the same.
    fn take_hostvars(&mut self, hosts: &[YamlEntry]) -> Result<(), InventoryError> {
        for host in hosts {
            let place = InventoryPlace::of(self.path, &host.place);
            let known = self.graph.find_host(&host.key).map(Ok);
            let id = known.unwrap_or_else(|| {
                check_address(&host.key)?;
                self.graph.add_host(Graph::ALL, &host.key, None, &place)
            });
            let id = id.map_err(|message| place.wrong(message))?;
            let YamlData::Map(variables) = &host.value.data else { continue };
            for variable in variables {
                let place = InventoryPlace::of(self.path, &variable.place);
                self.graph.set_host(id, &variable.key, document::value(&variable.value), &place);
            }
        }
        Ok(())
    }

    fn names<'n>(&self, node: &'n YamlNode) -> Result<Vec<(&'n str, &'n YamlPlace)>, InventoryError> {
        let name = |item: &'n YamlNode| match document::text(item) {
            Some(name) => Ok((name, &item.place)),
            None => Err(self.wrong(&item.place, "expected a name".to_owned())),
        };
        match &node.data {
            YamlData::List(items) => items.iter().map(name).collect(),
            YamlData::Map(entries) => {
                Ok(entries.iter().map(|entry| (entry.key.as_str(), &entry.place)).collect())
            }
            YamlData::Scalar(_) if node.is_null() => Ok(Vec::new()),
            YamlData::Scalar(_) => Err(self.wrong(&node.place, "expected a list of names".to_owned())),
        }
    }

    fn wrong(&self, place: &YamlPlace, message: String) -> InventoryError {
        InventoryPlace::of(self.path, place).wrong(message)
    }
}
