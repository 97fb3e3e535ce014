//! Data sets as files.

use serde_json::Value;

use crate::program::Dir;
use crate::record::Record;

#[test]
fn made_files_train_like_the_built_in_data() {
    for (name, model) in [("digits", "lenet5"), ("grammar", "tagger"), ("reviews", "sentiment")] {
        let dir = Dir::new();
        dir.bonfire("data make -o files --train 300 --test 100").arg(name).succeed();
        let run = |out: &str, data: &str| -> Record {
            let settings = format!("model={model}\n data={data}\n epochs=1\n workers=2");
            dir.bonfire("train --quiet --out").arg(out).set(&settings).succeed();
            Record::of(dir.path(out))
        };
        let built_in = run("built-in", &format!("{{name: {name}, train: 300, test: 100}}"));
        let files = run("from-files", "files");
        let facts = |run: &Record, keys: [&str; 2]| -> [Value; 2] {
            let data = run.json("state.json")["data"].clone();
            keys.map(|key| data[key].clone())
        };
        let checksums = ["train_sha256", "test_sha256"];
        assert_eq!(facts(&files, checksums), facts(&built_in, checksums), "{name}");
        assert_eq!(files.number("train_loss"), built_in.number("train_loss"), "{name}");
        assert_eq!(files.number("accuracy"), built_in.number("accuracy"), "{name}");
        assert!(files.parameters() == built_in.parameters(), "{name}");
    }
}

#[test]
fn a_data_set_is_got_as_a_whole_or_not_at_all() {
    let dir = Dir::new();
    let names = ["train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"];
    let get = "data get fashion-mnist --from files -o got";
    dir.write("files/readme", "");
    dir.bonfire(get).run().refuse("holds neither train-images-idx3-ubyte nor");
    for name in names {
        dir.write(&format!("files/{name}-ubyte"), "not what it says");
    }
    dir.bonfire(get).run().refuse("train-images-idx3-ubyte: truncated: 16 of 47040016 bytes");
    dir.write("files/train-images-idx3-ubyte", vec![0; 47_040_016]);
    dir.bonfire(get).run().refuse("not the content that was expected");
    assert_eq!(dir.entries(), ["files"], "nothing is left behind");
    dir.bonfire("train").set("data=mnist").run().refuse("get it with: bonfire data get mnist");
    assert_eq!(dir.entries(), ["files"]);
}

/// Images are decoded while a run goes on: one that is damaged inside ends it, and is named.
#[test]
fn a_damaged_image_ends_the_run_that_wants_it() {
    let dir = Dir::new();
    let fixture = |name: &str| {
        std::fs::read(format!("{}/../data/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).expect("a fixture")
    };
    for i in 0..20 {
        dir.write(&format!("photos/train/a/{i:02}.png"), fixture("small.png"));
        dir.write(&format!("photos/train/b/{i:02}.png"), fixture("palette.png"));
        dir.write(&format!("photos/test/a/{i:02}.png"), fixture("small.png"));
    }
    let settings = "data=photos\n model={mlp: {hidden: [4]}}\n batch_size=4\n epochs=2\n workers=2";
    dir.bonfire("train --quiet --out whole").set(settings).succeed();
    let mut spoilt = fixture("small.png");
    let place = spoilt.windows(4).position(|name| name == b"IDAT").expect("pixels") + 6;
    spoilt[place..place + 4].fill(0xFF);
    dir.write("photos/train/a/07.png", spoilt);
    for (out, arch) in [("single", ""), ("flat", "\n arch=flat\n parameter_server={num_workers: 2}")] {
        let settings = format!("{}{arch}", settings.trim_end_matches("\n workers=2"));
        let said = dir.bonfire("train --quiet --out").arg(out).set(&settings).run();
        assert_ne!(said.code, Some(0), "{arch}");
        assert!(said.stderr.contains("photos/train/a/07.png: is not a whole PNG"), "{arch}: {}", said.stderr);
    }
}
