#!/usr/bin/env python3
"""Bytes that a worker sends and receives in a round, for every way of exchanging, against its formula.

    bench/bytes.py                  all ways, as a table
    bench/bytes.py f32 int8         some of them

Four workers of `lenet` (431,080 values, no embedding, no batch-norm statistics) as processes of this machine, over the
links that they would have on four. Counted are frames and what they carry, as the run's own log has them; not the
records of TLS (22 bytes in 16 KiB), nor TCP. The table has the mean of all workers.
"""
import json
import os
import subprocess
import sys
import tempfile

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")
WORKERS, ROUNDS = 4, 24
# Inputs (times places of the kernel) and outputs of the layers with weights.
MATRICES = [(25, 20), (500, 50), (800, 500), (500, 10)]
BIASES = sum(outputs for _, outputs in MATRICES)
VALUES = sum(inputs * outputs for inputs, outputs in MATRICES) + BIASES
GROUP, FLAT = "arch: allreduce\n", "arch: flat\n"
SGD = "optimizer: {sgd: {lr: 0.05, momentum: 0.9}}\n"
N = WORKERS


def group(of_vector):
    """Of a group every member sends each chunk once and its sums to all others."""
    return 2 * (N - 1) / N * of_vector


def with_servers(k):
    return 2 * N * (N - 1) / (N * N + k * N - 2 * k) * 4 * VALUES


def factors(rank):
    fit = [(i, o) for i, o in MATRICES if 2 * rank * (i + o) <= i * o]
    whole = BIASES + sum(i * o for i, o in MATRICES if (i, o) not in fit)
    return 4 * (sum(rank * (i + o) for i, o in fit) + whole)


INT8 = (1 + 4 / 512) * VALUES
# What is run, how many processes there are beside the workers, and the bytes by the formula: sent, and received. Two
# numbers are a range.
WAYS = {
    "f32": (GROUP, 0, group(4 * VALUES), None),
    "lossless": (GROUP + "compression: lossless\n", 0, (0, group(4 * VALUES)), None),
    "f16": (GROUP + "compression: f16\n", 0, group(2 * VALUES), None),
    "int8": (GROUP + "compression: int8\n", 0, group(INT8), None),
    "top_k 0.01": (GROUP + SGD + "compression: {top_k: 0.01}\n", 0,
                   ((N - 1) / N * 0.16 * VALUES, (N - 1) / N * 0.08 * VALUES * (1 + N)), None),
    "powersgd 2": (GROUP + "compression: {powersgd: 2}\n", 0, group(factors(2)), None),
    "powersgd 4": (GROUP + "compression: {powersgd: 4}\n", 0, group(factors(4)), None),
    "8 local steps": (GROUP + "local_steps: 8\n", 0, group(4 * VALUES), None),
    "8 local steps, int8": (GROUP + "local_steps: 8\ncompression: int8\n", 0, group(INT8), None),
    "1 server": (GROUP, 1, with_servers(1), None),
    "2 servers": (GROUP, 2, with_servers(2), None),
    "adasum": (GROUP, 0, (N - 1) * 4 * VALUES, None),
    "flat, sync": (FLAT, 0, 4 * VALUES, 4 * VALUES),
    "flat, sync, f16": (FLAT + "compression: f16\n", 0, 2 * VALUES, 2 * VALUES),
    "flat, sync, int8": (FLAT + "compression: int8\n", 0, INT8, INT8),
    "flat, sync, 8 local steps": (FLAT + "local_steps: 8\n", 0, 4 * VALUES, 4 * VALUES),
    "flat, async": (FLAT, 0, 4 * VALUES, 4 * VALUES),
}


def run_file(way):
    text, servers, *_ = WAYS[way]
    op = ", op: adasum" if way == "adasum" else ""
    kind = "async" if way.endswith("async") else "sync"
    rounds = ROUNDS * (N if kind == "async" else 1)
    return text + f"""model: lenet
data: {{name: digits, train: 8192, test: 64}}
batch_size: 8
num_server_rounds: {rounds}
eval_every: 100000 rounds
checkpoint_every: never
threads: 1
""" + (f"allreduce: {{num_workers: {N}, servers: {servers}{op}}}\n" if text.startswith(GROUP) else
       f"parameter_server: {{num_workers: {N}, aggr_type: {kind}}}\nhead: {{works: true}}\n")


def measure(way):
    """What a worker sent and received in a round."""
    servers = WAYS[way][1]
    with tempfile.TemporaryDirectory() as folder:
        file, out = os.path.join(folder, "run.yml"), os.path.join(folder, "run")
        with open(file, "w") as f:
            f.write(run_file(way))
        command = [BONFIRE, "train", file, "-n", "1", "-nr", "0", "-np", str(N + servers), "--master", "127.0.0.1",
                   "--out", out, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            sys.exit(f"{way}: {done.stderr or done.stdout}")
        events = [json.loads(line) for line in open(os.path.join(out, "events.jsonl"))]
    told = [node for event in events if event["event"] == "nodes" for node in event["nodes"]]
    total = lambda key: sum(node[key] for node in told if "server" not in node["role"])
    # In the end a member of a group hands over its parameters, to be measured.
    given = 4 * VALUES if WAYS[way][0].startswith(GROUP) else 0
    return (total("sent_bytes") - given) / N / ROUNDS, total("received_bytes") / N / ROUNDS


def in_kb(value):
    if isinstance(value, tuple):
        return (f"{in_kb(value[0])} to " if value[0] else "at most ") + in_kb(value[1])
    return f"{value / 1000:,.1f}"


def beside(measured, formula):
    """How far off a measured figure is."""
    if isinstance(formula, tuple):
        return "within" if formula[0] <= measured <= formula[1] else "OUTSIDE"
    return f"{measured / formula - 1:+.1%}"


def main():
    wanted = sys.argv[1:] or list(WAYS)
    if unknown := [way for way in wanted if way not in WAYS]:
        sys.exit(f"no way is named {unknown[0]}; known: {', '.join(WAYS)}")
    print("| way | sent, kB a round | formula | | received | formula | |\n|---|---|---|---|---|---|---|")
    for way in wanted:
        sent, received = measure(way)
        *_, sends, receives = WAYS[way]
        receives = receives or sends
        print(f"| {way} | {in_kb(sent)} | {in_kb(sends)} | {beside(sent, sends)} "
              f"| {in_kb(received)} | {in_kb(receives)} | {beside(received, receives)} |", flush=True)


if __name__ == "__main__":
    main()
