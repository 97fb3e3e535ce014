"""Loads the weights of a run into the module that Bonfire printed for it, and lets it compute something."""

import pathlib
import sys

try:
    import torch
except ImportError:
    print("SKIPPED: no torch, so no module was loaded")
    sys.exit(0)
from safetensors.torch import load_file

folder = pathlib.Path(sys.argv[1])
space = {}
exec((folder / "module.py").read_text(), space)
model = space["model"]
weights = load_file(folder / "weights.safetensors")
names = {name: value.shape for name, value in model.state_dict().items() if "num_batches" not in name}
assert names == {name: value.shape for name, value in weights.items()}, (names, weights.keys())
model.load_state_dict(weights)
model.eval()
first = next(iter(model.children()))
if isinstance(first, torch.nn.Embedding):
    x = torch.randint(1, first.num_embeddings, (3, 7))
    x[1, 4:] = 0
else:
    x = torch.rand(3, 1, 28, 28)
scores = model(x)
assert torch.isfinite(scores).all()
print(f"{len(names)} tensors, scores {tuple(scores.shape)}")
