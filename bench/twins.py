#!/usr/bin/env python3
"""How fast a list of layers in a run file is beside the named model that it equals.

    bench/twins.py [--program PATH] [--turns 4] [--only tagger,sentiment,resnet20]

Trains both in turns on one core, three short epochs a turn, and prints for each pair the best time of an epoch, the
ratio, and whether both ended with the same loss, as they must.
"""
import argparse
import json
import os
import subprocess
import tempfile

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")
NORMAL = "init: {normal: 0.1}"


def block(out, stride):
    def conv(number, stride):
        return (f"{{conv2d: {{out: {out}, kernel: 3, stride: {stride}, padding: 1, bias: false}}, name: conv{number}}}, "
                f"{{batch_norm: {{}}, name: bn{number}}}")
    shortcut = "downsample: subsample, " if stride == 2 else ""
    return f"{{residual: {{layers: [{conv(1, stride)}, relu, {conv(2, 1)}], {shortcut}activation: relu}}}}"


def stage(number, out):
    first = block(out, 2) + ", " if number > 1 else ""
    times = 2 if number > 1 else 3
    return f"{{sequential: [{first}{{repeat: {{times: {times}, layers: [{block(out, 1)}]}}}}], name: layer{number}}}"


TWINS = {
    "tagger": ("{name: grammar, train: 1500, test: 20}",
               f"[{{embedding: 100, name: embedding, {NORMAL}}}, {{dropout: 0.25}}, "
               f"{{gru: {{hidden: 128, layers: 2, dropout: 0.25}}, name: rnn, {NORMAL}}}, {{dropout: 0.25}}, "
               f"{{linear: classes, name: fc, {NORMAL}}}]"),
    "sentiment": ("{name: reviews, train: 1500, test: 20}",
                  "[{embedding: 100, name: embedding}, {lstm: {hidden: 32, layers: 2, dropout: 0.5}, name: rnn}, "
                  "last_word, {linear: 32, name: fc1}, relu, {linear: 1, name: fc2}, binary]"),
    "resnet20": ("{name: digits, train: 192, test: 20}",
                 "[{conv2d: {out: 16, kernel: 3, padding: 1, bias: false}, name: conv1}, {batch_norm: {}, name: bn1}, "
                 f"relu, {stage(1, 16)}, {stage(2, 32)}, {stage(3, 64)}, global_avg_pool, "
                 "{linear: classes, name: linear}]"),
}


def train(program, data, model):
    with tempfile.TemporaryDirectory() as out:
        command = ["taskset", "-c", "0", program, "train", "--quiet", "--out", os.path.join(out, "run")]
        for setting in [f"data={data}", f"model={model}", "epochs=3", "eval_every=3 epochs", "workers=1", "threads=1",
                        "report=false", "checkpoint_every=never"]:
            command += ["--set", setting]
        subprocess.run(command, check=True)
        with open(os.path.join(out, "run", "events.jsonl"), encoding="utf-8") as lines:
            epochs = [event for event in map(json.loads, lines) if event["event"] == "epoch_ended"]
        return min(epoch["seconds"] for epoch in epochs), epochs[-1]["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--only", default=",".join(TWINS))
    args = parser.parse_args()
    for name in args.only.split(","):
        data, layers = TWINS[name]
        found = {name: [], "list": []}
        for _ in range(args.turns):
            for key, model in [(name, name), ("list", f"{{layers: {layers}}}")]:
                found[key].append(train(args.program, data, model))
        named, listed = (min(seconds for seconds, _ in found[key]) for key in found)
        same = len({loss for runs in found.values() for _, loss in runs}) == 1
        print(json.dumps({"model": name, "named_s": round(named, 4), "list_s": round(listed, 4),
                          "ratio": round(listed / named, 3), "same_loss": same}), flush=True)


if __name__ == "__main__":
    main()
