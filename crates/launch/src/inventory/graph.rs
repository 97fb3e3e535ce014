//! Groups of groups of hosts, as all of Ansible's formats tell them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::variables::{InventoryPlace, VariableValue, Variables};

/// More than any inventory mentions; one file could otherwise fill the memory with ranges.
const MAX_MENTIONS: usize = 100_000;

pub(super) type GroupId = usize;
pub(super) type HostId = usize;

#[derive(Debug, Default)]
struct HostGroup {
    name: String,
    hosts: Vec<HostId>,
    members: HashSet<HostId>,
    children: Vec<GroupId>,
    parents: Vec<GroupId>,
    variables: Variables,
    /// From `group_vars`; they count more than all that stand in the inventory, of whichever group.
    folder_variables: Variables,
    /// Of groups that are equally deep, the highest counts most.
    priority: i64,
    depth: usize,
}

#[derive(Debug)]
struct GroupedHost {
    name: String,
    groups: Vec<GroupId>,
    variables: Variables,
    folder_variables: Variables,
}

/// The groups and hosts of an inventory.
#[derive(Debug)]
pub(super) struct Graph {
    groups: Vec<HostGroup>,
    group_ids: HashMap<String, GroupId>,
    hosts: Vec<GroupedHost>,
    host_ids: HashMap<String, HostId>,
    mentions: usize,
}

impl Graph {
    /// The group of all hosts.
    pub(crate) const ALL: GroupId = 0;
    /// The group of the hosts that are in no other.
    pub(crate) const UNGROUPED: GroupId = 1;

    pub(crate) fn new() -> Self {
        let mut graph = Self {
            groups: Vec::new(),
            group_ids: HashMap::new(),
            hosts: Vec::new(),
            host_ids: HashMap::new(),
            mentions: 0,
        };
        graph.group("all");
        graph.group("ungrouped");
        graph.link(Self::ALL, Self::UNGROUPED);
        graph
    }

    pub(crate) fn find(&self, group: &str) -> Option<GroupId> {
        self.group_ids.get(group).copied()
    }

    /// The group of this name, which is made if there is none.
    pub(crate) fn group(&mut self, name: &str) -> GroupId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.groups.len();
        self.groups.push(HostGroup { name: name.to_owned(), priority: 1, ..HostGroup::default() });
        self.group_ids.insert(name.to_owned(), id);
        id
    }

    pub(crate) fn group_name(&self, id: GroupId) -> &str {
        &self.groups[id].name
    }

    /// Puts a group into another.
    pub(crate) fn adopt(&mut self, parent: GroupId, child: GroupId) -> Result<(), String> {
        if child == Self::ALL {
            return Err(format!(
                "the group `all` cannot be in `{}`: it holds every group",
                self.groups[parent].name
            ));
        }
        let above = self.ancestors([parent]);
        if above.contains(&child) {
            let (parent, child) = (&self.groups[parent].name, &self.groups[child].name);
            return Err(format!("the group `{child}` cannot be in `{parent}`, which is in `{child}` itself"));
        }
        self.link(parent, child);
        Ok(())
    }

    fn link(&mut self, parent: GroupId, child: GroupId) {
        if !self.groups[parent].children.contains(&child) {
            self.groups[parent].children.push(child);
            self.groups[child].parents.push(parent);
        }
    }

    /// Puts a host into a group. A port behind its name counts only where it is named first, as with Ansible.
    pub(crate) fn add_host(
        &mut self,
        group: GroupId,
        name: &str,
        port: Option<u16>,
        place: &InventoryPlace,
    ) -> Result<HostId, String> {
        self.mentions += 1;
        if self.mentions > MAX_MENTIONS {
            return Err(format!("more than {MAX_MENTIONS} hosts up to here"));
        }
        let id = match self.host_ids.get(name) {
            Some(&id) => id,
            None => self.new_host(name, port, place),
        };
        if self.groups[group].members.insert(id) {
            self.groups[group].hosts.push(id);
            self.hosts[id].groups.push(group);
        }
        Ok(id)
    }

    fn new_host(&mut self, name: &str, port: Option<u16>, place: &InventoryPlace) -> HostId {
        let mut variables = Variables::default();
        if let Some(port) = port {
            variables.set("ansible_port", VariableValue::Text(port.to_string()), place);
        }
        let id = self.hosts.len();
        self.hosts.push(GroupedHost {
            name: name.to_owned(),
            groups: Vec::new(),
            variables,
            folder_variables: Variables::default(),
        });
        self.host_ids.insert(name.to_owned(), id);
        id
    }

    pub(crate) fn find_host(&self, name: &str) -> Option<HostId> {
        self.host_ids.get(name).copied()
    }

    pub(crate) fn host_name(&self, id: HostId) -> &str {
        &self.hosts[id].name
    }

    pub(crate) fn host_ids(&self) -> std::ops::Range<HostId> {
        0..self.hosts.len()
    }

    pub(crate) fn group_ids(&self) -> std::ops::Range<GroupId> {
        0..self.groups.len()
    }

    pub(crate) fn set_host(&mut self, id: HostId, key: &str, value: VariableValue, place: &InventoryPlace) {
        self.hosts[id].variables.set(key, value, place);
    }

    pub(crate) fn set_host_from_folder(
        &mut self,
        id: HostId,
        key: &str,
        value: VariableValue,
        place: &InventoryPlace,
    ) {
        self.hosts[id].folder_variables.set(key, value, place);
    }

    pub(crate) fn set_group(
        &mut self,
        id: GroupId,
        key: &str,
        value: VariableValue,
        place: &InventoryPlace,
    ) -> Result<(), String> {
        if key != "ansible_group_priority" {
            self.groups[id].variables.set(key, value, place);
            return Ok(());
        }
        let VariableValue::Text(text) = &value else { return Ok(()) };
        let wrong = |_| format!("`ansible_group_priority` needs a whole number, found `{text}`");
        self.groups[id].priority = text.trim().parse().map_err(wrong)?;
        Ok(())
    }

    pub(crate) fn set_group_from_folder(
        &mut self,
        id: GroupId,
        key: &str,
        value: VariableValue,
        place: &InventoryPlace,
    ) {
        self.groups[id].folder_variables.set(key, value, place);
    }

    /// Once everything is read: groups without a parent are in `all`, and so are hosts without a group.
    pub(crate) fn reconcile(&mut self) {
        for id in self.group_ids() {
            if id != Self::ALL && self.groups[id].parents.is_empty() {
                self.link(Self::ALL, id);
            }
        }
        for id in self.host_ids() {
            let host = &mut self.hosts[id];
            let is_grouped = host.groups.iter().any(|&group| group > Self::UNGROUPED);
            if is_grouped && self.groups[Self::UNGROUPED].members.remove(&id) {
                host.groups.retain(|&group| group != Self::UNGROUPED);
            } else if !is_grouped && self.groups[Self::UNGROUPED].members.insert(id) {
                host.groups.push(Self::UNGROUPED);
                self.groups[Self::UNGROUPED].hosts.push(id);
            }
        }
        let HostGroup { hosts, members, .. } = &mut self.groups[Self::UNGROUPED];
        hosts.retain(|id| members.contains(id));
        self.measure_depths();
    }

    /// A group's depth is that of its longest way down from `all`: groups are visited after all of their parents.
    fn measure_depths(&mut self) {
        let mut waiting: Vec<usize> = self.groups.iter().map(|group| group.parents.len()).collect();
        let mut ready = vec![Self::ALL];
        while let Some(id) = ready.pop() {
            let below = self.groups[id].depth + 1;
            for child in self.groups[id].children.clone() {
                let group = &mut self.groups[child];
                group.depth = group.depth.max(below);
                waiting[child] -= 1;
                if waiting[child] == 0 {
                    ready.push(child);
                }
            }
        }
    }

    /// The hosts of a group and of those in it, level by level, each host once.
    pub(crate) fn hosts_of(&self, group: GroupId) -> Vec<HostId> {
        let (mut level, mut seen) = (vec![group], HashSet::from([group]));
        let (mut hosts, mut listed) = (Vec::new(), HashSet::new());
        while !level.is_empty() {
            for &id in &level {
                hosts.extend(self.groups[id].hosts.iter().copied().filter(|&host| listed.insert(host)));
            }
            let below = level.iter().flat_map(|&id| self.groups[id].children.iter().copied());
            level = below.filter(|&id| seen.insert(id)).collect();
        }
        hosts
    }

    /// All variables of a host: a deeper group's over a higher's, its own over those, and each time what the folders
    /// beside the inventory say over what the inventory says.
    pub(crate) fn variables(&self, host: HostId) -> Variables {
        let host = &self.hosts[host];
        let mut groups: Vec<&HostGroup> =
            self.ancestors(host.groups.iter().copied()).into_iter().map(|id| &self.groups[id]).collect();
        groups.sort_by_key(|group| (group.depth, group.priority, &group.name));
        let mut variables = Variables::default();
        groups.iter().for_each(|group| variables.lay(&group.variables));
        groups.iter().for_each(|group| variables.lay(&group.folder_variables));
        variables.lay(&host.variables);
        variables.lay(&host.folder_variables);
        variables
    }

    /// These groups and all that they are in.
    fn ancestors(&self, of: impl IntoIterator<Item = GroupId>) -> HashSet<GroupId> {
        let mut seen = HashSet::new();
        let mut open: Vec<GroupId> = of.into_iter().collect();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(&self.groups[id].parents);
            }
        }
        seen
    }

    /// What groups there are, for one who asked for another.
    pub(crate) fn group_hint(&self, wanted: &str) -> String {
        const LISTED: usize = 20;
        let mut names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        names.retain(|&name| name != "ungrouped" && name != wanted);
        let near: BTreeMap<usize, &str> =
            names.iter().rev().map(|&name| (strsim::levenshtein(name, wanted), name)).collect();
        let nearest = near
            .first_key_value()
            .filter(|&(&distance, _)| distance <= wanted.len() / 3 + 1 && distance < wanted.len());
        let suggestion = nearest.map_or(String::new(), |(_, name)| format!("; did you mean `{name}`?"));
        let more = if names.len() > LISTED { ", …" } else { "" };
        names.truncate(LISTED);
        format!(" (groups: {}{more}){suggestion}", names.join(", "))
    }
}
