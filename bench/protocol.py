#!/usr/bin/env python3
"""Part-of-speech tagging by the protocol of the tagging project, with several seeds: Bonfire, and PyTorch beside it.

    bench/protocol.py --ewt FOLDER [--seeds 5] [--epochs 5] [--who bonfire,torch]

FOLDER holds train.conllu, dev.conllu and test.conllu, each with or without .gz. Embedding of 100, two GRU layers of 128,
dropout of 0.25, Adam with a rate of 0.001, 128 sentences a batch, words that occur twice. The parameters with the least
validation loss are kept, and measured on the test half once. One process with one thread on both sides, so that neither
depends on the machine. All weights begin as the project has them, with a deviation of 0.1 and padding at zero, on both
sides; accuracies are over all words. Prints a line of JSON for each seed, and the mean and deviation of each side.

Bonfire is taken from target/release; PyTorch needs torch, for example in a virtual environment.
"""
import argparse
import copy
import gzip
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")


def bonfire(args):
    """One sweep over the seeds; what its runs found on the test half."""
    with tempfile.TemporaryDirectory() as folder:
        run = {
            "model": {"tagger": {"embedding": 100, "hidden": 128, "layers": 2, "cell": "gru", "dropout": 0.25}},
            "data": {"name": os.path.abspath(args.ewt), "min_frequency": 2, "max_words": 100000},
            "optimizer": {"adam": {"lr": 0.001}},
            "batch_size": 128, "epochs": args.epochs, "validation": "dev", "best_by": "loss",
            "workers": 1, "threads": 1, "checkpoint_every": "never", "report": False,
        }
        with open(os.path.join(folder, "sweep.yml"), "w", encoding="utf-8") as f:
            json.dump({"run": run, "seeds": args.seeds}, f)
        out = os.path.join(folder, "out")
        subprocess.run([BONFIRE, "sweep", os.path.join(folder, "sweep.yml"), "--jobs", "1", "--quiet", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "table.json"), encoding="utf-8") as f:
            runs = json.load(f)["runs"]
        for one in runs:
            with open(os.path.join(out, "runs", one["name"], "summary.json"), encoding="utf-8") as f:
                summary = json.load(f)
            yield {"seed": one["seed"], "test_accuracy": summary["accuracy"], "test_loss": summary["eval_loss"],
                   "validation_loss": summary["validation_loss"], "best_round": summary["best_round"],
                   "seconds": summary["seconds"]}


def sentences(folder, part):
    path = os.path.join(folder, f"{part}.conllu")
    opened = open(path, encoding="utf-8") if os.path.exists(path) else gzip.open(path + ".gz", "rt", encoding="utf-8")
    words, tags = [], []
    with opened as lines:
        for line in lines:
            cells = line.rstrip("\n").split("\t")
            if line.strip() == "":
                if words:
                    yield words, tags
                words, tags = [], []
            elif not line.startswith("#") and cells[0].isdigit():
                words.append(cells[1].lower())
                tags.append(cells[3])
    if words:
        yield words, tags


def numbered(args):
    """Word 0 is padding, 1 is unknown; tag -1 does not count."""
    parts = {part: list(sentences(args.ewt, part)) for part in ["train", "dev", "test"]}
    counts = Counter(word for words, _ in parts["train"] for word in words)
    number = {word: i + 2 for i, word in enumerate(sorted(w for w, count in counts.items() if count >= 2))}
    tags = {tag: i for i, tag in enumerate(sorted({tag for part in parts.values() for _, ts in part for tag in ts}))}
    data = {name: [([number.get(w, 1) for w in words], [tags[t] for t in ts]) for words, ts in part]
            for name, part in parts.items()}
    return data, len(number) + 2, len(tags)


def torch_runs(args):
    import torch
    from torch import nn
    torch.set_num_threads(1)
    data, words, tags = numbered(args)

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(words, 100, padding_idx=0)
            self.rnn = nn.GRU(100, 128, num_layers=2, dropout=0.25, batch_first=True)
            self.drop, self.out = nn.Dropout(0.25), nn.Linear(128, tags)

        def forward(self, x):
            return self.out(self.drop(self.rnn(self.drop(self.embed(x)))[0])).flatten(0, 1)

    def batch(some):
        longest = max(len(ws) for ws, _ in some)
        x = torch.tensor([ws + [0] * (longest - len(ws)) for ws, _ in some])
        y = torch.tensor([ts + [-1] * (longest - len(ts)) for _, ts in some]).flatten()
        return x, y

    def measure(model, part):
        model.eval()
        loss = right = count = 0
        ordered = sorted(data[part], key=lambda one: len(one[0]))
        with torch.no_grad():
            for i in range(0, len(ordered), 128):
                x, y = batch(ordered[i:i + 128])
                scores, known = model(x), y >= 0
                loss += nn.functional.cross_entropy(scores, y, ignore_index=-1, reduction="sum").item()
                right += (scores.argmax(1)[known] == y[known]).sum().item()
                count += known.sum().item()
        return loss / count, right / count

    for seed in range(1, args.seeds + 1):
        started = time.time()
        torch.manual_seed(seed)
        chance = random.Random(seed)
        model = Tagger()
        with torch.no_grad():
            for weights in model.parameters():
                weights.normal_(0, 0.1)
            model.embed.weight[0] = 0
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        best, rounds = None, 0
        for _ in range(args.epochs):
            model.train()
            order = list(data["train"])
            chance.shuffle(order)
            # Batches of similar length, as torchtext's BucketIterator makes them.
            chunks = [sorted(order[i:i + 1280], key=lambda one: len(one[0])) for i in range(0, len(order), 1280)]
            batches = [chunk[i:i + 128] for chunk in chunks for i in range(0, len(chunk), 128)]
            chance.shuffle(batches)
            for some in batches:
                x, y = batch(some)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y, ignore_index=-1).backward()
                optimizer.step()
                rounds += 1
            loss, _ = measure(model, "dev")
            if best is None or loss < best[0]:
                best = (loss, rounds, copy.deepcopy(model.state_dict()))
        model.load_state_dict(best[2])
        loss, accuracy = measure(model, "test")
        yield {"seed": seed, "test_accuracy": accuracy, "test_loss": loss, "validation_loss": best[0],
               "best_round": best[1], "seconds": time.time() - started}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ewt", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--who", default="bonfire,torch")
    args = parser.parse_args()
    for who in args.who.split(","):
        found = []
        for one in {"bonfire": bonfire, "torch": torch_runs}[who](args):
            found.append(one["test_accuracy"] * 100)
            print(json.dumps({"who": who, **one}), flush=True)
        deviation = statistics.stdev(found) if len(found) > 1 else 0.0
        print(json.dumps({"who": who, "seeds": len(found), "mean": statistics.mean(found), "deviation": deviation}),
              flush=True)


if __name__ == "__main__":
    main()
