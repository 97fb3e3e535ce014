#!/usr/bin/env python3
"""Milliseconds a step of Bonfire on the hosts of a lab, by way of exchanging gradients:

    bonfire lab up --hosts 4 --rate 100mbit
    bench/lab.py --hosts 4 lenet                                  every way of this model
    bench/lab.py --hosts 4 lenet:int8 tagger:f32 --repeats 2      some of them
    bench/lab.py --hosts 4 tagger --data FOLDER                   with CoNLL-U files of one's own

Prints a line of JSON for every run: the mean of all steps after some of warming up, what a host sent in one, the loss,
and how long a worker computed and exchanged. Root, because labs need it. Links have TLS, as always.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")
MODELS = {
    "lenet": dict(model="lenet", data="{name: digits, train: 16384, test: 64}", batch=32, steps=60),
    "lenet5": dict(model="lenet5", data="{name: digits, train: 16384, test: 64}", batch=32, steps=100),
    "tagger": dict(model="tagger", data=None, batch=32, steps=60),
    "sentiment": dict(model="sentiment", data=None, batch=32, steps=60),
    "resnet18": dict(model="resnet18", data="{name: digits, train: 2048, test: 64}", batch=8, steps=14),
}
WAYS = {
    "f32": [],
    "f16": ["compression=f16"],
    "int8": ["compression=int8"],
    "powersgd2": ["compression={powersgd: 2}"],
    "powersgd4": ["compression={powersgd: 4}"],
    "local16": ["local_steps=16"],
    "local16-int8": ["local_steps=16", "compression=int8"],
    "local16-int8-delay": ["local_steps=16", "compression=int8", "outer={delay: 12}"],
    "lossless": ["compression=lossless"],
    "auto": ["local_steps=auto", "compression=auto"],
    "server": ["server"],
    "server-int8": ["server", "compression=int8"],
}


def run(args, model, way):
    spec = MODELS[model]
    settings, hosts = list(WAYS[way]), args.hosts
    by_server = "server" in settings
    settings = [setting for setting in settings if setting != "server"]
    workers = hosts - 1 if by_server and args.apart else hosts
    local = next((int(s.split("=")[1]) for s in settings if s.startswith("local_steps=") and s[12:].isdigit()), 1)
    data = f"{{name: {args.data}}}" if args.data else spec["data"]
    steps = args.steps or spec["steps"]
    text = f"""model: {spec["model"]}
data: {data}
batch_size: {spec["batch"]}
num_server_rounds: {max(steps // local, 4)}
eval_every: 1000 rounds
checkpoint_every: 1000 rounds
"""
    if by_server:
        text += f"arch: flat\nparameter_server: {{num_workers: {workers}}}\nhead: {{works: {str(not args.apart).lower()}}}\n"
    else:
        text += f"arch: allreduce\nallreduce: {{num_workers: {workers}}}\n"
    with tempfile.TemporaryDirectory() as folder:
        file, out = os.path.join(folder, "run.yml"), os.path.join(folder, "run")
        with open(file, "w") as f:
            f.write(text)
        command = [args.program, "run", file, "-i", f"/var/lib/bonfire-labs/{args.lab}/files/hosts.ini", "--out", out, "--quiet"]
        for setting in settings + args.set:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            return dict(model=model, way=way, error=(done.stderr or done.stdout).strip()[-300:])
        events = [json.loads(line) for line in open(os.path.join(out, "events.jsonl"))]
        with open(os.path.join(out, "summary.json")) as f:
            summary = json.load(f)
    progress = [(e["round"], e["at_s"], e["loss"]) for e in events if e["event"] == "progress"]
    # What comes after the last step, an evaluation and a checkpoint, is no step.
    end = (progress[-1][1], progress[-1][0])
    warm = next((p for p in progress if p[0] >= min(10, max(1, 10 // local))), progress[0])
    nodes = [node for e in events if e["event"] == "nodes" for node in e["nodes"]]
    sent = max(sum(n["sent_bytes"] for n in nodes if n["node"] == node["node"]) for node in nodes)
    return dict(model=model, way=way, hosts=hosts, workers=workers,
                ms_per_step=round((end[0] - warm[1]) * 1e3 / max(1, (end[1] - warm[0]) * local), 1),
                sent_per_step=sent // max(1, summary["rounds"] * local), loss=round(progress[-1][2], 3),
                wait=round(max(node.get("wait", 0) for node in nodes), 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="MODEL or MODEL:WAY")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--lab", default="lab")
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--steps", type=int, help="how many steps a run has")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--data", help="a file or folder that every host can read")
    parser.add_argument("--apart", action="store_true", help="a server's head has a host of its own")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    for _ in range(args.repeats):
        for what in args.what:
            model, _, way = what.partition(":")
            for way in [way] if way else WAYS:
                print(json.dumps(run(args, model, way)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
