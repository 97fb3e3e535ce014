"""Runs an exported model with PyTorch on what `bonfire predict` was asked, and compares."""

import gzip
import json
import pathlib
import struct
import sys

try:
    import torch
except ImportError:
    print("SKIPPED: no torch, so no module was run")
    sys.exit(0)

folder = pathlib.Path(sys.argv[1])
found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]


def weights():
    """Of a file of safetensors: a length, a head in JSON, and numbers."""
    data = (folder / "weights.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    head.pop("__metadata__", None)
    for name, tensor in head.items():
        start, end = tensor["data_offsets"]
        values = torch.frombuffer(bytearray(data[8 + length + start:8 + length + end]), dtype=torch.float32)
        yield name, values.reshape(tensor["shape"])


def images():
    path = folder / "files/t10k-images-idx3-ubyte"
    data = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
    size = struct.unpack(">ii", data[8:16])
    return torch.frombuffer(bytearray(data[16:]), dtype=torch.uint8).reshape(-1, 1, *size).float() / 255


def numbers(texts):
    known = {word: i + 2 for i, word in enumerate((folder / "run/vocabulary.txt").read_text().splitlines())}
    rows = [[known.get(word.lower(), 1) for word in text] for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


space = {}
exec((folder / "module.py").read_text(), space)
model = space["model"]
missing, unexpected = model.load_state_dict(dict(weights()), strict=False)
assert not unexpected and all("num_batches" in name for name in missing), (missing, unexpected)
model.eval()
torch.set_num_threads(1)
with torch.no_grad():
    if "value" in found[0]:
        rows = [[float(cell) for cell in line["input"].split(",")] for line in found]
        scores = model(torch.tensor(rows).reshape(len(rows), -1, 1, 1))[:, 0]
        expect = torch.tensor([line["value"] for line in found])
    elif "tags" in found[0]:
        probabilities = model(numbers([line["words"] for line in found])).softmax(-1).max(-1).values
        scores = torch.cat([row[:len(line["words"])] for row, line in zip(probabilities, found)])
        expect = torch.cat([torch.tensor(line["probabilities"]) for line in found])
    else:
        texts = [[word.strip(".") for word in line["input"].split() if word.strip(".")] for line in found]
        scores = model(numbers(texts) if (folder / "run/vocabulary.txt").exists() else images())
        expect = torch.tensor([line["scores"] for line in found])
assert scores.shape == expect.shape, (scores.shape, expect.shape)
off = ((scores - expect).abs().max() / expect.abs().max().clamp(min=1.0)).item()
assert off < 1e-5, off
print(f"PyTorch is off by {off:.1e}")
