#!/usr/bin/env python3
"""Samples a second of unequal hosts: alone, together with equal shares, and with shares by speed.

    bench/shares.py                                      lenet and tagger, under a server and as a group
    bench/shares.py lenet:group lenet:group              some of it, twice
    bench/shares.py lenet:server --slow                  a host is slowed to a half in the middle of a run
    bench/shares.py lenet:server --works                 the head has no host of its own

Makes a lab of its own (root): a host for the head, which may use a whole core, and one for each share of `--cpu`. With
`--works` only these, and the head is on the quickest. Once shares have settled, every host trains by itself, with as
many samples a round as it had among all. They do so all at the same time, for all are on one machine: so its caches are
shared and its pace, which comes and goes by a third within minutes, is the same for all. With `--in-turn` one after the
other. With `--turns 3` everything is done three times, and what is told is of the turn in the middle: its samples a
second once shares have settled, what part that is of what the hosts do alone, how much more than with equal shares, what
part of its allowance each host used, the head's first, after which rounds shares moved, and how many rounds there were;
`turns` has the samples a second of every turn: by speed, alone, equal. Prints a line of JSON for every run. All hosts
use the same two cores: shares of more than these cannot be measured.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")
# Texts are sorted by length, ten rounds at a time: with so many an epoch is ten rounds of 512, and those of all hosts
# together are as alike as those of one alone.
MODELS = {
    "lenet": "model: lenet\ndata: {name: digits, train: 16384, test: 64}\n",
    "lenet5": "model: lenet5\ndata: {name: digits, train: 16384, test: 64}\n",
    "tagger": "model: tagger\ndata: {name: grammar, train: 5120, test: 64}\n",
}
# A round without anything else: no evaluation, no checkpoint.
PLAIN = "batch_size: {batch}\nepochs: 100000\neval_every: 1000000 rounds\ncheckpoint_every: 1000000 rounds\nthreads: 1\n"
WAYS = {
    "server": "arch: flat\nparameter_server: {{num_workers: {workers}}}\n",
    "group": "arch: allreduce\nallreduce: {{num_workers: {workers}}}\n",
}


def bonfire(args, *words, check=True):
    done = subprocess.run([args.program, *words], capture_output=True, text=True, timeout=120)
    if check and done.returncode != 0:
        sys.exit(f"bonfire {' '.join(words)}: {done.stderr or done.stdout}")
    return done


def train(args, text, inventory, seconds, meanwhile=None):
    """The events of a run that is stopped after so long, and how much of the processor each host used after a while.
    What is done in the middle of it is an event."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = os.path.join(folder, "run.yml"), os.path.join(folder, "run")
        with open(file, "w") as f:
            f.write(text)
        command = [args.program, "run", file, "-i", inventory, "--out", out, "--json"]
        command += ["--place", "fastest"] if args.works else []
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            return follow(args, run, seconds, meanwhile)
        finally:
            run.kill()


def follow(args, run, seconds, meanwhile):
    events = []
    reader = threading.Thread(target=lambda: events.extend(json.loads(line) for line in run.stdout), daemon=True)
    reader.start()
    begun = time.time()
    while not any(event["event"] == "progress" for event in events):
        if run.poll() is not None or time.time() - begun > 120:
            run.kill()
            sys.exit(f"the run does not begin: {run.stderr.read()}")
        time.sleep(0.1)
    time.sleep(seconds / 2)
    if meanwhile:
        meanwhile()
        events.append(dict(event="meanwhile", round=last_round(events)))
        time.sleep(seconds / 4)
    since, before = time.time(), processor_times(args)
    time.sleep(seconds / (4 if meanwhile else 2))
    passed, after = time.time() - since, processor_times(args)
    run.send_signal(2)
    reader.join(120)
    run.wait(120)
    return events, [(b - a) / passed for a, b in zip(before, after)]


def processor_times(args):
    """Seconds that the processes of each host have used so far."""
    times = []
    for host in range(1, hosts_of(args) + 1):
        pids = subprocess.run(["ip", "netns", "pids", f"bf-{args.lab}-{host}"], capture_output=True, text=True)
        times.append(sum(processor_time(pid) for pid in pids.stdout.split()))
    return times


def processor_time(pid):
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0]) for t in threads) / 1e9
    except OSError:
        return 0.0


def cpus_of(args):
    return [float(cpu) for cpu in args.cpu.split(",")]


def hosts_of(args):
    return len(cpus_of(args)) + (0 if args.works else 1)


def last_round(events):
    return max(event["round"] for event in events if event["event"] == "progress")


def speed(events, begin=0.4, end=1.0):
    """Samples a second in a part of the run, by the clock. Whole epochs, if it has any: texts of a round are of similar
    length, so that rounds are not alike."""
    progress = [(e["at_s"], e["samples"], e["epoch"]) for e in events if e["event"] == "progress"]
    first, last = progress[0][0], progress[-1][0]
    part = [p for p in progress if first + begin * (last - first) <= p[0] <= first + end * (last - first)]
    (to_s, to, end_epoch), epochs = part[-1], int(part[-1][2] - part[0][2])
    since_s, since, _ = min(part, key=lambda p: abs(end_epoch - epochs - p[2])) if epochs else part[0]
    return (to - since) / (to_s - since_s)


def inventory(folder, lines, name):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["lenet:server", "lenet:group", "tagger:server", "tagger:group"])
    parser.add_argument("--cpu", default="0.1,0.1,0.2,0.4", help="shares of a core, of the workers' hosts")
    parser.add_argument("--rate", help="of all links, such as 100mbit")
    parser.add_argument("--batch", type=int, default=32, help="of a worker, if all have as much")
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--turns", type=int, default=1, help="everything so often, of which the middle counts")
    parser.add_argument("--in-turn", action="store_true", help="hosts alone one after the other")
    parser.add_argument("--works", action="store_true", help="the head works, on the quickest host")
    parser.add_argument("--slow", action="store_true", help="slow the last host to a half in the middle of each run")
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--lab", default="shares")
    args = parser.parse_args()
    if args.turns < 1:
        parser.error("--turns: at least 1")
    for what in args.what:
        model, _, way = what.partition(":")
        if model not in MODELS or way not in WAYS:
            parser.error(f"{what}: MODEL:WAY, of {', '.join(MODELS)} and {', '.join(WAYS)}")
    cpus = cpus_of(args)
    # Whoever ends it early wants no lab left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        link = f", rate: {args.rate}" if args.rate else ""
        heads = [] if args.works else [1.0]
        hosts = [f"- {{cpu: {cpu}{link}}}" for cpu in [*heads, *cpus]]
        try:
            bonfire(args, "lab", "up", "--name", args.lab, "--from", inventory(folder, hosts, "hosts.yml"))
            measure(args, cpus, folder)
        finally:
            bonfire(args, "lab", "down", "--name", args.lab, check=False)


def measure(args, cpus, folder):
    last = f"{args.lab}-{hosts_of(args)}"
    slow = (lambda: bonfire(args, "lab", "set", last, "--cpu", str(cpus[-1] / 2))) if args.slow else None
    for what in args.what:
        turns = []
        for _ in range(args.turns):
            if slow:
                bonfire(args, "lab", "set", last, "--cpu", str(cpus[-1]))
            turns.append(turn(args, *what.split(":"), slow, folder))
        turns.sort(key=lambda turn: turn["of_alone"])
        speeds = [[turn["auto"], sum(turn["alone"]), turn.get("equal", 0)] for turn in turns]
        print(json.dumps(dict(turns[len(turns) // 2], turns=speeds)), flush=True)


def turn(args, model, way, slow, folder):
    """Hosts together by speed, alone, and together with equal shares."""
    whole = f"/var/lib/bonfire-labs/{args.lab}/files/hosts.ini"
    together = run_file(model, args.batch) + WAYS[way].format(workers=len(cpus_of(args)))
    together += f"head: {{works: {str(args.works).lower()}}}\n"
    events, used = train(args, together + "shares: auto\n", whole, args.seconds * (3 if slow else 1.5), slow)
    auto, moves = speed(events, 0.75) if slow else speed(events), moves_of(events)
    # A host that was slowed is as slow here, too.
    alone, used_alone = each_alone(args, model, moves[-1][1] if moves else {}, folder)
    found = dict(model=model, way=way, cpu=args.cpu, batch=args.batch, auto=round(auto),
                 alone=[round(s) for s in alone], of_alone=round(auto / sum(alone), 3))
    if slow:
        found["slowed_after"] = next(event["round"] for event in events if event["event"] == "meanwhile")
    else:
        equal = speed(train(args, together + "shares: equal\n", whole, args.seconds)[0])
        found.update(equal=round(equal), of_equal=round(auto / equal, 2))
    return dict(found, moves=[(after, list(now.values())) for after, now in moves], rounds=last_round(events),
                used=[round(part, 3) for part in used], used_alone=[round(part, 3) for part in used_alone])


def moves_of(events):
    """After which rounds shares moved, and to what."""
    return [(e["round"], {s["name"]: s["samples"] for s in e["shares"]}) for e in events if e["event"] == "shares"]


def run_file(model, batch):
    return MODELS[model] + PLAIN.format(batch=batch)


def each_alone(args, model, shares, folder):
    """Samples a second of each host that trains by itself, with as many samples a round as its share, and what it used
    of the processor."""
    text = open(f"/var/lib/bonfire-labs/{args.lab}/files/hosts.ini").read()
    hosts = [line for line in text.splitlines() if line.startswith(f"{args.lab}-")]

    def alone(host):
        others = [line for line in text.splitlines() if line == host or line not in hosts]
        name = host.split()[0]
        single = run_file(model, shares.get(name) or args.batch) + "workers: 1\nhead: {works: true}\n"
        events, used = train(args, single, inventory(folder, others, f"{name}.ini"), args.seconds)
        return speed(events), used[hosts.index(host)]

    workers = hosts[-len(cpus_of(args)):]
    with ThreadPoolExecutor(1 if args.in_turn else len(workers)) as pool:
        return zip(*pool.map(alone, workers))


if __name__ == "__main__":
    sys.exit(main())
