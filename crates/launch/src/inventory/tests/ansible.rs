//! The same files as Ansible reads them: `BONFIRE_TEST_ANSIBLE` is the path of its program `ansible-inventory`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::mangled::below;
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
        "all:\n  vars: {ansible_user: root, slots: 2}\n  hosts:\n    desk:\n  children:\n    pool:\n      \
         hosts:\n        \
      pi[1:2]: {ansible_port: 23}\n      vars: {ansible_user: pi}\n    b: {hosts: {pi2: {slots: 5}}, vars: \
      {ansible_user: b}}\n",
    ),
    (
        "top.yml",
        "web: {hosts: {w1: , w2: {ansible_host: 10.0.0.2}}}\nungrouped: {hosts: {lone: }}\nall: {vars: \
         {ansible_port: 7}}\n",
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
    let mut state = 0x2545_f491_4f6c_dd1d;
    let random = (0..RANDOM).map(|number| (format!("random{number}.ini"), random_ini(&mut state)));
    let fixed = FILES.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
    for (name, text) in fixed.chain(random) {
        compare(Path::new(&program), dir.path(), &name, &text);
    }
}

/// Our reading of a file must be our reading of what Ansible makes of it.
#[track_caller]
fn compare(program: &Path, folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    let listing = list(program, &path);
    // Elsewhere, because the variables of the folders are in the listing already.
    fs::create_dir_all(folder.join("listed")).expect("a folder");
    let listed = folder.join("listed").join(name);
    fs::write(&listed, &listing).expect("a file");
    for group in ["all", "pool", "zoo", "g", "b", "ungrouped", "g0", "g1", "g2", "g3"] {
        let words = |path: &Path| Inventory::load(path, Some(group)).map(|inventory| all_words(&inventory));
        match (words(&path), words(&listed)) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{group} of {name}:\n{text}\n{listing}"),
            (ours, theirs) => {
                assert_eq!(ours.is_err(), theirs.is_err(), "{group} of {name}: {ours:?}, {theirs:?}");
                assert_ne!(group, "all", "{ours:?}");
            }
        }
    }
}

/// So many random files, at almost a second each.
const RANDOM: usize = 12;

/// A file of groups in groups, whose sections stand in any order.
fn random_ini(state: &mut u64) -> String {
    const GROUPS: usize = 5;
    let mut sections = vec![format!("[all:vars]\nslots={}\n", 1 + below(state, 9))];
    for group in 0..GROUPS {
        let mut hosts = format!("[g{group}]\n");
        for _ in 0..below(state, 4) {
            let variable = ["", " slots=7", " ansible_user=h", " ansible_port=99"][below(state, 4)];
            hosts += &format!("h{}{variable}\n", below(state, 6));
        }
        sections.push(hosts);
        // Only later groups are inside, so that there is no ring of groups.
        let mut inside = format!("[g{group}:children]\n");
        for child in group + 1..GROUPS {
            inside += &if below(state, 3) == 0 { format!("g{child}\n") } else { String::new() };
        }
        sections.push(inside);
        let variable = ["ansible_user", "ansible_host", "ansible_port"][below(state, 3)];
        sections.push(format!("[g{group}:vars]\n{variable}={}\n", 100 + group));
    }
    let mut text = "h0\nlone\n".to_owned();
    while !sections.is_empty() {
        text += &sections.swap_remove(below(state, sections.len()));
    }
    text
}

fn list(program: &Path, inventory: &Path) -> String {
    let output = Command::new("timeout")
        .arg("60")
        .arg(program)
        .arg("-i")
        .arg(inventory)
        .arg("--list")
        .output()
        .expect("ansible-inventory");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
