#!/usr/bin/env python3
"""What rounding and rarer exchanges cost in accuracy: the same runs over several seeds, by way of exchanging gradients.

    bench/accuracy.py --ewt FOLDER --fashion FOLDER --reviews FOLDER --cifar FOLDER [--seeds 5] [--ways f32,int8]
        [--tasks digits]

Four workers of an all-reduce, as threads of one process: what is learnt is what processes would learn, bit for bit.
Prints a line of JSON for every task and way: test accuracies after the last epoch, their mean and deviation.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")
TASKS = {
    "digits": "model=lenet5 data={name:digits} batch_size=16 optimizer={adam:{}} epochs=5",
    "fashion": "model=lenet data={name:FASHION} batch_size=16 optimizer={adam:{}} epochs=5",
    "ewt": "model=tagger data={name:EWT} batch_size=32 epochs=5",
    "reviews": "model=sentiment data={name:REVIEWS} batch_size=32 optimizer={sgd:{lr:0.1,momentum:0.9}} epochs=10",
    # Only if asked for: three epochs take twenty minutes of a core.
    "cifar": "model=resnet20 data={name:CIFAR,normalize:true,augment:{pad:4,flip:true}} batch_size=32 epochs=3"
             " optimizer={sgd:{lr:0.1,momentum:0.9,weight_decay:0.0001}}"
             " schedule=[{epochs:2,lr:0.1},{epochs:1,lr:0.01}]",
}
USUAL = ["digits", "fashion", "ewt", "reviews"]
WAYS = {
    "f32": "",
    "int8": "compression=int8",
    "local8": "local_steps={after:100 rounds,steps:8}",
    "unequal": "shares=UNEQUAL",
    "local8-unequal": "local_steps={after:100 rounds,steps:8} shares=UNEQUAL",
    "local8-int8": "local_steps={after:100 rounds,steps:8} compression=int8",
    "local16": "local_steps={after:100 rounds,steps:16}",
    "local8-delay4": "local_steps={after:100 rounds,steps:8} outer={delay:4}",
    "easgd8": "local_steps={after:100 rounds,steps:8} easgd={rho:0.2}",
    "powersgd4": "compression={powersgd:4}",
    "top_k": "compression={top_k:0.01}",
    "auto": "compression=auto local_steps=auto",
}

# The fastest has six times what the slowest has.
UNEQUAL = "{thread-1:1,thread-2:3,thread-3:2,thread-4:6}"


def settings(text):
    """Splits at spaces that no brace encloses."""
    parts, depth, word = [], 0, ""
    for char in text:
        depth += (char in "{[") - (char in "]}")
        if char == " " and depth == 0:
            parts.append(word)
            word = ""
        else:
            word += ": " if char == ":" and depth > 0 else char
    return [part for part in parts + [word] if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for folder in ["ewt", "fashion", "reviews", "cifar"]:
        parser.add_argument(f"--{folder}", default="")
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ways", default="f32,int8,local8")
    parser.add_argument("--tasks", default=",".join(USUAL))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    for task in args.tasks.split(","):
        text = TASKS[task]
        for folder in ["ewt", "fashion", "reviews", "cifar"]:
            text = text.replace(folder.upper(), getattr(args, folder))
        for way in args.ways.split(","):
            found = []
            for seed in range(1, args.seeds + 1):
                with tempfile.TemporaryDirectory() as folder:
                    out = os.path.join(folder, "run")
                    command = [args.program, "train", "--quiet", "--out", out]
                    fixed = ["arch=allreduce", "allreduce={num_workers: 4}", f"seed={seed}", "checkpoint_every=100 epochs"]
                    for setting in fixed + settings(text) + settings(WAYS[way].replace("UNEQUAL", UNEQUAL)) + args.set:
                        command += ["--set", setting]
                    subprocess.run(command, check=True)
                    with open(os.path.join(out, "summary.json")) as f:
                        found.append(json.load(f)["accuracy"] * 100)
            print(json.dumps(dict(task=task, way=way, mean=round(statistics.mean(found), 2),
                                  deviation=round(statistics.stdev(found), 2) if len(found) > 1 else 0,
                                  found=[round(value, 2) for value in found])), flush=True)


if __name__ == "__main__":
    main()
