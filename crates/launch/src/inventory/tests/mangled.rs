//! Inventories with bytes changed, lost and repeated: an error or hosts, never a panic, never much memory or time.

use std::time::{Duration, Instant};

use super::{LISTING, load};

const SEEDS: &[&str] = &[
    "lone\n[zoo:children]\nbeta\nalpha\n[alpha]\na[1:2] ansible_user=pi\n[beta]\nb[01:02]:2222 k='x y'\n\
     [zoo:vars]\nslots=2 # n\n",
    "all:\n  vars: {ansible_user: &u root}\n  children:\n    pool:\n      hosts:\n        pi[1:3]: \
     {ansible_port: 22, x: *u}\n",
    LISTING,
    "pi1 slots=2 max_slots=4\npi2 slots = 3 # two\n",
    "pi1:2\npi2\n172.31.0.1\nfe80::1\nu@h\n",
];

/// What a mangled file is made of besides its own bytes.
const CRUMBS: &[&str] = &[
    "[",
    "]",
    ":",
    "[1:99999]",
    "[a:z]",
    "{",
    "}",
    "{{",
    "&a ",
    "*a",
    "<<: ",
    "- ",
    "'",
    "\"",
    "\\",
    "=",
    "@",
    "é",
    "\0",
    "\n",
    "  ",
];

/// A random number below `bound`, by a generator of Marsaglia's.
pub(crate) fn below(state: &mut u64, bound: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % bound as u64) as usize
}

fn mangle(text: &str, state: &mut u64) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=below(state, 4) {
        let at = below(state, chars.len() + 1);
        let end = (at + below(state, 12)).min(chars.len());
        match below(state, 4) {
            0 => drop(chars.drain(at..end)),
            1 => chars.splice(at..at, CRUMBS[below(state, CRUMBS.len())].chars()).for_each(drop),
            2 => {
                let again = chars[at..end].to_vec();
                chars.splice(at..at, again).for_each(drop);
            }
            _ => chars.truncate(end),
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mangled_inventories() {
    let start = Instant::now();
    let (mut read, mut refused) = (0, 0);
    for (index, seed) in SEEDS.iter().enumerate() {
        let mut state = 0x9e37_79b9_7f4a_7c15 + index as u64;
        for _ in 0..1500 {
            let text = mangle(seed, &mut state);
            match load(&text, None) {
                Ok(inventory) => {
                    read += 1;
                    assert!((1..=100_000).contains(&inventory.hosts.len()), "{text}");
                    for host in &inventory.hosts {
                        assert!(!host.address.is_empty() && !host.address.starts_with('-'), "{text}");
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.starts_with("hosts") && error.len() < 1000, "{error}\n{text}");
                }
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Small files that ask for much.
#[test]
fn bombs() {
    let check = |text: &str, fragment: &str| {
        let start = Instant::now();
        let error = load(text, None).expect_err("refused");
        assert!(error.contains(fragment), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{fragment}: {:?}", start.elapsed());
    };
    check(&"a[1:9999]\n".repeat(100_000), "more than 100000 hosts up to here");
    check(&format!("a{}", "[1:2]".repeat(1000)), "stands for more than 10000 hosts");
    let laughs: String =
        (1..20).map(|i| format!("k{i}: &k{i} {{a: *k{0}, b: *k{0}, c: *k{0}}}\n", i - 1)).collect();
    check(&format!("k0: &k0 {{x: y}}\n{laughs}"), "anchors repeat more than 100000 values");
    check(&format!("all: {}", "[".repeat(100_000)), "");
    let many: String = (0..200_000).map(|i| format!("h{i}\n")).collect();
    check(&many, "more than 100000 hosts up to here");
}
