//! What `ansible-inventory --list` prints, and programs that make inventories print too.

use std::path::Path;

use super::error::{InventoryError, short};
use super::graph::{Graph, GroupId};
use super::pattern::check_address;
use super::tree::{Data, Entry, Node};
use super::variables::Place;

/// Whether these groups name their hosts and children in lists, with the variables of hosts apart.
pub(super) fn is_one(entries: &[Entry]) -> bool {
    let is_list = |node: Option<&Node>| matches!(node, Some(Node { data: Data::List(_), .. }));
    entries.iter().any(|entry| {
        let group = &entry.value;
        entry.key == "_meta"
            || is_list(Some(group))
            || is_list(group.get("hosts"))
            || is_list(group.get("children"))
    })
}

pub(super) fn read(path: &Path, entries: &[Entry]) -> Result<Graph, InventoryError> {
    let mut reader = Reader { graph: Graph::new(), path };
    // The groups come sorted by name, while the lists of children have the order of the inventory.
    for entry in entries.iter().filter(|entry| entry.key != "_meta") {
        reader.take_group(entry)?;
    }
    let hostvars =
        entries.iter().find(|entry| entry.key == "_meta").and_then(|meta| meta.value.get("hostvars"));
    if let Some(Node { data: Data::Map(hosts), .. }) = hostvars {
        reader.take_hostvars(hosts)?;
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
        match &entry.value.data {
            Data::Null => Ok(()),
            Data::List(_) => self.take_hosts(group, &entry.value),
            Data::Map(parts) => parts.iter().try_for_each(|part| match part.key.as_str() {
                "hosts" => self.take_hosts(group, &part.value),
                "children" => self.take_children(group, &part.value),
                "vars" => self.take_variables(group, &part.value),
                _ => Ok(()),
            }),
            _ => {
                Err(self
                    .wrong(entry.line, format!("expected the hosts of the group `{}`", short(&entry.key))))
            }
        }
    }

    fn take_hosts(&mut self, group: GroupId, node: &Node) -> Result<(), InventoryError> {
        for (name, line) in self.names(node)? {
            let place = self.place(line);
            check_address(name).map_err(|message| place.wrong(message))?;
            self.graph.add_host(group, name, None, &place).map_err(|message| place.wrong(message))?;
        }
        Ok(())
    }

    fn take_children(&mut self, group: GroupId, node: &Node) -> Result<(), InventoryError> {
        for (name, line) in self.names(node)? {
            let child = self.graph.group(name);
            self.graph.adopt(group, child).map_err(|message| self.wrong(line, message))?;
        }
        Ok(())
    }

    fn take_variables(&mut self, group: GroupId, node: &Node) -> Result<(), InventoryError> {
        let Data::Map(variables) = &node.data else { return Ok(()) };
        for variable in variables {
            let place = self.place(variable.line);
            let set = self.graph.set_group(group, &variable.key, variable.value.content(), &place);
            set.map_err(|message| place.wrong(message))?;
        }
        Ok(())
    }

    /// A host that has variables and is in no group is a host all the same.
    fn take_hostvars(&mut self, hosts: &[Entry]) -> Result<(), InventoryError> {
        for host in hosts {
            let place = self.place(host.line);
            let known = self.graph.find_host(&host.key).map(Ok);
            let id = known.unwrap_or_else(|| {
                check_address(&host.key)?;
                self.graph.add_host(Graph::ALL, &host.key, None, &place)
            });
            let id = id.map_err(|message| place.wrong(message))?;
            let Data::Map(variables) = &host.value.data else { continue };
            for variable in variables {
                let place = self.place(variable.line);
                self.graph.set_host(id, &variable.key, variable.value.content(), &place);
            }
        }
        Ok(())
    }

    fn names<'n>(&self, node: &'n Node) -> Result<Vec<(&'n str, usize)>, InventoryError> {
        let name = |item: &'n Node| match &item.data {
            Data::Text(name) => Ok((name.as_str(), item.line)),
            _ => Err(self.wrong(item.line, "expected a name".to_owned())),
        };
        match &node.data {
            Data::Null => Ok(Vec::new()),
            Data::List(items) => items.iter().map(name).collect(),
            Data::Map(entries) => Ok(entries.iter().map(|entry| (entry.key.as_str(), entry.line)).collect()),
            _ => Err(self.wrong(node.line, "expected a list of names".to_owned())),
        }
    }

    fn place(&self, line: usize) -> Place {
        Place { file: self.path.into(), line }
    }

    fn wrong(&self, line: usize, message: String) -> InventoryError {
        InventoryError::of_line(self.path, line, message)
    }
}
