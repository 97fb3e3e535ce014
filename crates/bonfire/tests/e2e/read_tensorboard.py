"""Reads the TensorBoard files of a run with TensorBoard itself, and compares them with the run's log."""

import json
import math
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

run = sys.argv[1]
reader = EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={"scalars": 0, "histograms": 0})
reader.Reload()

# What the log says, without what a resume took back.
expected = {}
for line in open(os.path.join(run, "events.jsonl"), encoding="utf-8"):
    event = json.loads(line)
    kind = event["event"]
    if kind == "resumed":
        for tag in expected:
            expected[tag] = {step: value for step, value in expected[tag].items() if step <= event["round"]}
    names = {
        "progress": {"loss": "loss/training", "accuracy": "accuracy/training", "lr": "lr",
                     "samples_per_s": "samples_per_s"},
        "evaluated": {"loss": "loss/test", "accuracy": "accuracy/test", "macro_f1": "macro_f1/test"},
        "epoch_ended": {"loss": "loss/epoch", "accuracy": "accuracy/epoch"},
    }.get(kind, {})
    for key, tag in names.items():
        expected.setdefault(tag, {})[event["round"]] = event[key]

points = 0
for tag, values in expected.items():
    found = {scalar.step: scalar.value for scalar in reader.Scalars(tag)}
    assert len(found) == len(reader.Scalars(tag)), f"{tag}: a step is there twice"
    assert sorted(found) == sorted(values), f"{tag}: steps {sorted(set(found) ^ set(values))}"
    for step, value in values.items():
        assert math.isclose(found[step], value, rel_tol=1e-6), f"{tag} at {step}: {found[step]}, not {value}"
    points += len(values)

tags = reader.Tags()
assert any(tag.startswith("phases/") for tag in tags["scalars"]), tags["scalars"]
assert any(tag.startswith("machines/") for tag in tags["scalars"]), tags["scalars"]

layers = [node.name for node in reader.Graph().node]
assert layers[0] == "input" and layers[-1] == "loss" and "conv1/weight" in layers, layers
assert all("_output_shapes" in node.attr for node in reader.Graph().node)

assert len(tags["histograms"]) >= 10, tags["histograms"]
for tag in tags["histograms"]:
    for histogram in reader.Histograms(tag):
        value = histogram.histogram_value
        assert value.num == sum(value.bucket) > 0 and value.min <= value.max, tag


def content(tag):
    metadata = reader.SummaryMetadata(tag)
    return plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)


given = content("_hparams_/session_start_info").session_start_info.hparams
assert given["batch_size"].number_value == 32 and given["arch"].string_value == "single", given
assert len(content("_hparams_/experiment").experiment.hparam_infos) == len(given)
assert content("_hparams_/session_end_info").session_end_info.status == 1
print(f"TensorBoard read {points} points of {len(expected)} curves as the log has them, "
      f"{len(tags['histograms'])} histograms, {len(layers)} nodes of the graph, {len(given)} hyperparameters")

# The same through TensorBoard's other reader, its data server, and its own pages.
command = [sys.executable, "-m", "tensorboard.main", "--logdir", run, "--port", "0", "--load_fast", "true"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
try:
    address = None
    while address is None:
        line = server.stderr.readline()
        assert line, "TensorBoard ended"
        address = re.search(r"http://\S+", line)
    address = address.group(0).rstrip("/")
    values, deadline, found = expected["loss/test"], time.monotonic() + 60, []
    while len(found) < len(values) and time.monotonic() < deadline:
        time.sleep(0.5)
        query = urllib.parse.urlencode({"run": "tensorboard", "tag": "loss/test"})
        try:
            with urllib.request.urlopen(f"{address}/data/plugin/scalars/scalars?{query}", timeout=10) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError:
            pass  # Nothing is read yet.
    assert [step for _, step, _ in found] == sorted(values), f"{found}, not {values}"
    assert all(math.isclose(value, values[step], rel_tol=1e-6) for _, step, value in found)
finally:
    server.terminate()
    server.wait(20)
print(f"its data server has {len(found)} evaluations, too")
