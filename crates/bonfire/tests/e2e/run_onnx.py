"""Runs an exported model with onnxruntime on what `bonfire predict` was asked, and compares."""

import gzip
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

folder = pathlib.Path(sys.argv[1])
onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
name = session.get_inputs()[0].name
found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def images():
    path = folder / "files/t10k-images-idx3-ubyte"
    data = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
    size = np.frombuffer(data[8:16], ">i4")
    return np.frombuffer(data, np.uint8, offset=16).reshape(-1, 1, *size).astype(np.float32) / 255


def numbers(texts):
    known = {word: i + 2 for i, word in enumerate((folder / "run/vocabulary.txt").read_text().splitlines())}
    rows = [[known.get(word.lower(), 1) for word in text] for text in texts]
    words = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, text in zip(words, rows):
        row[: len(text)] = text
    return words


if "value" in found[0]:
    rows = np.array([[float(cell) for cell in line["input"].split(",")] for line in found], np.float32)
    shape = [size if isinstance(size, int) else -1 for size in session.get_inputs()[0].shape]
    scores = session.run(None, {name: rows.reshape(shape)})[0][:, 0]
    expect = np.array([line["value"] for line in found], np.float32)
elif name == "input":
    scores = session.run(None, {name: images()})[0]
    expect = np.array([line["scores"] for line in found], np.float32)
    one = session.run(None, {name: images()[:1]})[0]
    assert np.abs(one - scores[:1]).max() < 1e-4, "another size of the batch"
elif "tags" in found[0]:
    probabilities = softmax(session.run(None, {name: numbers([line["words"] for line in found])})[0]).max(-1)
    scores = np.concatenate([row[: len(line["words"])] for row, line in zip(probabilities, found)])
    expect = np.concatenate([line["probabilities"] for line in found])
else:
    texts = [[word.strip(".") for word in line["input"].split() if word.strip(".")] for line in found]
    scores = session.run(None, {name: numbers(texts)})[0]
    expect = np.array([line["scores"] for line in found], np.float32)
off = np.abs(scores - expect).max() / max(1.0, np.abs(expect).max())
assert off < 1e-5, off
print(f"onnxruntime is off by {off:.1e}")
