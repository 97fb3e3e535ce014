//! Whole files of each format, and what they say.

mod ansible;
mod cloud;
mod mangled;
mod wrong;

use std::fs;
use std::path::Path;

use super::{Host, Inventory};

/// A host in a few words: its name, and what differs from a host of which nothing else is known.
fn words(host: &Host) -> String {
    let user = host.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
    let port = host.port.map_or(String::new(), |port| format!(":{port}"));
    let mut words = host.name.clone();
    let place = format!("{user}{}{port}", host.address);
    if place != host.name {
        words += &format!("={place}");
    }
    if host.slots != 1 {
        words += &format!(" x{}", host.slots);
    }
    if let Some(watts) = host.watts {
        words += &format!(" {watts} W");
    }
    if let Some(key) = &host.key {
        words += &format!(" key={}", key.file_name().unwrap_or_default().to_string_lossy());
    }
    if !host.ssh_args.is_empty() {
        words += &format!(" {:?}", host.ssh_args);
    }
    words
}

fn all_words(inventory: &Inventory) -> String {
    inventory.hosts.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Loads a text from a folder that also has a key file `id`.
fn load(text: &str, group: Option<&str>) -> Result<Inventory, String> {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("id"), "a key").expect("a key");
    let path = dir.path().join("hosts");
    fs::write(&path, text).expect("a file");
    let shown = format!("{}/", dir.path().display());
    Inventory::load(&path, group).map_err(|error| error.to_string().replace(&shown, ""))
}

#[track_caller]
fn check(text: &str, expect: &str) {
    let found = load(text, None).map(|inventory| all_words(&inventory));
    assert_eq!(found.as_deref(), Ok(expect), "{text}");
}

#[track_caller]
fn check_group(text: &str, group: &str, expect: &str) {
    let found = load(text, Some(group)).map(|inventory| all_words(&inventory));
    assert_eq!(found.as_deref(), Ok(expect), "{group} of {text}");
}

#[test]
fn ini() {
    check("[pool]\npi1\npi2\n", "pi1, pi2");
    check("[pool]\n192.168.2.101\n192.168.2.102\n", "192.168.2.101, 192.168.2.102");
    check("[pool]\npi[1:3]\n", "pi1, pi2, pi3");
    check("pi[01:03]", "pi01, pi02, pi03");
    check("[pool]\r\npi1\r\npi2 ansible_user=pi\r\n", "pi1, pi2=pi@pi2");
    check("\u{feff}[pool]\npi1\n", "pi1");
    check("; old\n# comments\n\n[pool] # the pool\npi1 # first\n", "pi1");
    check("pi1 ansible_host=10.0.0.1 ansible_user=pi ansible_port=2222", "pi1=pi@10.0.0.1:2222");
    check("pi1 ansible_ssh_host=10.0.0.1 ansible_ssh_user=pi ansible_ssh_port=2222", "pi1=pi@10.0.0.1:2222");
    check("pi1 ansible_host=10.0.0.1 ansible_ssh_host=10.0.0.2", "pi1=10.0.0.2");
    check("[pool]\npi1:2222", "pi1=pi1:2222");
    check("[pool]\n[fe80::1]:2222\nfe80::2", "fe80::1=fe80::1:2222, fe80::2");
    check("[pool]\npi@pi1\n", "pi@pi1");
    check("[pool]\npi@pi1 ansible_user=root\n", "pi@pi1=root@pi1");
    check("pi1 ansible_user='pi' ansible_host=\"10.0.0.1\"", "pi1=pi@10.0.0.1");
    check("[pool]\npi1\n[pool:vars]\nansible_user = \"pi\" # who\nansible_port=22 # ssh", "pi1=pi@pi1:22");
    check("[pool]\npi1 slots=4 color=red\n", "pi1 x4");
    check("pi1 slots=4 ansible_user=pi\n", "pi1=pi@pi1 x4");
    check("pi1 ansible_ssh_private_key_file='{{ inventory_dir }}/id'", "pi1 key=id");
    check("pi1 ansible_private_key_file=id", "pi1 key=id");
    check("pi1 ansible_host='{{ inventory_hostname }}.local'", "pi1=pi1.local");
    check("pi1 ansible_connection=ssh", "pi1");
    check(
        "[pool]\npi1\n[pool:vars]\nansible_ssh_common_args='-o A=b -J \"x y\"'\nansible_ssh_extra_args=-v",
        r#"pi1 ["-o", "A=b", "-J", "x y", "-v"]"#,
    );
}

#[test]
fn ini_groups() {
    let zoo = "lone\n[zoo:children]\nbeta\nalpha\n[alpha]\na[1:2] ansible_user=pi\n[beta]\nb1:2222\na1 \
               ansible_port=23\n\
               [zoo:vars]\nansible_user=keeper\nansible_host=z\n[beta:vars]\nansible_host=b\n[all:vars]\n\
               ansible_user=root\nslots=2";
    check(zoo, "lone=root@lone x2, a1=pi@b:23 x2, a2=pi@z x2, b1=keeper@b:2222 x2");
    check_group(zoo, "zoo", "a1=pi@b:23 x2, a2=pi@z x2, b1=keeper@b:2222 x2");
    check_group(zoo, "beta", "b1=keeper@b:2222 x2, a1=pi@b:23 x2");
    check_group(zoo, "ungrouped", "lone=root@lone x2");
    check_group(zoo, "all", "lone=root@lone x2, a1=pi@b:23 x2, a2=pi@z x2, b1=keeper@b:2222 x2");
    // The pool is meant, unless another group is asked for.
    let pool = "desk\n[pool]\npi1\n[other]\npi2\n";
    check(pool, "pi1");
    check_group(pool, "all", "desk, pi1, pi2");
    check_group(pool, "other", "pi2");
    // The same host again: its groups and variables join, and it stays where it was.
    check("[a]\nx ansible_user=u\ny\n[b]\ny\nx ansible_port=23\n", "x=u@x:23, y");
    // Of equally deep groups, the later name counts more, unless a priority says otherwise.
    let two = |more: &str| {
        format!("[a]\nx\n[b]\nx\n[a:vars]\nansible_user=of_a\n{more}[b:vars]\nansible_user=of_b\n")
    };
    check(&two(""), "x=of_b@x");
    check(&two("ansible_group_priority=10\n"), "x=of_a@x");
    // `None` takes back what a group above has set.
    check("[a]\nx ansible_user=None\n[a:vars]\nansible_user=u\n", "x");
    check("x ansible_host=1.2.3.4\n[a]\nx\n[b]\ny", "x=1.2.3.4, y");
}

#[test]
fn yaml() {
    check("all:\n  hosts:\n    pi1:\n    pi2:\n", "pi1, pi2");
    check("---\nall:\n  hosts:\n    pi[1:2]:\n      ansible_user: pi\n", "pi1=pi@pi1, pi2=pi@pi2");
    check("all: {hosts: {pi1: {ansible_port: 23, ansible_host: 10.0.0.1, slots: 3}}}", "pi1=10.0.0.1:23 x3");
    check("# hosts\nall:\r\n  hosts:\r\n    pi1:\r\n", "pi1");
    check("ungrouped: {hosts: {pi1: {}}}", "pi1");
    check("pool:\n  hosts: pi1\nother:\n  hosts: pi2\n", "pi1");
    check("pool:\n  hosts:\n    pi1: {ansible_user: ~}\n  vars: {ansible_user: pi}\n", "pi1");
    check("pool:\n  hosts:\n    pi1:\n    pi2: {ansible_become: {a: [b]}}\n", "pi1, pi2");
    check(
        "pool:\n  hosts:\n    x: &x {ansible_user: u, slots: 2}\n    y: *x\n    z: {<<: *x, slots: 3}\n",
        "x=u@x x2, y=u@y x2, z=u@z x3",
    );
    check("{\"all\": {\"hosts\": {\"pi1\": {\"ansible_port\": 23}, \"pi2\": null}}}", "pi1=pi1:23, pi2");
    let nested = "all:\n  vars: {ansible_user: root}\n  hosts:\n    desk:\n  children:\n    pool:\n      \
                  children:\n        \
                  left:\n          hosts:\n            l1: {ansible_port: 23}\n        right:\n          \
                  hosts: {r1:, l1:}\n          \
                  vars: {ansible_user: pi}\n      vars: {ansible_user: p, ansible_host: h}\n    spare: {}\n";
    check(nested, "l1=pi@h:23, r1=pi@h");
    check_group(nested, "all", "desk=root@desk, l1=pi@h:23, r1=pi@h");
    check_group(nested, "left", "l1=pi@h:23");
    check("pool:\n  hosts:\n    pi1: {ansible_password: !vault 'secret', ansible_user: pi}\n", "pi1=pi@pi1");
}

/// What ansible-inventory 2.19 printed for the zoo above, with hosts that have addresses.
const LISTING: &str = include_str!("tests/listing.json");

#[test]
fn listings() {
    check(
        LISTING,
        "lone=root@10.0.0.9, a1=pi@a1:23 x2, a2=pi@a2 x2, b01=keeper@b01:2222 x2, b02=keeper@b02:2222 x2",
    );
    check_group(LISTING, "beta", "b01=keeper@b01:2222 x2, b02=keeper@b02:2222 x2, a1=pi@a1:23 x2");
    check("{\"pool\": [\"a\", \"b\"]}", "a, b");
    check("{\"_meta\": {\"hostvars\": {\"a\": {\"ansible_port\": 1}}}}", "a=a:1");
    check("{\"g\": {\"hosts\": [\"a\"], \"vars\": {\"ansible_user\": \"u\"}}}", "a=u@a");
}

#[test]
fn watts() {
    check("pi1 slots=2 watts=2.7,6.4\npi2\n", "pi1 x2 2.7,6.4 W, pi2");
    check(
        "[pool]\npi1\npi2 watts='{idle: 3, full: 7}'\n[pool:vars]\nwatts=2.7,6.4\n",
        "pi1 2.7,6.4 W, pi2 3,7 W",
    );
    check("pool:\n  hosts:\n    pi1: {watts: {idle: 2.7, full: 6.4}}\n    pi2:\n", "pi1 2.7,6.4 W, pi2");
    check("{\"_meta\": {\"hostvars\": {\"a\": {\"watts\": {\"idle\": 1, \"full\": 2}}}}}", "a 1,2 W");
}

#[test]
fn folders_of_variables() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write("hosts", "[pool]\npi1 ansible_port=1\npi2\n[pool:vars]\nansible_user=inventory\nslots=2\n");
    write("group_vars/all.yml", "ansible_user: everyone\n");
    write("group_vars/pool/a.yml", "ansible_host: first\nslots: 3\n");
    write("group_vars/pool/b.yml", "ansible_host: second\n");
    write("group_vars/pool/b.yml~", "ansible_host: backup\n");
    write("group_vars/pool/vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n3132\n");
    write("host_vars/pi1", "ansible_port: 7\nfacts: {a: 1}\n");
    let load = || Inventory::load(&dir.path().join("hosts"), None);
    let found = load().map(|inventory| all_words(&inventory));
    assert_eq!(found.as_deref(), Ok("pi1=everyone@second:7 x3, pi2=everyone@second x3"));
    write("host_vars/pi2.yml", "\n\nansible_port: high\n");
    let error = load().expect_err("a wrong port").to_string();
    let expect =
        "host_vars/pi2.yml:3: host `pi2`: ansible_port: expected a port from 1 to 65535, found `high`";
    assert!(error.ends_with(expect), "{error}");
}

#[test]
fn hostfiles() {
    check("pi01.local slots=1\npi02.local slots=2\n", "pi01.local, pi02.local x2");
    check("pi1 slots=2 max_slots=4\npi2 slots=2 max-slots=2\npi3\n", "pi1 x2, pi2 x2, pi3");
    check("# a cluster\npi1 slots = 2 # two\n\npi2 slots=1\r\n", "pi1 x2, pi2");
    check("pi1:2\npi2:4\npi3\n", "pi1 x2, pi2 x4, pi3");
    check("pi1 slots=2\npi2 slots=1\npi1 slots=2\n", "pi1 x4, pi2");
    check("pi@pi1 slots=2", "pi@pi1 x2");
    check_group("pi1 slots=2", "all", "pi1 x2");
}

#[test]
fn plain_lists() {
    check("172.31.0.1\n172.31.0.2\n172.31.0.3\n", "172.31.0.1, 172.31.0.2, 172.31.0.3");
    check("\u{feff}# hosts\r\npi1\r\n\r\n  pi2  \r\n", "pi1, pi2");
    check("fe80::1\n::1", "fe80::1, ::1");
    check("pi@pi1\npi1", "pi@pi1, pi1");
    // As /etc/hosts has it.
    check("172.31.16.226\tmaster\n172.31.27.245 worker1 w1\n", "master=172.31.16.226, worker1=172.31.27.245");
    check("10.0.0.1 desk slots=2\n10.0.0.2\n", "desk=10.0.0.1 x2, 10.0.0.2");
    // As with MPI, a host that is named twice takes two.
    check("pi1\npi2\npi1\n", "pi1 x2, pi2");
}

#[test]
fn lists_of_the_command_line() {
    let check = |text: &str, expect: &str| {
        let found = Inventory::from_list(text).map(|inventory| all_words(&inventory));
        assert_eq!(found.map_err(|error| error.to_string()).as_deref(), Ok(expect), "{text}");
    };
    check("a", "a");
    check("a,b,c:2", "a, b, c x2");
    check("pi@a, b:22", "pi@a, b x22");
    check("a,b,a:3", "a x4, b");
    check("::1,[fe80::1]:2,u@[fe80::2]", "::1, fe80::1 x2, u@fe80::2");
    let check = |text: &str, expect: &str| {
        let error = Inventory::from_list(text).expect_err(text).to_string();
        assert_eq!(error, format!("hosts `{text}`: {expect}; write hosts as `a,b,user@c:2`"));
    };
    check("", "expected the name or address of a host, found ``");
    check("a,,b", "expected the name or address of a host, found ``");
    check("a:x", "expected a number of slots from 1 to 1024, found `x`");
    check("a:0", "expected a number of slots from 1 to 1024, found `0`");
    check("a:2222", "expected a number of slots from 1 to 1024, found `2222`");
    check("-v,b", "expected the name or address of a host, found `-v`");
}

#[test]
fn files_that_cannot_be_read() {
    let check = |path: &Path, expect: &str| {
        assert_eq!(Inventory::load(path, None).expect_err("no file").to_string(), expect);
    };
    check(Path::new("no/such"), "no/such cannot be read: No such file or directory (os error 2)");
    let dir = tempfile::tempdir().expect("a folder");
    check(dir.path(), &format!("{} is a folder; name one file of it", dir.path().display()));
    let path = dir.path().join("latin1");
    fs::write(&path, b"a\nb\xe9\n").expect("a file");
    check(&path, &format!("{}:2: expected text in UTF-8", path.display()));
}
