#!/usr/bin/env python3
"""How fast photographs of a folder are decoded beside training, and what memory a large folder takes.

    bench/photos.py --folder FOLDER [--make 1000] [--copies 50] [--resize 64] [--core 0]

Makes so many JPEGs of 500 × 375 by Pillow in FOLDER, unless they are there: waves and noise, quality 85. Trains a model
that is hardly any work for one epoch on one core, so that every photograph is decoded once, and prints how many that were
a second of clock in the epoch, and a second of processor time of the whole program. Then it links every photograph so
many times, and trains for 20 rounds on all of them: how soon the first round is done, and how much memory the program
took at most.
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")


def make(folder, count):
    """By numpy and Pillow; half of them in each of two classes."""
    import numpy as np
    from PIL import Image
    y, x = np.mgrid[0:375, 0:500]
    for i in range(count):
        path = os.path.join(folder, "ab"[i % 2], f"{i:05}.jpg")
        if os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        chance = np.random.default_rng(i)
        waves = [np.sin(x * chance.uniform(0, 0.1) + y * chance.uniform(0, 0.1) + c) for c in range(3)]
        image = 128 + 70 * np.stack(waves, -1) + chance.normal(0, 8, (375, 500, 3))
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(path, quality=85)


def linked(folder, copies, into):
    count = 0
    for name in "ab":
        os.makedirs(os.path.join(into, name))
        for file in sorted(os.listdir(os.path.join(folder, name))):
            for copy in range(copies):
                os.link(os.path.join(folder, name, file), os.path.join(into, name, f"{copy:03}-{file}"))
                count += 1
    return count


def train(args, folder, settings, core):
    with tempfile.TemporaryDirectory() as out:
        command = ["taskset", "-c", str(core)] if core is not None else []
        command += [args.program, "train", "--quiet", "--out", os.path.join(out, "run")]
        data = f"{{name: '{folder}'" + (f", resize: {args.resize}" if args.resize else "") + "}"
        model = "{layers: [{adaptive_avg_pool2d: 8}, flatten, {linear: classes}]}"
        settings = [f"data={data}", f"model={model}", "optimizer={sgd: {lr: 0.01}}", "report=false", "workers=1",
                    "threads=1", "checkpoint_every=never"] + settings
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, check=True)
        with open(os.path.join(out, "run", "events.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--make", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=50)
    parser.add_argument("--resize", type=int)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--program", default=BONFIRE)
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    make(folder, args.make)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = [event for event in train(args, folder, ["epochs=1"], args.core) if event["event"] == "epoch_ended"][0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"photographs_per_s": round(ended["samples"] / ended["seconds"], 1),
                      "photographs_per_core_s": round(args.make / processor_s, 1),
                      "seconds": round(ended["seconds"], 2), "processor_s": round(processor_s, 2)}), flush=True)
    if args.copies:
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as many:
            count = linked(folder, args.copies, many)
            events = train(args, many, ["num_server_rounds=20", "data.test=200"], None)
            summary = [event for event in events if event["event"] == "ended"][0]["summary"]
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(json.dumps({"photographs": count, "first_step_s": summary.get("first_step_s"),
                              "seconds": summary["seconds"], "peak_mib": round(peak)}), flush=True)


if __name__ == "__main__":
    main()
