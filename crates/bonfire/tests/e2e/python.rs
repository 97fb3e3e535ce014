//! That others can open what Bonfire writes. `BONFIRE_TEST_PYTHON` names a Python with safetensors and numpy; if it has
//! torch too, the parameters are loaded into the same model there and must find the same on the test data.

use std::process::Command;

use crate::program::Dir;

const MODELS: [(&str, &str); 3] = [("lenet5", "digits"), ("tagger", "grammar"), ("sentiment", "reviews")];

#[test]
fn python_opens_the_checkpoints() {
    let Ok(python) = std::env::var("BONFIRE_TEST_PYTHON") else {
        eprintln!(
            "SKIPPED: BONFIRE_TEST_PYTHON names no Python with safetensors, so no checkpoint was opened there"
        );
        return;
    };
    for (model, data) in MODELS {
        let dir = Dir::new();
        dir.bonfire("data make -o files --train 600 --test 200").arg(data).succeed();
        let settings = format!("model={model}\n data=files\n epochs=2\n workers=2");
        dir.bonfire("train --quiet --out run").set(&settings).succeed();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/python.py");
        let mut command = Command::new(&python);
        command.arg(script).arg(model).arg(dir.path("run")).arg(dir.path("files"));
        let output = command.output().expect("BONFIRE_TEST_PYTHON");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{model}:\n{stdout}\n{stderr}");
        eprint!("{stdout}");
    }
}
