//! The bridge of a lab, and what plugs into it.

use std::net::Ipv4Addr;

use super::LabError;
use super::host::LabHost;
use super::state::{LabState, take_subnet};
use super::tool::Tools;

/// Labs take the first of 10.87.0.0/24, 10.87.1.0/24 and so on that is free.
const FIRST: [u8; 2] = [10, 87];
const PREFIX: u32 = 24;
/// The machine that the lab is on. Hosts are below it.
const BRIDGE_HOST: u8 = 254;

pub(super) fn bridge_address(subnet: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, _] = subnet.octets();
    Ipv4Addr::new(a, b, c, BRIDGE_HOST)
}

pub(super) fn host_address(subnet: Ipv4Addr, number: usize) -> Ipv4Addr {
    let last = u8::try_from(number).unwrap_or(0);
    assert!((1..BRIDGE_HOST).contains(&last), "host {number} has no place in a /{PREFIX}");
    let [a, b, c, _] = subnet.octets();
    Ipv4Addr::new(a, b, c, last)
}

/// The prefix of the names of everything that the kernel keeps for a lab.
pub(super) fn link_name(lab: &str) -> String {
    format!("bf-{lab}")
}

/// Finds a subnet that neither this machine nor another lab uses.
pub(super) fn claim_subnet(tools: &Tools, lab: &str) -> Result<Ipv4Addr, LabError> {
    let routes = tools.line("ip", "-4 route show table all")?;
    let addresses = tools.line("ip", "-4 -o addr show")?;
    let used: Vec<IpNet> = [routes, addresses].iter().flat_map(|text| nets(text)).collect();
    let free = (0..=u8::MAX).find(|&index| {
        let net = IpNet { address: u32::from(subnet(index)), prefix: PREFIX };
        !used.iter().any(|used| used.overlaps(net)) && take_subnet(index, lab)
    });
    free.map(subnet)
        .ok_or_else(|| LabError::Unfit("all of 10.87.0.0/16 is in use on this machine".to_owned()))
}

fn subnet(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(FIRST[0], FIRST[1], index, 0)
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct IpNet {
    address: u32,
    prefix: u32,
}

impl IpNet {
    fn overlaps(self, other: Self) -> bool {
        let bits = 32 - self.prefix.min(other.prefix);
        bits < 32 && self.address >> bits == other.address >> bits
    }
}

/// Every net or address in what `ip` prints. The default route is no net that is in use.
fn nets(text: &str) -> Vec<IpNet> {
    let net = |word: &str| {
        let (address, prefix) = word.split_once('/').unwrap_or((word, "32"));
        let (address, prefix) = (address.parse::<Ipv4Addr>().ok()?, prefix.parse().ok()?);
        Some(IpNet { address: u32::from(address), prefix }).filter(|net| (1..=32).contains(&net.prefix))
    };
    text.split_whitespace().filter_map(net).collect()
}

/// Makes the bridge, which has an address on this machine.
pub(super) fn make_bridge(tools: &Tools, state: &LabState) -> Result<(), LabError> {
    let bridge = link_name(&state.name);
    let Some(subnet) = state.subnet else { return Ok(()) };
    tools.line("ip", &format!("link add {bridge} type bridge"))?;
    tools.line("ip", &format!("addr add {}/{PREFIX} dev {bridge}", bridge_address(subnet)))?;
    tools.line("ip", &format!("link set {bridge} up")).map(drop)
}

/// Makes the namespace of a host, and its cable to the bridge.
pub(super) fn plug_in(tools: &Tools, host: &LabHost) -> Result<(), LabError> {
    let LabHost { link, bridge, address, .. } = host;
    tools.line("ip", &format!("netns add {link}"))?;
    tools.line("ip", &format!("link add {link} type veth peer name eth0 netns {link}"))?;
    tools.line("ip", &format!("link set {link} master {bridge} up"))?;
    tools.line("ip", &format!("-n {link} addr add {address}/{PREFIX} dev eth0"))?;
    tools.line("ip", &format!("-n {link} link set lo up"))?;
    tools.line("ip", &format!("-n {link} link set eth0 up")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{IpNet, nets};

    #[test]
    fn nets_that_are_in_use() {
        let lab = IpNet { address: u32::from_be_bytes([10, 87, 3, 0]), prefix: 24 };
        let check = |text: &str, expect: bool| {
            assert_eq!(nets(text).iter().any(|net| net.overlaps(lab)), expect, "{text}");
        };
        check("default via 192.0.2.1 dev eth0", false);
        check("0.0.0.0/0 via 192.0.2.1 dev eth0", false);
        check("10.0.0.0/8 dev tun0 scope link", true);
        check("10.87.3.7 dev tun0", true);
        check("10.87.2.0/24 dev br0 proto kernel src 10.87.2.254", false);
        check("10.87.2.0/23 dev br0", true);
        check("local 10.87.3.254 dev br0 table local", true);
        check("broadcast 192.168.1.255 dev eth0", false);
        check("1: lo    inet 127.0.0.1/8 scope host lo", false);
    }
}
