#!/usr/bin/env python3
"""Measures training steps of Bonfire and of PyTorch side by side and writes the table of docs/performance.md.

    python3 -m venv venv && venv/bin/pip install torch
    cargo build --release
    venv/bin/python bench/compare.py                  every model of the table, both sides, about 20 minutes
    venv/bin/python bench/compare.py lenet5 tagger    some of them; prints the rows, writes nothing

Both sides take turns several times and the best of each counts: machines are shared and noisy. PyTorch gets every chance:
one thread: plain, channels_last, torch.compile; two cores: the same with two threads, and DDP with two processes.
"""
import json
import os
import platform
import subprocess
import sys
import time

ROUNDS = 3
SECONDS = 2.0
HERE = os.path.dirname(os.path.abspath(__file__))
BONFIRE = os.path.join(HERE, "..", "target", "release", "bonfire")
MODELS = ["tagger", "sentiment", "mlp", "lenet5", "lenet", "resnet18", "vgg11"]
IMAGES = {"lenet5", "lenet", "resnet18", "vgg11"}


# --- the PyTorch side, run in a process of its own -------------------------------------------------------------------

def network(name):
    """The model, a batch of its inputs and targets, its loss and its optimiser."""
    import torch
    from torch import nn

    class Words(nn.Module):
        """An embedding, a recurrent stack and a head on every word or on the last."""
        def __init__(self, words, cell, hidden, dropout, around, head, last):
            super().__init__()
            self.embedding, self.rnn = nn.Embedding(words, 100, padding_idx=0), cell(100, hidden, 2, dropout=dropout, batch_first=True)
            self.around, self.head, self.last = nn.Dropout(around), head, last

        def forward(self, x):
            states = self.rnn(self.around(self.embedding(x)))[0]
            return self.head(states[:, -1]).squeeze(1) if self.last else self.head(self.around(states)).flatten(0, 1)

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                                      nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    def stack(sizes):
        pairs = list(zip(sizes, sizes[1:]))
        return [layer for i, (a, b) in enumerate(pairs) for layer in ([nn.Linear(a, b)] + [nn.ReLU()] * (i + 1 < len(pairs)))]

    def images(batch, channels, side):
        return torch.rand(batch, channels, side, side), torch.randint(0, 10, (batch,))

    cross, binary = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
    adam, sgd, plain = ("Adam", dict(lr=1e-3)), ("SGD", dict(lr=1e-2, momentum=0.9)), ("SGD", dict(lr=1e-2))
    if name == "tagger":
        model = Words(9000, nn.GRU, 128, 0.25, 0.25, nn.Linear(128, 17), last=False)
        return model, 128, lambda b: (torch.randint(1, 9000, (b, 32)), torch.randint(0, 17, (b * 32,))), cross, adam
    if name == "sentiment":
        model = Words(10003, nn.LSTM, 32, 0.5, 0.0, nn.Sequential(*stack([32, 32, 1])), last=True)
        return model, 128, lambda b: (torch.randint(1, 10003, (b, 100)), torch.rand(b).round()), binary, sgd
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), *stack([3072, 1024, 512, 256, 128, 64, 32, 10])), 64, lambda b: images(b, 3, 32), cross, plain
    if name == "lenet5":
        model = nn.Sequential(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
                              nn.Linear(256, 120), nn.Tanh(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
        return model, 32, lambda b: images(b, 1, 28), cross, adam
    if name == "lenet":
        model = nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
                              nn.Linear(800, 500), nn.Linear(500, 10))
        return model, 128, lambda b: images(b, 1, 28), cross, sgd
    if name == "resnet18":
        widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        model = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *(Residual(*w) for w in widths),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
        return model, 32, lambda b: images(b, 3, 32), cross, sgd
    layers, inputs = [], 3
    for outputs in [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0]:
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()] if outputs else [nn.MaxPool2d(2)]
        inputs = outputs or inputs
    head = [nn.Flatten(), nn.Dropout(), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers, *head), 32, lambda b: images(b, 3, 32), cross, sgd


def torch_step(name, threads, variant, rank=0, processes=1):
    """Milliseconds of a step, the best of three repeats."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, batch, data, loss, (rule, options) = network(name)
    x, y = data(batch // processes)
    if "channels_last" in variant:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    net = model
    if processes > 1:
        net = torch.nn.parallel.DistributedDataParallel(model)
    elif "compile" in variant:
        net = torch.compile(model)
    optimizer = getattr(torch.optim, rule)(model.parameters(), **options)

    def steps(count):
        begun = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            loss(net(x), y).backward()
            optimizer.step()
        return (time.perf_counter() - begun) / count

    steps(2)
    one = torch.tensor([steps(2)])
    if processes > 1:
        torch.distributed.all_reduce(one, torch.distributed.ReduceOp.MAX)
    count = max(2, int(SECONDS / 3 / one.item()))
    return 1e3 * min(steps(count) for _ in range(3))


def torch_ddp(rank, name, processes):
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29519", GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=processes)
    ms = torch_step(name, 1, "", rank, processes)
    if rank == 0:
        print(json.dumps(ms), flush=True)
    dist.destroy_process_group()


def torch_main(name, how):
    if how == "ddp":
        import torch.multiprocessing as mp
        mp.spawn(torch_ddp, args=(name, 2), nprocs=2)
    else:
        threads, _, variant = how.partition(":")
        print(json.dumps(torch_step(name, int(threads), variant)), flush=True)


# --- both sides ------------------------------------------------------------------------------------------------------

def last_json(command):
    """What a command printed last, and the most memory it had."""
    done = subprocess.run(["/usr/bin/env", *command], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return json.loads(lines[-1]) if done.returncode == 0 and lines else None


def measure(name):
    """The best milliseconds of both sides with one thread and with two cores."""
    variants = ["", "compile"] + (["channels_last", "channels_last+compile"] if name in IMAGES else [])
    ways = {1: [f"1:{v}" for v in variants], 2: [f"2:{v}" for v in variants] + ["ddp"]}
    best = {}
    for _ in range(ROUNDS):
        for threads in (1, 2):
            speed = last_json([BONFIRE, "bench", "step", "--model", name, "--threads", str(threads), "--seconds", str(SECONDS), "--json"])
            best.setdefault(("bonfire", threads), []).append((speed["ms_per_step"], ""))
            for how in ways[threads]:
                ms = last_json([sys.executable, __file__, "--torch", name, how])
                if ms is not None:
                    best.setdefault(("torch", threads), []).append((ms, how))
    return {key: min(values) for key, values in best.items()}


def row(name):
    best = measure(name)
    cells = [name]
    for threads in (1, 2):
        (ours, _), (theirs, how) = best["bonfire", threads], best["torch", threads]
        way = how.partition(":")[2] or ("DDP" if how == "ddp" else "plain")
        cells += [f"{ours:.2f}", f"{theirs:.2f} ({way})", f"**{theirs / ours:.2f}×**"]
    return "| " + " | ".join(cells) + " |"


def processor():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


# What lies between these lines of the page is written by this script, the rest by hand.
BEGIN, END = "<!-- begin: bench/compare.py -->\n", "<!-- end: bench/compare.py -->\n"

HEAD = """A training step is forward, backward and update on one fixed random batch. Milliseconds, the best of {rounds} turns of both sides on one
machine ({cpu}, {cores} cores, PyTorch {torch}); PyTorch's figure is the best of plain, channels_last and `torch.compile`, and for two cores also of DDP.
`bench/compare.py` made this table; single figures vary by some 10 %.

| model | Bonfire, 1 thread | PyTorch, 1 thread | faster | Bonfire, 2 threads | PyTorch, 2 cores | faster |
|---|---|---|---|---|---|---|
"""


def main():
    names = sys.argv[1:] or MODELS
    rows = []
    for name in names:
        rows.append(row(name))
        print(rows[-1], flush=True)
    if not sys.argv[1:]:
        import torch
        head = HEAD.format(rounds=ROUNDS, cpu=processor(), cores=os.cpu_count(), torch=torch.__version__.partition("+")[0])
        page = os.path.join(HERE, "..", "docs", "performance.md")
        with open(page) as file:
            before, _, rest = file.read().partition(BEGIN)
        _, _, after = rest.partition(END)
        with open(page, "w") as file:
            file.write(before + BEGIN + head + "\n".join(rows) + "\n" + END + after)


if __name__ == "__main__":
    torch_main(*sys.argv[2:]) if sys.argv[1:2] == ["--torch"] else main()
