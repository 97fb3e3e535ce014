"""That the installed module trains and reads run folders: python test_bonfire.py, in a folder that may be written to."""

import json
import tempfile
from pathlib import Path

import bonfire


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        small = {"name": "digits", "train": 2000, "test": 200}
        run = bonfire.train(out=out, workers=1, quiet=True, data=small, epochs=2, keep_checkpoints=2)
        summary = run.summary
        assert summary["exit"] == "done" and summary["epochs"] == 2, summary

        ended = run.events("epoch_ended")
        assert ended["epoch"] == [1, 2] and len(ended["loss"]) == 2, ended
        assert ended["loss"][1] < ended["loss"][0], ended
        assert run.events("evaluated")["accuracy"][-1] == summary["accuracy"]
        assert run.events("none of these") == {}

        state = run.state_dict()
        assert state["conv1.weight"].shape == (6, 1, 5, 5), state["conv1.weight"].shape
        assert sum(values.size for values in state.values()) == 44426
        earlier = run.state_dict(run.checkpoints()[0])
        assert (earlier["fc3.bias"] != state["fc3.bias"]).any()

        # A run that was killed behind its checkpoint did the rounds after that twice.
        log = out / "events.jsonl"
        taken_back = {"at_s": 9.0, "event": "progress", "round": 10**6, "loss": 0.0}
        resumed = {"at_s": 0.0, "event": "resumed", "round": 10**5, "epoch": 2.0, "checkpoint": "some"}
        log.write_text(log.read_text() + f"{json.dumps(taken_back)}\n{json.dumps(resumed)}\n" + '{"at_s": 1.0, "ev')
        assert 10**6 not in run.events("progress").get("round", [])
        assert run.log()[-1]["event"] == "resumed"

        try:
            bonfire.train(quiet=True, out=Path(folder, "wrong"), epoch=1)
        except bonfire.Failed as error:
            assert error.code == 2 and "epochs" in str(error), error
        else:
            raise AssertionError("a key that is none was taken")
    print("the module trains, and reads what came of it")


if __name__ == "__main__":
    main()
