//! What the command lines of clouds print: machines that run, with their addresses.
//!
//! | command | it prints |
//! |---|---|
//! | `aws ec2 describe-instances` | `{"Reservations": [{"Instances": [{"InstanceId": …}]}]}`, or an inner list |
//! | `gcloud compute instances list --format=json` | `[{"name": …, "networkInterfaces": […]}]` |
//! | `hcloud server list -o json` | `[{"name": …, "public_net": {…}}]` |
//!
//! A public address is taken before a private one. Machines that do not run are left out.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::Host;
use super::error::{InventoryError, short};
use super::pattern::check_address;

/// A machine as a cloud tells of it.
struct Machine {
    /// What people call it, if it is no other's name.
    name: Option<String>,
    /// What the cloud calls it.
    id: String,
    state: Option<String>,
    address: Option<String>,
    /// Whom its images let in, where that is always the same.
    user: Option<&'static str>,
}

/// Whether a text begins as such a list does. No other format does: groups of Ansible are mappings, and a section has a
/// name.
pub(super) fn is_one(text: &str) -> bool {
    let text = text.trim();
    match text.strip_prefix('[') {
        Some("]") => true,
        Some(rest) => {
            let rest = rest.trim_start();
            rest.strip_prefix('[').map_or(rest, str::trim_start).starts_with('{')
        }
        None => text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with("\"Reservations\"")),
    }
}

/// The machines that run.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Host>, InventoryError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        InventoryError::of_line(path, error.line().max(1), format!("is no JSON: {error}"))
    })?;
    let wrong = |message: String| InventoryError::of_file(path, message);
    let entries = instances(&value);
    if entries.is_empty() {
        return Err(wrong("lists no machines".to_owned()));
    }
    let mut machines = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        machines.push(machine(entry).ok_or_else(|| {
            let message = "is neither of `aws ec2 describe-instances`, `gcloud compute instances list --format=json` \
                           nor `hcloud server list -o json`";
            wrong(format!("has a machine, number {}, that {message}", i + 1))
        })?);
    }
    let runs =
        |machine: &&Machine| machine.state.as_ref().is_none_or(|state| state.eq_ignore_ascii_case("running"));
    let running: Vec<&Machine> = machines.iter().filter(runs).collect();
    if running.is_empty() {
        let state = machines[0].state.as_deref().unwrap_or("not running");
        return Err(wrong(format!("has no machine that runs: {} is {}", machines[0].id, short(state))));
    }
    let mut names = HashSet::new();
    let mut hosts = Vec::new();
    for machine in &running {
        let Some(address) = &machine.address else {
            let why = "has no address: neither a public nor a private one";
            return Err(wrong(format!("{}, which runs, {why}", short(&machine.id))));
        };
        check_address(address).map_err(|message| wrong(format!("{}: {message}", short(&machine.id))))?;
        let is_free = |name: &&String| check_address(name).is_ok() && !names.contains(*name);
        let name = machine.name.as_ref().filter(is_free).unwrap_or(&machine.id).clone();
        names.insert(name.clone());
        hosts.push(Host { name, user: machine.user.map(str::to_owned), ..Host::at(address) });
    }
    Ok(hosts)
}

/// The entries, one a machine, wherever they stand.
fn instances(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(entries) => entries
            .iter()
            .flat_map(|entry| match entry {
                // `--query 'Reservations[].Instances'` leaves a list in each.
                Value::Array(inner) => inner.iter().collect::<Vec<_>>(),
                entry if entry.get("Instances").is_some() => instances(entry),
                entry => vec![entry],
            })
            .collect(),
        Value::Object(keys) => {
            let inner = keys.get("Reservations").or_else(|| keys.get("Instances"));
            inner.map(instances).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn machine(entry: &Value) -> Option<Machine> {
    of_aws(entry).or_else(|| of_google(entry)).or_else(|| of_hetzner(entry))
}

fn of_aws(entry: &Value) -> Option<Machine> {
    let id = text(entry, "/InstanceId")?;
    let tags = entry.get("Tags").and_then(Value::as_array).into_iter().flatten();
    let name = tags.filter(|tag| tag["Key"] == "Name").find_map(|tag| text(tag, "/Value"));
    let address =
        ["/PublicIpAddress", "/PrivateIpAddress", "/Ipv6Address"].iter().find_map(|at| text(entry, at));
    Some(Machine { name, id, state: text(entry, "/State/Name"), address, user: None })
}

fn of_google(entry: &Value) -> Option<Machine> {
    entry.get("networkInterfaces")?;
    let id = text(entry, "/name")?;
    let address = ["/networkInterfaces/0/accessConfigs/0/natIP", "/networkInterfaces/0/networkIP"];
    let address = address.iter().find_map(|at| text(entry, at));
    Some(Machine { name: None, id, state: text(entry, "/status"), address, user: None })
}

fn of_hetzner(entry: &Value) -> Option<Machine> {
    entry.get("public_net").or_else(|| entry.get("private_net"))?;
    let id = text(entry, "/name")?;
    let six = text(entry, "/public_net/ipv6/ip").map(|network| first_address(&network));
    let address = text(entry, "/public_net/ipv4/ip").or_else(|| text(entry, "/private_net/0/ip")).or(six);
    Some(Machine { name: None, id, state: text(entry, "/status"), address, user: Some("root") })
}

/// Hetzner gives a server a whole network, `2001:db8:1::/64`, of which it has the first address.
fn first_address(network: &str) -> String {
    match network.split_once('/') {
        Some((start, _)) if start.ends_with("::") => format!("{start}1"),
        Some((start, _)) => start.to_owned(),
        None => network.to_owned(),
    }
}

/// A text that is there and not empty.
fn text(value: &Value, at: &str) -> Option<String> {
    value.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
