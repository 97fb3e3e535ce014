//! The same files as Ansible reads them: `BONFIRE_TEST_ANSIBLE` is the path of its program `ansible-inventory`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Inventory, all_words};

/// Files of which Ansible and we must say the same. Below two levels of groups, Ansible itself has no fixed order.
const FILES: &[(&str, &str)] = &[
    (
        "lone.ini",
        "lone ansible_host=10.0.0.9\n[pool]\npi[1:3] ansible_user=pi # c\n[pool:vars]\nansible_port=2222\n",
    ),
    (
        "order.ini",
        "[b]\nb1\n[zoo:children]\nc\nb\n[a]\na1\nb1 slots=3\n[c]\nc[01:03:2]\na1\n[zoo:vars]\nslots=2\n",
    ),
    (
        "quotes.ini",
        "x ansible_host='h' ansible_user=\"u\" ansible_ssh_common_args='-o A=\"b c\"'\n[g]\ny\n[g:vars]\n\
      ansible_user=\"v\" # who\nansible_port=23 # ssh\nansible_ssh_common_args='-o A=b'\n",
    ),
    (
        "depth.ini",
        "[all:vars]\nansible_user=a\nslots=2\n[p:children]\nq\n[q]\nx\n[p:vars]\nansible_user=p\nansible_port=1\n\
      [q:vars]\nansible_port=2\n[z]\nx\n[z:vars]\nansible_user=z\nansible_port=3\nslots=4\n",
    ),
    (
        "priority.ini",
        "[a]\nx\n[b]\nx\n[a:vars]\nansible_user=a\nansible_group_priority=5\n[b:vars]\nansible_user=b\n",
    ),
    ("ports.ini", "[g]\nx:22\n[fe80::1]:23\n[h]\nx:24\nn[a:c].local:25\n"),
    ("moved.ini", "x ansible_user=u\ny\n[g]\nx\nz\n[ungrouped]\nw\n"),
    (
        "nested.yml",
        "all:\n  vars: {ansible_user: root, slots: 2}\n  hosts:\n    desk:\n  children:\n    pool:\n      hosts:\n        \
      pi[1:2]: {ansible_port: 23}\n      vars: {ansible_user: pi}\n    b: {hosts: {pi2: {slots: 5}}, vars: {ansible_user: b}}\n",
    ),
    (
        "top.yml",
        "web: {hosts: {w1: , w2: {ansible_host: 10.0.0.2}}}\nungrouped: {hosts: {lone: }}\nall: {vars: {ansible_port: 7}}\n",
    ),
    (
        "merge.yml",
        "g:\n  hosts:\n    x: &x {ansible_user: u, slots: 2}\n    y: {<<: *x, slots: 3}\n    z: *x\n",
    ),
    ("null.yml", "g:\n  hosts: {x: {ansible_user: }, y: }\n  vars: {ansible_user: u}\n"),
];

#[test]
fn ansible_says_the_same() {
    let Some(program) = std::env::var_os("BONFIRE_TEST_ANSIBLE") else {
        eprintln!(
            "SKIPPED: BONFIRE_TEST_ANSIBLE is not the path of ansible-inventory, so nothing is compared with it"
        );
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    for folder in ["group_vars", "host_vars"] {
        fs::create_dir(dir.path().join(folder)).expect("a folder");
    }
    fs::write(dir.path().join("group_vars/pool.yml"), "ansible_host: of-pool\nslots: 9\n").expect("a file");
    fs::write(dir.path().join("group_vars/all"), "slots: 8\n").expect("a file");
    fs::write(dir.path().join("host_vars/pi1.yaml"), "ansible_user: of-pi1\n").expect("a file");
    for (name, text) in FILES {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("a file");
        let listing = list(Path::new(&program), &path);
        // Elsewhere, because the variables of the folders are in the listing already.
        fs::create_dir_all(dir.path().join("listed")).expect("a folder");
        let listed = dir.path().join("listed").join(name);
        fs::write(&listed, &listing).expect("a file");
        for group in ["all", "pool", "zoo", "g", "b", "ungrouped"] {
            let words =
                |path: &Path| Inventory::load(path, Some(group)).map(|inventory| all_words(&inventory));
            match (words(&path), words(&listed)) {
                (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{group} of {name}:\n{text}\n{listing}"),
                (ours, theirs) => {
                    assert_eq!(ours.is_err(), theirs.is_err(), "{group} of {name}: {ours:?}, {theirs:?}");
                    assert_ne!(group, "all", "{ours:?}");
                }
            }
        }
    }
}

fn list(program: &Path, inventory: &Path) -> String {
    let output =
        Command::new(program).arg("-i").arg(inventory).arg("--list").output().expect("ansible-inventory");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
