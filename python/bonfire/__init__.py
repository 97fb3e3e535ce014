"""Trains by the program ``bonfire``, and reads its run folders.

    import bonfire

    run = bonfire.train("run.yml", epochs=3)
    run.summary["accuracy"]
    run.events("progress")["loss"]        # a column: as long as all others of this kind of event
    run.state_dict()["conv1.weight"]      # needs numpy; names and shapes are PyTorch's

The module only starts the program and reads files; it works on run folders of other machines as well.
"""

import json
import os
import shutil
import struct
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

__all__ = ["Failed", "Run", "program", "train"]

# How safetensors names what numpy has too. bfloat16 is none of numpy's: it is widened to float32.
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


class Failed(RuntimeError):
    """The program ended with an error. ``code`` is its exit code: 1 the run failed, 2 the input was wrong."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def program():
    """The path of the program: the one that was installed with this module, or else the first in ``PATH``."""
    for scheme in (None, f"{os.name}_user"):
        scripts = sysconfig.get_path("scripts") if scheme is None else sysconfig.get_path("scripts", scheme)
        path = Path(scripts, "bonfire.exe" if os.name == "nt" else "bonfire")
        if path.is_file():
            return path
    found = shutil.which("bonfire")
    if found is None:
        raise FileNotFoundError("there is no program `bonfire`: pip install bonfire-train, or put it into PATH")
    return Path(found)


def train(run_file=None, *, out=None, workers=None, resume=None, quiet=False, **settings):
    """Trains on this machine, and returns the :class:`Run`.

    ``run_file`` is the path of a run file; without one, it is lenet5 on the built-in digits. Further keywords change
    keys of it, as ``--set`` does: ``epochs=3``, ``model="mlp"``, ``optimizer={"adam": {"lr": 0.01}}``. ``out`` is the
    run folder, by default a new one below ``runs``; ``resume`` is that of a run to go on with.

    Raises :class:`Failed` with what the program said if it ends with an error.
    """
    arguments = ["train", *([] if run_file is None else [os.fspath(run_file)])]
    for flag, value in (("--workers", workers), ("--resume", resume)):
        arguments += [] if value is None else [flag, str(value)]
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    if out is None:
        out = resume if resume is not None else _new_folder(Path("runs"))
    if resume is None:
        arguments += ["--out", os.fspath(out)]
    if quiet:
        arguments.append("--quiet")
    with tempfile.TemporaryFile() as said:
        code = subprocess.run([program(), *arguments], stderr=said if quiet else None, check=False).returncode
        said.seek(0)
        message = said.read().decode(errors="replace").strip()
    if code != 0:
        raise Failed(code, message or f"bonfire ended with exit code {code}")
    return Run(out)


def _new_folder(parent):
    """A folder that is not there yet, below ``parent``, named by the time as the program does. The program makes it."""
    name = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime()) + "-python"
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder


class Run:
    """A run folder, whether its run goes on or is over. Everything is read anew when it is asked for."""

    def __init__(self, path):
        self.path = Path(path)
        if not (self.path / "events.jsonl").is_file():
            raise FileNotFoundError(f"{self.path} is no run folder: it has no events.jsonl")

    def __repr__(self):
        return f"bonfire.Run({str(self.path)!r})"

    @property
    def summary(self):
        """How the run ended, as a dict; ``None`` while it goes on."""
        path = self.path / "summary.json"
        return json.loads(path.read_text()) if path.is_file() else None

    def log(self):
        """All events in order, each a dict. What a resume has taken back is left out; so is a line half written."""
        events = []
        with open(self.path / "events.jsonl", "rb") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if event.get("event") == "resumed":
                    events = [earlier for earlier in events if earlier.get("round", 0) <= event["round"]]
                events.append(event)
        return events

    def events(self, kind):
        """The events of one kind as columns: a dict of lists of one length, as ``pandas.DataFrame`` takes it.

        Kinds are ``progress``, ``epoch_ended``, ``evaluated``, ``checkpointed`` and the others of docs/seeing.md. What
        an event has no value for, or one that is no number, is ``None``.
        """
        rows = [event for event in self.log() if event.get("event") == kind]
        names = dict.fromkeys(name for row in rows for name in row if name != "event")
        return {name: [row.get(name) for row in rows] for name in names}

    def checkpoints(self):
        """The files with parameters, the newest last."""
        return sorted((self.path / "checkpoints").glob("step-*.safetensors"))

    def state_dict(self, checkpoint=None):
        """The parameters as arrays of numpy by PyTorch's names: of the newest checkpoint, or of the file given.

        ``{name: torch.from_numpy(array) for name, array in run.state_dict().items()}`` is what PyTorch loads.
        """
        if checkpoint is None:
            checkpoints = self.checkpoints()
            if not checkpoints:
                raise FileNotFoundError(f"{self.path} has no checkpoint yet")
            checkpoint = checkpoints[-1]
        return _read_safetensors(checkpoint)


def _read_safetensors(path):
    """The tensors of a file: eight bytes with the length of a head in JSON, the head, and the values in a row."""
    import numpy

    content = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    head = json.loads(content[8 : 8 + length])
    head.pop("__metadata__", None)
    tensors = {}
    for name, tensor in head.items():
        start, end = (8 + length + offset for offset in tensor["data_offsets"])
        values = numpy.frombuffer(content[start:end], dtype=_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        if tensor["dtype"] == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        tensors[name] = values.copy()
    return tensors
