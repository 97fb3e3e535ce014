//! That others can open what Bonfire writes. `BONFIRE_TEST_PYTHON` names a Python with safetensors and numpy; if it has
//! torch too, the parameters are loaded into the same model there and must find the same on the test data. TensorBoard
//! is in the Python that `BONFIRE_TEST_TENSORBOARD` names.

use std::process::Command;
use std::time::Duration;

use crate::program::Dir;
use crate::record::Record;

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

/// Killed in the middle and resumed, so that TensorBoard has to take something back.
#[test]
fn tensorboard_shows_what_the_log_has() {
    let Ok(python) = std::env::var("BONFIRE_TEST_TENSORBOARD") else {
        eprintln!(
            "SKIPPED: BONFIRE_TEST_TENSORBOARD names no Python with tensorboard, so no file was read there"
        );
        return;
    };
    let dir = Dir::new();
    let run = Record::of(dir.path("run"));
    let settings = "epochs=1000000\n workers=2\n histograms=true\n checkpoint_every=1 epochs";
    let mut running = dir.bonfire("train --quiet --out run").set(settings).start();
    let told = |kind: &str| run.events().iter().filter(|event| event["event"] == kind).count();
    running.until("the first event", || run.has_started());
    running.until("some progress", || told("progress") >= 8 && told("checkpointed") >= 1);
    running.kill_after(Duration::ZERO);
    let epochs = told("epoch_ended") + 3;
    dir.bonfire("train --quiet --resume run --set").arg(format!("epochs={epochs}")).succeed();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/read_tensorboard.py");
    let output = Command::new(&python).arg(script).arg(&run.0).output().expect("a Python");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    eprint!("{stdout}");
}
