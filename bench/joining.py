#!/usr/bin/env python3
"""How long the members of a group stand still while another one joins, on the hosts of a lab:

    bonfire lab up --hosts 5 --rate 100mbit
    bench/joining.py --hosts 5
    bench/joining.py --hosts 5 --set compression=int8 --program OLDER_BONFIRE

The head is on the first host, members on the others but the last, which joins after some rounds. Prints a line of
JSON: seconds a round before anybody joins, the longest time without a round from then until the newcomer has done ten,
how long it took from its start until it worked, and what the members did meanwhile. Root, because labs need it.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")
RUN = """model: {{mlp: {{hidden: [3000, 2500]}}}}
data: {{name: digits, train: 20000, test: 64}}
batch_size: 4
optimizer: {{adam: {{lr: 0.0001}}}}
num_server_rounds: 100000
eval_every: 100000 rounds
checkpoint_every: 100000 rounds
shares: equal
arch: allreduce
allreduce: {{num_workers: {workers}}}
"""


def events_of(folder):
    path = os.path.join(folder, "run", "events.jsonl")
    if not os.path.exists(path):
        return []
    lines = open(path).read().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for(folder, what, limit):
    until = time.time() + limit
    while time.time() < until:
        events = events_of(folder)
        if what(events):
            return events
        time.sleep(0.2)
    raise SystemExit(f"not within {limit} s: {events_of(folder)[-5:]}")


def rounds(events):
    return [(e["at_s"], e["round"]) for e in events if e["event"] == "progress"]


def measure(args, folder):
    config = f"/var/lib/bonfire-labs/{args.lab}/files/ssh_config"
    started = []

    def start(host, command):
        command = ["ssh", "-F", config, f"{args.lab}-{host}", command]
        with open(os.path.join(folder, f"{host}.log"), "w") as log:
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    with open(os.path.join(folder, "run.yml"), "w") as f:
        f.write(RUN.format(workers=args.hosts - 2))
    program, ticket = os.path.abspath(args.program), os.path.join(folder, "ticket")
    sets = " ".join(f"--set '{setting}'" for setting in args.set)
    start(1, f"{program} head {folder}/run.yml --out {folder}/run --ticket-file {ticket} --quiet {sets}")
    while not os.path.exists(ticket):
        time.sleep(0.1)
    node = f"{program} node --ticket-file {ticket} --patience 0"
    for host in range(2, args.hosts):
        start(host, node)
    wait_for(folder, lambda events: len(rounds(events)) > 1 and rounds(events)[-1][1] >= args.before, args.limit)
    start(args.hosts, node)
    joined = lambda events: [e for e in events if e["event"] == "node_joined"][args.hosts - 2:]
    at = joined(wait_for(folder, joined, 60))[0]["at_s"]
    works = lambda events: [e for e in events if e["event"] == "noted" and at < e["at_s"]
                            and f"goes on: {args.hosts - 1} members" in e["message"]
                            and "meanwhile" not in e["message"]]
    formed = works(wait_for(folder, works, args.limit))[0]["at_s"]
    last = rounds(events_of(folder))[-1][1]
    events = wait_for(folder, lambda events: rounds(events)[-1][1] >= last + 10, args.limit)
    for process in started:
        process.terminate()
    for host in range(1, args.hosts + 1):
        subprocess.run(["ssh", "-F", config, f"{args.lab}-{host}", f"pkill -u root -f '^{program} (head|node) .*{folder}'"])
    progress = rounds(events)
    before = [p for p in progress if p[0] < at][2:]
    after = [p for p in progress if p[0] >= before[-1][0]]
    begun = after[0]
    at_work = next((p for p in after if p[0] >= formed), after[-1])
    return dict(
        sets=args.set, round_s=round((before[-1][0] - before[0][0]) / (before[-1][1] - before[0][1]), 2),
        longest_s=round(max(b[0] - a[0] for a, b in zip(after, after[1:])), 2),
        joined_to_work_s=round(formed - at, 1), rounds_meanwhile=at_work[1] - begun[1],
        notes=[(round(e["at_s"] - at, 1), e["message"]) for e in events if e["event"] == "noted" and e["at_s"] > at - 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--lab", default="lab")
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--before", type=int, default=8, help="after how many rounds the last one joins")
    parser.add_argument("--limit", type=int, default=120, help="how many seconds anything may take")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(args, folder)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
