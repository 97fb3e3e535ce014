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
