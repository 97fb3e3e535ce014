"""Files as the libraries that people use write them: make_files.py FOLDER. Needs numpy, pillow and pyarrow."""
import csv
import json
import os
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

os.chdir(sys.argv[1])
chance = np.random.default_rng(7)

# The same 8 × 6 pictures as arrays, and as files of several kinds.
pictures = {}
for part, count in [("train", 40), ("test", 10)]:
    images, labels = [], []
    for label, name in enumerate(["bright", "dark"]):
        os.makedirs(f"photos/{part}/{name}")
        for i in range(count):
            image = chance.integers(0, 128, (8, 6, 3), dtype=np.uint8) + np.uint8(128 * (1 - label))
            kind = ["RGB", "RGBA", "L", "P"][i % 4]
            saved = Image.fromarray(image).convert(kind)
            saved.save(f"photos/{part}/{name}/{i:03}.png", optimize=i % 3 == 0)
            images.append(np.asarray(saved.convert("RGB")))
            labels.append(label)
    pictures[f"x_{part}"], pictures[f"y_{part}"] = np.stack(images), np.array(labels)
np.savez("plain.npz", **pictures)
np.savez_compressed("packed.npz", **pictures)
os.makedirs("arrays")
for name, array in pictures.items():
    np.save(f"arrays/{name}.npy", array)

# JPEGs: baseline and progressive, in colour and gray, of several sizes.
for i in range(24):
    os.makedirs(f"jpegs/{'ab'[i % 2]}", exist_ok=True)
    image = Image.fromarray(chance.integers(0, 255, (20 + i, 30, 3), dtype=np.uint8))
    image.convert("L" if i % 5 == 0 else "RGB").save(f"jpegs/{'ab'[i % 2]}/{i:02}.jpg", progressive=i % 3 == 0)

# The same reviews as Parquet, CSV and JSON lines.
words = "a fine and quiet thing, \"really\" it was\nnever boring café bad dull".split(" ")
rows = [{"review": " ".join(chance.choice(words, 9)), "stars": int(chance.integers(1, 6))} for _ in range(120)]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "reviews.parquet", row_group_size=50)
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), "packed.parquet", compression="zstd")
with open("reviews.csv", "w", newline="", encoding="utf-8") as file:
    writer = csv.DictWriter(file, ["review", "stars"])
    writer.writeheader()
    writer.writerows(rows)
with open("reviews.jsonl", "w", encoding="utf-8") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
