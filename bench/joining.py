#!/usr/bin/env python3
"""How long the members of a group stand still when another one comes in, on the hosts of a lab:

    bonfire lab up --hosts 4 --rate 100mbit
    bench/joining.py --hosts 4 --model resnet18 --set compression=int8

All hosts but the last begin; the last one joins after some rounds. Prints a line of JSON: the median and the longest
round before it came, while it took the state, and since it is a member; and how long that took. Root, because labs
need it. A round is what the head hears of it; what lasts as long as a round is taken for one.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")


def events(folder):
    try:
        with open(os.path.join(folder, "events.jsonl")) as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def rounds(told):
    """When the head heard of which round."""
    return [(e["round"], e["at_s"]) for e in told if e["event"] == "progress"]


def times(heard, since, until):
    """Seconds a round in between."""
    heard = [(number, at) for number, at in heard if since <= at <= until]
    return [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(heard, heard[1:]) if b[0] > a[0]]


def wait_for(what, holds, seconds=300):
    end = time.time() + seconds
    while not holds():
        if time.time() > end:
            raise SystemExit(f"{what} did not come within {seconds} s")
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--lab", default="lab")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=8, help="so many before, and after")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--program", default=BONFIRE)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(args, folder)


def measure(args, folder):
    hosts = [host_of(args.lab, number) for number in range(1, args.hosts + 1)]
    run, ticket = os.path.join(folder, "run"), os.path.join(folder, "ticket")
    settings = [
        f"model={args.model}", "data={name: digits, train: 20000, test: 16}", f"batch_size={args.batch}",
        "num_server_rounds=100000", "eval_every=100000 rounds", "checkpoint_every=100000 rounds", "arch=allreduce",
        f"allreduce={{num_workers: {args.hosts - 1}}}", "shares=equal", "optimizer={sgd: {lr: 0.01, momentum: 0.9}}",
    ] + args.set
    flags = [flag for setting in settings for flag in ("--set", setting)]
    inside = lambda host: ["ip", "netns", "exec", host["link"], args.program]
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    head = subprocess.Popen(
        inside(hosts[0]) + ["head", "--listen", f"{hosts[0]['address']}:4711", "--ticket-file", ticket, "--out", run,
                            "--quiet"] + flags, **quiet)
    started = [head]
    try:
        wait_for("the ticket", lambda: os.path.exists(ticket) or head.poll() is not None)
        word = open(ticket).read().strip()
        join = lambda i: subprocess.Popen(inside(hosts[i]) + ["node", word, "--name", f"n{i}"], **quiet)
        started += [join(i) for i in range(args.hosts - 1)]
        wait_for("the first rounds", lambda: any(number >= args.rounds for number, _ in rounds(events(run))))
        started.append(join(args.hosts - 1))
        is_member = lambda: [e for e in events(run) if e["event"] == "noted"
                             and f"{args.hosts} members after round" in e["message"]]
        wait_for("the late one", is_member)
        told = is_member()[-1]["at_s"]
        last = rounds(events(run))[-1][0]
        wait_for("the last rounds", lambda: rounds(events(run))[-1][0] >= last + args.rounds)
        summary(args, rounds(events(run)), events(run), told)
    finally:
        head.terminate()
        for process in started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def summary(args, heard, told, member):
    joined = next(e["at_s"] for e in told if e["event"] == "node_joined" and e["name"] == f"n{args.hosts - 1}")
    warm = next(at for number, at in heard if number >= 3)
    parts = dict(before=times(heard, warm, joined), learning=times(heard, joined, member + 0.01),
                 after=times(heard, member, float("inf")))
    across = times(heard, warm, float("inf"))
    print(json.dumps(dict(
        model=args.model, hosts=args.hosts, settings=args.set, took_s=round(member - joined, 2),
        rounds_meanwhile=len(parts["learning"]), longest_s=round(max(across), 2),
        **{f"{name}_s": [round(statistics.median(part), 2), round(max(part), 2)] for name, part in parts.items() if part},
    )))


def host_of(lab, number):
    """The network namespace of a host, and its address there."""
    with open(f"/var/lib/bonfire-labs/{lab}/files/hosts.ini") as f:
        addresses = [word.split("=")[1] for line in f for word in line.split() if word.startswith("ansible_host=")]
    for namespace in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split("\n"):
        name = namespace.split()[0] if namespace else ""
        if not name:
            continue
        shown = subprocess.run(["ip", "-n", name, "-4", "-o", "addr"], capture_output=True, text=True).stdout
        if f" {addresses[number - 1]}/" in shown:
            return dict(link=name, address=addresses[number - 1])
    raise SystemExit(f"lab {lab} has no host {number}")


if __name__ == "__main__":
    main()
