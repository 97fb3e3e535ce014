//! `group_vars` and `host_vars` beside an inventory: one YAML file, or a folder of them, for each group or host.

use std::fs;
use std::path::{Path, PathBuf};

use bonfire_yaml::YamlEntry;

use super::document;
use super::error::InventoryError;
use super::graph::Graph;
use super::variables::InventoryPlace;

const EXTENSIONS: [&str; 4] = ["", ".yml", ".yaml", ".json"];
/// Folders below the one of a group or host.
const MAX_DEPTH: usize = 8;

/// Lays what the folders say over the inventory.
pub(super) fn read(inventory: &Path, graph: &mut Graph) -> Result<(), InventoryError> {
    let folder = inventory.parent().unwrap_or(Path::new(""));
    let (groups, hosts) = (folder.join("group_vars"), folder.join("host_vars"));
    if groups.is_dir() {
        for id in graph.group_ids() {
            for (place, entry) in variables(&groups, graph.group_name(id))? {
                graph.set_group_from_folder(id, &entry.key, document::value(&entry.value), &place);
            }
        }
    }
    if hosts.is_dir() {
        for id in graph.host_ids() {
            for (place, entry) in variables(&hosts, graph.host_name(id))? {
                graph.set_host_from_folder(id, &entry.key, document::value(&entry.value), &place);
            }
        }
    }
    Ok(())
}

/// All variables that are given for one name, in the order in which they count.
fn variables(folder: &Path, name: &str) -> Result<Vec<(InventoryPlace, YamlEntry)>, InventoryError> {
    // A name is a name, not a way out of the folder.
    if name.contains(['/', '\\']) || name.starts_with('.') {
        return Ok(Vec::new());
    }
    let paths = EXTENSIONS.iter().map(|extension| folder.join(format!("{name}{extension}")));
    let Some(path) = paths.into_iter().find(|path| path.exists()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for file in files(&path, 0)? {
        let text = super::read(&file)?;
        // Secrets are kept so; how a host is reached seldom is one, and a value that refers to them is refused later.
        if text.starts_with("$ANSIBLE_VAULT") {
            continue;
        }
        for entry in document::read(&file, &text)? {
            found.push((InventoryPlace::of(&file, &entry.place), entry));
        }
    }
    Ok(found)
}

/// The file itself, or those of a folder by name.
fn files(path: &Path, depth: usize) -> Result<Vec<PathBuf>, InventoryError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable =
        |error: std::io::Error| InventoryError::of_file(path, format!("cannot be read: {error}"));
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    paths.retain(|path| counts(path));
    let mut found = Vec::new();
    for path in paths.iter().filter(|_| depth < MAX_DEPTH) {
        found.extend(files(path, depth + 1)?);
    }
    Ok(found)
}

/// Editors leave other files behind.
fn counts(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_known = path
        .extension()
        .is_none_or(|extension| EXTENSIONS.iter().any(|known| known.strip_prefix('.') == extension.to_str()));
    !name.starts_with('.') && !name.ends_with('~') && (path.is_dir() || is_known)
}
