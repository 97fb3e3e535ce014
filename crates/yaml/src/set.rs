use std::sync::Arc;

use crate::error::YamlError;
use crate::key_path::{KeyStep, below, steps};
use crate::load::{Dialect, MAX_DEPTH, TOO_DEEP, load};
use crate::node::{YamlData, YamlEntry, YamlNode, YamlPlace};

/// Puts the value of `key.path=value` in its place, making the mappings on the way.
pub(crate) fn assign(root: &mut YamlNode, assignment: &str, choices: &[&str]) -> Result<(), YamlError> {
    let assignment: Arc<str> = assignment.into();
    let place = YamlPlace::Set(Arc::clone(&assignment));
    let wrong = |message: String| YamlError::new(message).at("", &place, "");
    let Some((path, value)) = assignment.split_once('=') else {
        return Err(wrong("expected `key=value`, such as `epochs=5`".to_owned()));
    };
    let steps = steps(path.trim()).map_err(wrong)?;
    if steps.len() > MAX_DEPTH {
        return Err(wrong(TOO_DEEP.to_owned()));
    }
    let loaded = load(value, Dialect::Strict);
    let mut value = loaded.map_err(|error| error.in_words("", value, Some(&assignment)))?;
    value.move_to(&place);
    let mut node = root;
    let mut path = String::new();
    for step in steps {
        match step {
            KeyStep::Key(key) => {
                node = enter_key(node, &key, &place, choices.contains(&path.as_str())).ok_or_else(|| {
                    wrong(format!("`{path}` is a list; name one of its items, such as `{path}[0]`"))
                })?;
                path = below(&path, &key);
            }
            KeyStep::Index(index) => {
                node = enter_item(node, index).map_err(|count| wrong(no_item(&path, index, count)))?;
                path = format!("{path}[{index}]");
            }
        }
    }
    *node = value;
    Ok(())
}

/// Turns the bare value of `key` into a mapping with that value under `short_for`.
pub(crate) fn spell_out(root: &mut YamlNode, key: &str, short_for: &str) {
    let YamlData::Map(entries) = &mut root.data else { return };
    let Some(entry) = entries.iter_mut().find(|entry| entry.key == key) else { return };
    if let YamlData::Scalar(_) = entry.value.data
        && !entry.value.is_null()
    {
        let place = entry.value.place.clone();
        let bare = std::mem::replace(&mut entry.value, YamlNode::map(place.clone()));
        if let YamlData::Map(entries) = &mut entry.value.data {
            entries.push(YamlEntry { key: short_for.to_owned(), place, value: bare });
        }
    }
}

/// The value of `key` in the mapping `node`, made if need be. What is no mapping gives way to one, save for a
/// list.
fn enter_key<'a>(
    node: &'a mut YamlNode,
    key: &str,
    place: &YamlPlace,
    is_choice: bool,
) -> Option<&'a mut YamlNode> {
    if let YamlData::Scalar(_) = node.data {
        *node = YamlNode::map(place.clone());
    }
    let YamlData::Map(entries) = &mut node.data else { return None };
    let index = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        if is_choice {
            entries.clear();
        }
        let value = YamlNode::null(place.clone());
        entries.push(YamlEntry { key: key.to_owned(), place: place.clone(), value });
        entries.len() - 1
    });
    Some(&mut entries[index].value)
}

/// An item that the list already has, or how many it has; none at all if it is no list.
fn enter_item(node: &mut YamlNode, index: usize) -> Result<&mut YamlNode, Option<usize>> {
    let YamlData::List(items) = &mut node.data else { return Err(None) };
    let count = items.len();
    items.get_mut(index).ok_or(Some(count))
}

fn no_item(path: &str, index: usize, count: Option<usize>) -> String {
    match count {
        None => format!("`{path}` is no list, so it has no item [{index}]"),
        Some(0) => format!("`{path}` is an empty list, so it has no item [{index}]"),
        Some(count) => format!("`{path}` has only the items [0] to [{}]", count - 1),
    }
}
