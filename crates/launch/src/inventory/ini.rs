//! Ansible's INI.

use std::path::Path;

use super::error::{InventoryError, short};
use super::graph::{Graph, GroupId};
use super::pattern;
use super::variables::{InventoryPlace, VariableValue};
use super::words;

/// What the lines of a section are.
#[derive(Clone, Copy, PartialEq)]
enum SectionKind {
    Hosts,
    Children,
    Vars,
}

struct IniReader {
    graph: Graph,
    group: GroupId,
    kind: SectionKind,
    /// Groups that were named inside others before their own section, with those others. They come behind groups that
    /// were known, so that hosts have the order that Ansible gives them.
    awaited: Vec<(GroupId, String, InventoryPlace)>,
    /// Groups of which only variables were seen, with their first line.
    undeclared: Vec<(String, InventoryPlace)>,
    /// Whether a section of hosts or children of the group was seen, by its id.
    declared: Vec<bool>,
}

/// Reads a file of sections. Lines before the first are hosts of no group.
pub(super) fn read(path: &Path, text: &str) -> Result<Graph, InventoryError> {
    let mut reader = IniReader {
        graph: Graph::new(),
        group: Graph::UNGROUPED,
        kind: SectionKind::Hosts,
        awaited: Vec::new(),
        undeclared: Vec::new(),
        declared: vec![true, true],
    };
    let mut place = InventoryPlace { file: path.into(), line: 0 };
    for line in text.lines() {
        place.line += 1;
        let line = line.trim();
        if !line.is_empty() && !line.starts_with(['#', ';']) {
            reader.take(line, &place).map_err(|message| place.wrong(message))?;
        }
    }
    reader.finish()
}

impl IniReader {
    fn take(&mut self, line: &str, place: &InventoryPlace) -> Result<(), String> {
        if let Some((name, kind)) = section(line)? {
            return self.enter(name, kind, place);
        }
        match self.kind {
            SectionKind::Hosts => self.take_host(line, place),
            SectionKind::Children => self.take_child(line, place),
            SectionKind::Vars => self.take_variable(line, place),
        }
    }

    fn enter(&mut self, name: &str, kind: SectionKind, place: &InventoryPlace) -> Result<(), String> {
        self.group = self.graph.group(name);
        self.kind = kind;
        self.declared.resize(self.graph.group_ids().end, false);
        if kind == SectionKind::Vars {
            if !self.declared[self.group] {
                self.undeclared.push((name.to_owned(), place.clone()));
            }
            return Ok(());
        }
        if !std::mem::replace(&mut self.declared[self.group], true) {
            let (met, awaited) = self.awaited.drain(..).partition(|(_, child, _)| child == name);
            self.awaited = awaited;
            let met: Vec<(GroupId, String, InventoryPlace)> = met;
            return met.iter().try_for_each(|&(parent, ..)| self.graph.adopt(parent, self.group));
        }
        Ok(())
    }

    fn take_host(&mut self, line: &str, place: &InventoryPlace) -> Result<(), String> {
        let words = words::split(line, true).map_err(|_| "a quote is not closed".to_owned())?;
        let Some((entry, assignments)) = words.split_first() else { return Ok(()) };
        let pattern = pattern::expand(entry)?;
        let mut variables = Vec::new();
        for word in assignments {
            let Some((key, value)) = word.split_once('=') else {
                let word = short(word);
                return Err(format!(
                    "expected key=value behind the host, found `{word}` (a comment here begins with `#`)"
                ));
            };
            variables.push((key, literal(value)));
        }
        for name in &pattern.names {
            let host = self.graph.add_host(self.group, name, pattern.port, place)?;
            for (key, value) in &variables {
                self.graph.set_host(host, key, value.clone(), place);
            }
        }
        Ok(())
    }

    fn take_child(&mut self, line: &str, place: &InventoryPlace) -> Result<(), String> {
        let name = line.split('#').next().unwrap_or_default().trim();
        if !is_group_name(name) {
            return Err(format!("expected the name of a group, found `{}`", short(line)));
        }
        match self.graph.find(name) {
            Some(child) => self.graph.adopt(self.group, child),
            None => {
                self.awaited.push((self.group, name.to_owned(), place.clone()));
                Ok(())
            }
        }
    }

    fn take_variable(&mut self, line: &str, place: &InventoryPlace) -> Result<(), String> {
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!("expected key=value, found `{}`", short(line)));
        };
        self.graph.set_group(self.group, key.trim(), literal(value.trim()), place)
    }

    /// A group may be named before its section, so whether it has one shows at the end.
    fn finish(self) -> Result<Graph, InventoryError> {
        let is_declared = |name: &str| self.graph.find(name).is_some_and(|id| self.declared[id]);
        let awaited = self.awaited.iter().map(|(_, name, place)| (name, place));
        let undeclared = self.undeclared.iter().map(|(name, place)| (name, place));
        let lost = awaited.chain(undeclared).filter(|(name, _)| !is_declared(name));
        match lost.min_by_key(|(_, place)| place.line) {
            Some((name, place)) => {
                let hint = self.graph.group_hint(name);
                Err(place.wrong(format!("there is no section [{name}]{hint}")))
            }
            None => Ok(self.graph),
        }
    }
}

/// The group and kind of a line such as `[pool:vars]`, or none if it is no section.
fn section(line: &str) -> Result<Option<(&str, SectionKind)>, String> {
    let bare = line.split('#').next().unwrap_or_default().trim_end();
    let Some(inner) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return Ok(None);
    };
    let (name, kind) = inner.split_once(':').unwrap_or((inner, "hosts"));
    let kind = match kind {
        "hosts" => SectionKind::Hosts,
        "children" => SectionKind::Children,
        "vars" => SectionKind::Vars,
        // Such as an address or a range in brackets, which is a host.
        _ if pattern::is_ipv6(inner) || inner.contains(['[', ']']) => return Ok(None),
        _ => {
            let name = short(name);
            return Err(format!(
                "expected [{name}], [{name}:children] or [{name}:vars], found `{}`",
                short(bare)
            ));
        }
    };
    if !is_group_name(name) {
        return Err(format!(
            "expected the name of a group without spaces, such as `[pool]`, found `{}`",
            short(bare)
        ));
    }
    Ok(Some((name, kind)))
}

fn is_group_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || ":[]".contains(c))
}

/// Ansible takes a value for a Python literal if it can be one: then quotes are no part of it and a comment may follow.
/// Anything else is text to the end of the line.
fn literal(text: &str) -> VariableValue {
    let is_end = |rest: &str| rest.trim_start().is_empty() || rest.trim_start().starts_with('#');
    if let Some(quote @ ('\'' | '"')) = text.chars().next()
        && let Some(length) = text[1..].find(quote)
        && is_end(&text[length + 2..])
    {
        return VariableValue::Text(text[1..=length].to_owned());
    }
    let word = text.split([' ', '\t', '#']).next().unwrap_or_default();
    let is_literal = word == "None" || word.parse::<i64>().is_ok();
    match word {
        "None" if is_end(&text[4..]) => VariableValue::Nothing,
        word if is_literal && is_end(&text[word.len()..]) => VariableValue::Text(word.to_owned()),
        _ => VariableValue::Text(text.to_owned()),
    }
}
