"""Opens the newest checkpoint of a run and checks it: python.py MODEL RUN_DIR DATA_DIR

Without torch: names, shapes and types. With torch: loss and accuracy on the test data as in summary.json.
"""

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


def shapes_of_rnn(gates, inputs, hidden):
    shapes = {}
    for layer in range(2):
        shapes[f"rnn.weight_ih_l{layer}"] = (gates * hidden, hidden if layer else inputs)
        shapes[f"rnn.weight_hh_l{layer}"] = (gates * hidden, hidden)
        shapes[f"rnn.bias_ih_l{layer}"] = (gates * hidden,)
        shapes[f"rnn.bias_hh_l{layer}"] = (gates * hidden,)
    return shapes


def shapes_of_linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def expected(model, rows, tags):
    if model == "lenet5":
        convolutions = {"conv1.weight": (6, 1, 5, 5), "conv1.bias": (6,), "conv2.weight": (16, 6, 5, 5), "conv2.bias": (16,)}
        return (
            convolutions
            | shapes_of_linear("fc1", 256, 120)
            | shapes_of_linear("fc2", 120, 84)
            | shapes_of_linear("fc3", 84, 10)
        )
    embedding = {"embedding.weight": (rows, 100)}
    if model == "tagger":
        return embedding | shapes_of_rnn(3, 100, 128) | shapes_of_linear("fc", 128, tags)
    return embedding | shapes_of_rnn(4, 100, 32) | shapes_of_linear("fc1", 32, 32) | shapes_of_linear("fc2", 32, 1)


def read_sentences(path):
    return [
        [line.split("\t") for line in sentence.splitlines()]
        for sentence in path.read_text().split("\n\n")
        if sentence.strip()
    ]


def texts(model, run, data):
    """Each sample as word numbers, and its targets."""
    words = (run / "vocabulary.txt").read_text().splitlines()
    numbers = {word: i + 2 for i, word in enumerate(words)}
    if model == "tagger":
        halves = [read_sentences(data / f"{half}.conllu") for half in ("train", "test")]
        tags = sorted({row[3] for half in halves for sentence in half for row in sentence})
        samples = [
            ([numbers.get(row[1].lower(), 1) for row in sentence], [tags.index(row[3]) for row in sentence])
            for sentence in halves[1]
        ]
        return len(words) + 2, len(tags), samples
    samples = []
    for line in (data / "test.jsonl").read_text().splitlines():
        review = json.loads(line)
        found = re.findall(r"[a-z']+", review["reviewText"].lower())
        found = [word for word in (word.strip("'") for word in found) if word][:100]
        samples.append(([numbers.get(word, 1) for word in found], [float(review["overall"] >= 4)]))
    return len(words) + 2, 1, samples


def images(data):
    with gzip.open(data / "t10k-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(data / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return pixels.astype(np.float32) / 255, labels.astype(np.int64)


def measure_in_torch(model, file, rows, tags, samples, data):
    import torch
    from safetensors.torch import load_file as load_torch
    from torch import nn
    from torch.nn import functional as F

    net = nn.Module()
    if model == "lenet5":
        net.conv1, net.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        net.fc1, net.fc2, net.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)
    else:
        net.embedding = nn.Embedding(rows, 100)
        rnn, hidden = (nn.GRU, 128) if model == "tagger" else (nn.LSTM, 32)
        net.rnn = rnn(100, hidden, 2, batch_first=True)
        if model == "tagger":
            net.fc = nn.Linear(hidden, tags)
        else:
            net.fc1, net.fc2 = nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
    net.load_state_dict(load_torch(file), strict=True)

    loss = right = answers = 0.0
    with torch.no_grad():
        if model == "lenet5":
            pixels, labels = map(torch.from_numpy, images(data))
            x = F.avg_pool2d(net.conv1(pixels).tanh(), 2)
            x = F.avg_pool2d(net.conv2(x).tanh(), 2)
            x = net.fc3(net.fc2(net.fc1(x.flatten(1)).tanh()).relu())
            return F.cross_entropy(x, labels).item(), (x.argmax(1) == labels).float().mean().item()
        for words, targets in samples:
            out, _ = net.rnn(net.embedding(torch.tensor([words])))
            if model == "tagger":
                scores, targets = net.fc(out[0]), torch.tensor(targets)
                loss += F.cross_entropy(scores, targets, reduction="sum").item()
                right += (scores.argmax(1) == targets).sum().item()
            else:
                score, target = net.fc2(net.fc1(out[0, -1]).relu()), torch.tensor(targets)
                loss += F.binary_cross_entropy_with_logits(score, target).item()
                right += ((score >= 0) == (target > 0)).sum().item()
            answers += len(targets)
    return loss / answers, right / answers


def main():
    model, run, data = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    file = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    rows, tags, samples = (0, 0, []) if model == "lenet5" else texts(model, run, data)
    tensors = load_file(file)
    found = {name: tensor.shape for name, tensor in tensors.items()}
    assert found == expected(model, rows, tags), f"{found} is not {expected(model, rows, tags)}"
    assert all(tensor.dtype == np.float32 and np.isfinite(tensor).all() for tensor in tensors.values())
    print(f"{model}: {len(found)} tensors as expected")
    try:
        import torch  # noqa: F401
    except ImportError:
        print(f"SKIPPED: {model} was not measured in torch, which is not there")
        return
    loss, accuracy = measure_in_torch(model, file, rows, tags, samples, data)
    summary = json.loads((run / "summary.json").read_text())
    for name, ours, theirs in [("loss", summary["eval_loss"], loss), ("accuracy", summary["accuracy"], accuracy)]:
        assert abs(ours - theirs) < 1e-4, f"{model}: the {name} is {ours} here and {theirs} in torch"
    print(f"{model}: loss {loss:.6f} and accuracy {accuracy:.4f} also in torch")


main()
