"""The rules of `bonfire prepare`, written down as plainly as possible, to compare its output with, byte for byte.

    python3 prepare_reference.py OUT [--name value]... INPUT...

reads JSON lines, plain or gzip, and writes train.jsonl, validation.jsonl, test.jsonl and vocabulary.txt into OUT. Needs
nothing but Python.
"""

import argparse
import collections
import gzip
import hashlib
import json
import os
import re

ENGLISH = """
i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself yourselves he him his himself
she she's her hers herself it it's its itself they them their theirs themselves what which who whom this that that'll
these those am is are was were be been being have has had having do does did doing a an the and but if or because as
until while of at by for with about against between into through during before after above below to from up down in out
on off over under again further then once here there when where why how all any both each few more most other some such
no nor not only own same so than too very s t can will just don don't should should've now d ll m o re ve y ain aren
aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't haven haven't isn isn't ma mightn mightn't mustn
mustn't needn needn't shan shan't shouldn shouldn't wasn wasn't weren weren't won won't wouldn wouldn't get would product
' '' 'em 's 'the
""".split()


def stop_words(name):
    if name == "english":
        return set(ENGLISH)
    if name == "none":
        return set()
    with open(name, encoding="utf-8") as file:
        return {line.strip().lower() for line in file if line.strip()}


def clean(text, other, stop):
    """The words of a text, between single spaces."""
    text = re.sub("[^a-zA-Z' ]", " " if other == "space" else "", text)
    return " ".join(word for word in text.lower().split(" ") if word and word not in stop)


def rating(value):
    """A whole number of stars, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        stars = float(value)
    except ValueError:
        return None
    return int(stars) if stars in (1, 2, 3, 4, 5) else None


def first(row, keys):
    for key in keys:
        if key in row:
            return row[key]
    return None


def read(paths, options):
    """Every text with all its ratings."""
    texts = collections.defaultdict(list)
    counts = collections.Counter()
    stop = stop_words(options.stop_words)
    text_keys = [options.text] if options.text else ["reviewText", "text", "review_body"]
    label_keys = [options.label] if options.label else ["overall", "stars", "rating", "star_rating"]
    for path in paths:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            for line in file:
                if not line.strip():
                    continue
                counts["read"] += 1
                try:
                    row = json.loads(line.decode("utf-8"))
                except ValueError:
                    counts["bad"] += 1
                    continue
                stars = rating(first(row, label_keys)) if isinstance(row, dict) else None
                text = first(row, text_keys) if isinstance(row, dict) else None
                if stars is None or not isinstance(text, (str, type(None))):
                    counts["bad"] += 1
                    continue
                cleaned = clean(text or "", options.other, stop)
                if not cleaned:
                    counts["empty"] += 1
                    continue
                texts[cleaned].append(stars)
    return texts, counts


def mode(ratings):
    counts = collections.Counter(ratings)
    return min(counts, key=lambda stars: (-counts[stars], stars))


def part(text, options):
    digest = hashlib.sha256(str(options.seed).encode() + b"\0" + text.encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    if share < options.test:
        return "test"
    return "validation" if share < options.test + options.validation else "train"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--text")
    parser.add_argument("--label")
    parser.add_argument("--other", default="delete")
    parser.add_argument("--stop-words", default="english")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--test", type=float, default=0.1)
    parser.add_argument("--validation", type=float, default=0.1)
    parser.add_argument("--vocabulary", default="train")
    parser.add_argument("--words", type=int, default=10000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--classes", type=int)
    options = parser.parse_args()

    texts, counts = read(options.inputs, options)
    parts = {text: part(text, options) for text in texts}
    occurrences = collections.Counter()
    for text, name in parts.items():
        if name == "train" or options.vocabulary == "all":
            occurrences.update(text.split(" "))
    vocabulary = sorted(occurrences, key=lambda word: (-occurrences[word], word.encode()))[: options.words]
    numbers = {word: number for number, word in enumerate(vocabulary, 3)}

    os.makedirs(options.out)
    with open(os.path.join(options.out, "vocabulary.txt"), "w", newline="\n") as file:
        file.writelines(word + "\n" for word in vocabulary)
    files = {name: open(os.path.join(options.out, name + ".jsonl"), "w", newline="\n") for name in
             ("train", "validation", "test")}
    for text in sorted(texts, key=str.encode):
        ids = [numbers.get(word, 2) for word in text.split(" ")][: options.length]
        ids += [1] * (options.length - len(ids))
        stars = mode(texts[text])
        if options.classes == 2:
            stars = 1 if stars >= 4 else 0
        row = {"text": text, "stars": stars, "ids": ids}
        files[parts[text]].write(json.dumps(row, separators=(",", ":")) + "\n")
    for file in files.values():
        file.close()
    counts["texts"] = len(texts)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
