//! From the variables of a host to how ssh reaches it.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::Host;
use super::error::{InventoryError, short};
use super::graph::{Graph, HostId};
use super::pattern;
use super::variables::{Variable, VariableValue, Variables};
use super::watts::HostWatts;
use super::words;

/// More nodes than a machine has cores.
pub(super) const MAX_SLOTS: usize = 1024;

/// Makes a host of what an inventory says of it.
pub(super) fn host(path: &Path, graph: &Graph, id: HostId) -> Result<Host, InventoryError> {
    let name = graph.host_name(id);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let said = Said { name, folder, variables: graph.variables(id) };
    said.check_connection()?;
    let address = said.text(&["ansible_host", "ansible_ssh_host"], |text| {
        pattern::check_address(text).map(|()| text.to_owned())
    })?;
    let address = address.unwrap_or_else(|| name.to_owned());
    // `user@host` may stand wherever ssh takes it; a user that is given apart counts more.
    let (inline, address) = match address.rsplit_once('@') {
        Some((user, host)) => (Some(user.to_owned()), host.to_owned()),
        None => (None, address),
    };
    let user = said.text(&["ansible_user", "ansible_ssh_user"], |text| {
        pattern::check_user(text).map(|()| text.to_owned())
    })?;
    let mut ssh_args = Vec::new();
    for key in ["ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args"] {
        let split = |text: &str| words::split(text, false).map_err(|_| "a quote is not closed".to_owned());
        ssh_args.extend(said.text(&[key], split)?.unwrap_or_default());
    }
    Ok(Host {
        name: name.to_owned(),
        address,
        user: user.or(inline),
        port: said.text(&["ansible_port", "ansible_ssh_port"], pattern::port)?,
        key: said
            .text(&["ansible_private_key_file", "ansible_ssh_private_key_file"], |text| said.key(text))?,
        slots: said.text(&["slots"], slots)?.unwrap_or(1),
        watts: said.watts()?,
        ssh_args,
    })
}

/// Reads a number of slots.
pub(super) fn slots(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(slots @ 1..=MAX_SLOTS) => Ok(slots),
        _ => Err(format!("expected a number of slots from 1 to {MAX_SLOTS}, found `{}`", short(text))),
    }
}

/// What was said of one host.
struct Said<'a> {
    name: &'a str,
    /// Where the inventory is.
    folder: &'a Path,
    variables: Variables,
}

impl Said<'_> {
    /// The value under the last of these names that is set. An error says of which host, and where it stands.
    fn text<T>(
        &self,
        names: &[&'static str],
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, InventoryError> {
        let Some((key, variable)) = self.variables.last_of(names) else { return Ok(None) };
        let read = match &variable.value {
            VariableValue::Text(text) => self.fill_in(text).and_then(|text| read(&text)),
            VariableValue::Nothing => return Ok(None),
            VariableValue::Encrypted => {
                Err("is encrypted by ansible-vault; write it in the clear".to_owned())
            }
            VariableValue::Mapping(_) | VariableValue::List => {
                Err("expected text, found a list or mapping".to_owned())
            }
        };
        read.map(Some).map_err(|message| self.wrong(key, variable, message))
    }

    fn wrong(&self, key: &str, variable: &Variable, message: String) -> InventoryError {
        variable.place.wrong(format!("host `{}`: {key}: {message}", self.name))
    }

    /// A mapping, or its short form as text.
    fn watts(&self) -> Result<Option<HostWatts>, InventoryError> {
        match self.variables.last_of(&["watts"]) {
            Some((key, variable @ Variable { value: VariableValue::Mapping(pairs), .. })) => {
                let watts = HostWatts::of_pairs(pairs);
                watts.map(Some).map_err(|message| self.wrong(key, variable, message))
            }
            _ => self.text(&["watts"], HostWatts::of_text),
        }
    }

    /// Fills in the two templates that need nothing but the inventory; any other needs Ansible.
    fn fill_in(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((head, tail)) = rest.split_once("{{") {
            let (inner, tail) = tail.split_once("}}").unwrap_or((tail, ""));
            filled.push_str(head);
            match inner.trim() {
                "inventory_hostname" => filled.push_str(self.name),
                "inventory_dir" => {
                    let folder = std::path::absolute(self.folder).unwrap_or_else(|_| self.folder.to_owned());
                    filled.push_str(&folder.to_string_lossy());
                }
                _ => return Err(template(text)),
            }
            rest = tail;
        }
        filled.push_str(rest);
        if filled.contains("{%") { Err(template(text)) } else { Ok(filled) }
    }

    /// Nodes are started over ssh and in no other way.
    fn check_connection(&self) -> Result<(), InventoryError> {
        let by_ssh = |text: &str| match text.rsplit('.').next().unwrap_or_default() {
            "ssh" | "smart" | "paramiko" | "paramiko_ssh" => Ok(()),
            _ => Err(format!(
                "`{}` is no way to start a node, only ssh is; choose a group without this host, or leave the \
                 variable out",
                short(text)
            )),
        };
        self.text(&["ansible_connection"], by_ssh).map(drop)
    }

    /// A relative path counts from the working directory, as with Ansible, or from the inventory's folder.
    fn key(&self, text: &str) -> Result<PathBuf, String> {
        if let Some(rest) = text.strip_prefix('~') {
            let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
            return match (rest.strip_prefix('/'), home) {
                (Some(rest), Some(home)) => readable(PathBuf::from(home).join(rest)),
                _ => Err(format!("`{}` does not tell where the key is; write the whole path", short(text))),
            };
        }
        let here = PathBuf::from(text);
        if here.is_relative() && !here.exists() {
            return readable(self.folder.join(text));
        }
        readable(here)
    }
}

fn template(text: &str) -> String {
    format!(
        "`{}` is a template of Ansible; write the value itself (only inventory_dir and inventory_hostname are \
         filled in)",
        short(text)
    )
}

/// A key that cannot be read would look like a host that refuses us.
fn readable(path: PathBuf) -> Result<PathBuf, String> {
    let opened = File::open(&path).and_then(|file| file.metadata());
    match opened {
        Ok(metadata) if metadata.is_file() => Ok(path),
        Ok(_) => Err(format!("the key {} is no file", path.display())),
        Err(error) => Err(format!("the key file {} cannot be read: {error}", path.display())),
    }
}
