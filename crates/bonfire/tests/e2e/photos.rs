//! Folders of images on several machines: files travel as they are, and nodes decode them while they train.

use crate::fire::{Fire, burn};
use crate::program::Dir;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../data/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).expect("a fixture")
}

/// A machine with photographs of three kinds and of two sizes.
fn machine() -> Dir {
    let dir = Dir::new();
    for i in 0..30 {
        for (part, name) in [("train", i), ("test", 100 + i)] {
            dir.write(&format!("photos/{part}/a/{name:03}.png"), fixture("small.png"));
            dir.write(&format!("photos/{part}/b/{name:03}.png"), fixture("larger.png"));
            dir.write(&format!("photos/{part}/c/{name:03}.jpg"), fixture("small.jpg"));
        }
    }
    dir
}

/// A file that looks whole from both ends and is not.
fn spoil(dir: &Dir, name: &str) {
    let mut bytes = fixture("small.png");
    let place = bytes.windows(4).position(|name| name == b"IDAT").expect("pixels") + 6;
    bytes[place..place + 4].fill(0xFF);
    dir.write(name, bytes);
}

const SETTINGS: &str = "data={name: photos, resize: [6, 5], augment: {pad: 1}}\n model={mlp: {hidden: [8]}}\n \
                        batch_size=5\n epochs=3";
const GROUP: &str = "arch=allreduce\n allreduce={num_workers: 2}";
const SERVER: &str = "arch=flat\n parameter_server={num_workers: 2}";

#[test]
fn nodes_decode_what_one_machine_would() {
    let dir = machine();
    dir.bonfire("train --quiet --out alone --workers 2").set(SETTINGS).succeed();
    let alone = crate::record::Record::of(dir.path("alone")).parameters();
    let ways = [(GROUP, "ship"), (GROUP, "local"), (SERVER, "ship"), (SERVER, "local")];
    for (i, (arch, distribute)) in ways.into_iter().enumerate() {
        let settings = format!("{SETTINGS}\n distribute={distribute}\n {arch}");
        let record = burn(&dir, &format!("run{i}"), 2, &settings);
        assert!(record.parameters() == alone, "{arch}, {distribute}");
    }
}

/// So nothing was decoded before the run began; and it ends because all have the same file.
#[test]
fn a_damaged_image_ends_a_run_of_nodes() {
    let dir = machine();
    spoil(&dir, "photos/train/a/017.png");
    for (i, (arch, distribute)) in [(GROUP, "ship"), (SERVER, "local")].into_iter().enumerate() {
        let settings = format!("{SETTINGS}\n distribute={distribute}\n {arch}");
        let fire = Fire::light(&dir, &format!("run{i}"), "--quiet", &settings).join(&dir, 2);
        let said = fire.head.wait().expect(1).stderr;
        assert!(said.contains("photos/train/a/017.png: is not a whole PNG"), "{arch}: {said}");
        assert!(said.contains("--resume"), "{arch}: {said}");
        for node in fire.nodes {
            node.wait().expect(1);
        }
    }
}

/// What is damaged on one machine alone is that machine's trouble.
#[test]
fn a_node_with_a_damaged_image_of_its_own_leaves() {
    let (head, whole, damaged) = (machine(), machine(), machine());
    spoil(&damaged, "photos/train/a/017.png");
    let settings = format!("{SETTINGS}\n distribute=own\n {GROUP}");
    let mut fire = Fire::light(&head, "run", "--quiet", &settings);
    for dir in [&whole, &damaged] {
        fire.nodes.push(dir.bonfire("node").arg(&fire.ticket).start());
    }
    let [whole, damaged] = [0, 0].map(|i| fire.nodes.remove(i).wait());
    let reason = "photos/train/a/017.png: is not a whole PNG";
    assert!(damaged.expect(1).stderr.contains(reason));
    whole.expect(0);
    let said = fire.head.wait().expect(0).stderr;
    assert!(said.contains(reason), "{said}");
}
