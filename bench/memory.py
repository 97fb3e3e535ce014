#!/usr/bin/env python3
"""Measures how much memory a run takes at most: of every process, the peak that the kernel counts (VmHWM).

    cargo build --release
    python3 bench/memory.py                              resnet18, 8 images a worker, on one machine, flat and in a ring
    python3 bench/memory.py --program old/bonfire        another program
    python3 bench/memory.py --model mlp --batch 64 flat  another model; some ways only

A run has one epoch of few samples, one evaluation of 256 images, and a checkpoint: peaks do not grow after that.
"""
import argparse
import os
import subprocess
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BONFIRE = os.path.join(HERE, "..", "target", "release", "bonfire")
NODES = 2
WAYS = {
    "one worker": ["workers=1"],
    "flat": ["arch=flat", f"parameter_server.num_workers={NODES}"],
    "allreduce": ["arch=allreduce", f"allreduce.num_workers={NODES}"],
}


class Process:
    """A process whose peak is asked for until it ends."""

    def __init__(self, program, arguments, folder):
        self.process = subprocess.Popen([program, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.peak = 0
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while self.process.returncode is None:
            try:
                with open(f"/proc/{self.process.pid}/status") as status:
                    for line in status:
                        if line.startswith("VmHWM:"):
                            self.peak = max(self.peak, int(line.split()[1]))
            except OSError:
                return
            time.sleep(0.02)

    def end(self):
        """The peak in MB."""
        _, errors = self.process.communicate()
        if self.process.returncode != 0:
            raise SystemExit(f"{self.process.args}: {errors}")
        return self.peak / 1000


def measure(program, settings, folder):
    """The peaks of the head and of all nodes; of one process if there are none."""
    arguments = [part for setting in settings for part in ("--set", setting)]
    if settings[-1] in WAYS["one worker"]:
        return [Process(program, ["train", "--quiet", "--out", "run", *arguments], folder).end()]
    head = Process(program, ["head", "--quiet", "--listen", "127.0.0.1:0", "--out", "run", *arguments], folder)
    ticket = head.process.stdout.readline().strip()
    nodes = [Process(program, ["node", ticket], folder) for _ in range(NODES)]
    return [process.end() for process in [head, *nodes]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ways", nargs="*", default=list(WAYS))
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", default=8)
    parser.add_argument("--data", default="{name: digits, train: 64, test: 256}")
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    print("| way | head, MB | nodes, MB |\n|---|---|---|")
    for way in arguments.ways:
        settings = [f"model={arguments.model}", f"data={arguments.data}", f"batch_size={arguments.batch}", "epochs=1"]
        with tempfile.TemporaryDirectory() as folder:
            head, *nodes = measure(os.path.abspath(arguments.program), settings + arguments.set + WAYS[way], folder)
        print(f"| {way} | {head:.0f} | {', '.join(f'{node:.0f}' for node in nodes) or '–'} |", flush=True)


main()
