#!/usr/bin/env python3
"""How fast raw reviews become training data, against a mapper and a reducer in Python around `sort`, and PySpark.

    bench/prepare.py REVIEWS.jsonl.gz --sizes 0.25,2,8 [--ways bonfire,python,pyspark] [--repeat 3] [--chart FILE.svg]

makes files of so many gigabytes by repeating the reviews, each time with other words in some places so that most texts
differ (with `--ways ''` that is all), and prepares them in each way with the same rules: cleaned, equal texts made one, split, words counted and
numbered, written as JSON lines. What each way writes is compared. A line of JSON is printed for each measurement:
seconds and MB/s by the clock, the seconds of all processors and MB/s of one of them, and the peak of memory, of one
process as the system counts it, of several together as they were seen ten times a second. Ways take turns, and of
several rounds the best counts. Needs nothing but Python; the way `pyspark` needs pyspark, numpy and Java.
"""

import argparse
import collections
import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, "..", "crates", "bonfire", "tests", "e2e")


def make(reviews, path, size, seed=1):
    """Writes about so many bytes of reviews."""
    chance = random.Random(seed)
    opener = gzip.open if reviews.endswith(".gz") else open
    with opener(reviews, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [json.dumps(row.pop("reviewText") or "")[1:-1].split(" ") for row in rows]
    words = [word for text in texts for word in text if word]
    rows = [(text, json.dumps(row)[1:-1]) for text, row in zip(texts, rows)]
    written = 0
    with open(path, "w") as out:
        while written < size:
            written += out.write("".join(perturbed(row, words, chance) for row in chance.choices(rows, k=10000)))


def perturbed(row, words, chance):
    """A review in which about every eighth word is exchanged for one of other reviews."""
    text, others = row
    number = chance.getrandbits(60)
    # One in sixteen stays as it is, so that there are duplicates.
    if number % 16:
        text, places = text.copy(), slice(number % min(8, len(text)), None, 8)
        text[places] = chance.choices(words, k=len(text[places]))
    return (f'{{"reviewText": "{" ".join(text)}", {others}, "reviewerID": "A{number:019d}", '
            f'"asin": "B{number % 10**9:09d}", "unixReviewTime": {10**9 + number % 10**9}}}\n')


def begin_of(larger, path, size):
    """Writes the lines with which a larger file begins."""
    with open(larger, "rb") as rows, open(path, "wb") as out:
        while out.tell() < size:
            os.copy_file_range(rows.fileno(), out.fileno(), int(size) - out.tell())
            out.seek(0, os.SEEK_END)
        rows.seek(out.tell())
        out.write(rows.readline())


def resident(pid):
    """What a process and all below it have in memory together."""
    total = 0
    for pid in descendants(pid):
        try:
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1]) * resource.getpagesize()
        except OSError:
            pass
    return total


def descendants(pid):
    """A process and all below it."""
    pids = [pid]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                pids += [int(child) for child in file.read().split()]
        except OSError:
            pass
    return pids


def processor_seconds(pid):
    """What a process has used so far."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def measured(command, **options):
    """Runs a command: seconds by the clock and of processors, and the peak of memory."""
    start, peak, count, seen = time.monotonic(), 0, 0, {}
    process = subprocess.Popen(command, **options)
    while True:
        done, status, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        count = max(count, len(open(f"/proc/{process.pid}/task/{process.pid}/children").read()))
        peak = max(peak, resident(process.pid))
        seen.update((pid, processor_seconds(pid)) for pid in descendants(process.pid))
        time.sleep(0.1)
    if status != 0:
        sys.exit(f"failed: {command}")
    # Of processes below others the system has the largest; what they had together was seen.
    peak = max(peak, used.ru_maxrss * 1024) if count else used.ru_maxrss * 1024
    # Whoever starts a process and does not wait for it, as PySpark does with Java, is not told what it used.
    return time.monotonic() - start, max(used.ru_utime + used.ru_stime, sum(seen.values())), peak


def by_bonfire(options, path, out, threads, form):
    return measured([options.bonfire, "prepare", path, "-o", out, "--format", form, "--quiet", "--threads",
                     str(threads), "--memory", options.memory], stdout=subprocess.DEVNULL)


def by_python(_, path, out, *__):
    """A mapper and reducers of the same rules, as Hadoop streaming would run them: between them is `sort`."""
    script = os.path.abspath(__file__)
    step = lambda name, *more: " ".join([sys.executable, script, "--step", name, *more])
    os.makedirs(out)
    texts, words = os.path.join(out, "texts.tsv"), os.path.join(out, "vocabulary.txt")
    lines = [
        f"{step('map')} < {path} | sort | {step('reduce')} > {texts}",
        f"{step('count')} < {texts} | sort | {step('sum')} | sort -t'\t' -k1,1nr -k2,2 | sed -n 1,10000p | cut -f2 > {words}",
        f"{step('encode', out)} < {texts}",
    ]
    env = dict(os.environ, LC_ALL="C", PYTHONPATH=REFERENCE, PYTHONUTF8="1")
    result = measured(["bash", "-c", "set -o pipefail; " + " && ".join(lines)], env=env)
    os.remove(texts)
    return result


def by_pyspark(_, path, out, *__):
    script = os.path.abspath(__file__)
    return measured([sys.executable, script, "--step", "pyspark", path, out], stderr=subprocess.DEVNULL,
                    env=dict(os.environ, PYTHONPATH=REFERENCE))


WAYS = {"bonfire": by_bonfire, "python": by_python, "pyspark": by_pyspark}


class Defaults:
    """The options of the reference."""
    other, stop_words, seed, test, validation, length = "delete", "english", 1234, 0.1, 0.1, 100


def step(name, arguments):
    """One step of the way `python`."""
    import prepare_reference as rules
    out = sys.stdout.write
    if name == "map":
        stop = rules.stop_words("english")
        for line in sys.stdin:
            row = json.loads(line)
            text = rules.clean(row["reviewText"] or "", "delete", stop)
            if text:
                out(f"{text}\t{int(row['overall'])}\n")
    elif name == "reduce":
        before, ratings = None, []
        for line in sys.stdin:
            text, stars = line.rstrip("\n").split("\t")
            if text != before:
                if before is not None:
                    out(f"{before}\t{rules.mode(ratings)}\n")
                before, ratings = text, []
            ratings.append(int(stars))
        if before is not None:
            out(f"{before}\t{rules.mode(ratings)}\n")
    elif name == "count":
        for line in sys.stdin:
            text = line.split("\t")[0]
            if rules.part(text, Defaults) == "train":
                for word in text.split(" "):
                    out(word + "\t1\n")
    elif name == "sum":
        before, count = None, 0
        for line in sys.stdin:
            word, one = line.split("\t")
            if word != before:
                if before is not None:
                    out(f"{count}\t{before}\n")
                before, count = word, 0
            count += int(one)
        if before is not None:
            out(f"{count}\t{before}\n")
    elif name == "encode":
        encode(rules, arguments[0])
    elif name == "pyspark":
        spark(rules, *arguments)


def encode(rules, out):
    with open(os.path.join(out, "vocabulary.txt")) as file:
        numbers = {word.rstrip("\n"): number for number, word in enumerate(file, 3)}
    files = {part: open(os.path.join(out, part + ".jsonl"), "w") for part in ("train", "validation", "test")}
    for line in sys.stdin:
        text, stars = line.rstrip("\n").split("\t")
        ids = [numbers.get(word, 2) for word in text.split(" ")][:100]
        ids += [1] * (100 - len(ids))
        row = {"text": text, "stars": int(stars), "ids": ids}
        files[rules.part(text, Defaults)].write(json.dumps(row, separators=(",", ":")) + "\n")


def spark(rules, path, out):
    """The same with DataFrame functions; the rows of a part are not in order, and not in one file."""
    from pyspark.ml.feature import StopWordsRemover
    from pyspark.sql import SparkSession, Window, functions as f
    session = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g").getOrCreate()
    rows = session.read.schema("reviewText string, overall double").json(path)
    cleaned = f.split(f.lower(f.regexp_replace("reviewText", "[^a-zA-Z' ]", "")), " ")
    rows = rows.withColumn("all", f.coalesce(cleaned, f.array().cast("array<string>")))
    # A set: a filter by array_contains would go through all stop words for every word.
    remover = StopWordsRemover(inputCol="all", outputCol="kept", stopWords=sorted(rules.stop_words("english") | {""}))
    kept = remover.transform(rows).select(f.array_join("kept", " ").alias("text"), "overall")
    rows = kept.select("text", f.col("overall").cast("int").alias("stars"))
    counts = rows.filter("text != ''").groupBy("text", "stars").count()
    order = Window.partitionBy("text").orderBy(f.desc("count"), "stars")
    texts = counts.withColumn("rank", f.row_number().over(order)).filter("rank = 1").select("text", "stars")
    share = f.conv(f.substring(f.sha2(f.concat(f.lit("1234\0"), "text"), 256), 1, 13), 16, 10).cast("double") / 2**52
    part = f.when(share < 0.1, "test").when(share < 0.2, "validation").otherwise("train")
    texts = texts.withColumn("part", part).cache()
    words = texts.filter("part = 'train'").select(f.explode(f.split("text", " ")).alias("word"))
    words = words.groupBy("word").count().orderBy(f.desc("count"), "word").limit(10000).collect()
    os.makedirs(out)
    with open(os.path.join(out, "vocabulary.txt"), "w") as file:
        file.writelines(row["word"] + "\n" for row in words)
    numbers = [(row["word"], number) for number, row in enumerate(words, 3)]
    numbers = f.broadcast(session.createDataFrame(numbers, "word string, number int"))
    # A join: looking words up in a column that is a map would go through all of its keys.
    placed = texts.select("text", "stars", "part", f.posexplode(f.slice(f.split("text", " "), 1, 100)).alias("at", "word"))
    placed = placed.join(numbers, "word", "left").withColumn("number", f.coalesce("number", f.lit(2)))
    ids = f.array_sort(f.collect_list(f.struct("at", "number"))).getField("number")
    rows = placed.groupBy("text", "stars", "part").agg(ids.alias("ids"))
    ids = f.concat("ids", f.array_repeat(f.lit(1), f.lit(100) - f.size("ids")))
    rows.select("text", "stars", ids.alias("ids"), "part").write.partitionBy("part").json(os.path.join(out, "rows"))
    session.stop()


def same(one, other):
    names = ["train.jsonl", "validation.jsonl", "test.jsonl", "vocabulary.txt"]
    return all(subprocess.run(["cmp", "-s", os.path.join(one, name), os.path.join(other, name)]).returncode == 0
               for name in names)


def same_rows(one, spark):
    """Whether Spark's rows are those of another way, in whatever order and files."""
    env = dict(os.environ, LC_ALL="C")
    for part in ("train", "validation", "test"):
        line = f"cmp -s <(sort {one}/{part}.jsonl) <(sort {spark}/rows/part={part}/*.json)"
        if subprocess.run(["bash", "-c", line], env=env).returncode != 0:
            return False
    return subprocess.run(["cmp", "-s", f"{one}/vocabulary.txt", f"{spark}/vocabulary.txt"]).returncode == 0


def main():
    if sys.argv[1:2] == ["--step"]:
        return step(sys.argv[2], sys.argv[3:])
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=kind)
    parser.add_argument("reviews")
    parser.add_argument("--sizes", default="0.25", help="gigabytes, between commas")
    parser.add_argument("--ways", default="bonfire,python")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--formats", default="native,jsonl")
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--bonfire", default=os.path.join(HERE, "..", "target", "release", "bonfire"))
    parser.add_argument("--folder", default="/tmp/bonfire-prepare-bench")
    parser.add_argument("--repeat", type=int, default=1, help="rounds, of which the best counts")
    parser.add_argument("--chart", help="draws time and memory by size")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    sizes = [float(size) for size in options.sizes.split(",")]
    make_all(options, sizes)
    if not options.ways:
        return
    results = [result for size in sizes for result in at_size(options, size)]
    if options.chart:
        with open(options.chart, "w") as file:
            file.write(chart([result for result in results if result["way"] == "bonfire"]))


def input_file(options, size):
    return os.path.join(options.folder, f"{size:g}.json")


def make_all(options, sizes):
    """Makes the files that are not there. The largest is made, and all others are how it begins."""
    largest = input_file(options, max(sizes))
    for size in sorted(sizes, reverse=True):
        path = input_file(options, size)
        if os.path.exists(path):
            continue
        if path == largest:
            make(options.reviews, path + ".new", size * 1e9)
        else:
            begin_of(largest, path + ".new", size * 1e9)
        os.rename(path + ".new", path)


def at_size(options, size):
    path = input_file(options, size)
    # It is in memory for all ways, or for none if it does not fit.
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
    best, first = {}, None
    for _ in range(options.repeat):
        for way, threads, form in kinds(options):
            out = os.path.join(options.folder, f"out-{way}-{threads}-{form}")
            shutil.rmtree(out, ignore_errors=True)
            result = measure(options, path, out, size, (way, threads, form))
            if way == "pyspark":
                result["same_rows"] = same_rows(first, out) if first else None
            elif form == "jsonl":
                first = first or out
                result["same_bytes"] = same(first, out)
            if out != first:
                shutil.rmtree(out)
            print(json.dumps(result), flush=True)
            key = way, threads, form
            best[key] = min(best.get(key, result), result, key=lambda result: result["seconds"])
    if options.repeat > 1:
        for result in best.values():
            print(json.dumps(dict(best_of=options.repeat, **result)), flush=True)
    if first:
        shutil.rmtree(first)
    return list(best.values())


def kinds(options):
    """Ways with their threads and formats."""
    for way in options.ways.split(","):
        if way == "bonfire":
            yield from ((way, t, form) for form in options.formats.split(",") for t in options.threads.split(","))
        else:
            yield way, "", "jsonl"


def measure(options, path, out, size, kind):
    way, threads, form = kind
    seconds, used, peak = WAYS[way](options, path, out, threads, form)
    megabytes = os.path.getsize(path) / 1e6
    return {"way": way, "gigabytes": size, "threads": threads, "format": form, "seconds": round(seconds, 2),
            "mb_per_s": round(megabytes / seconds, 1), "core_seconds": round(used, 2),
            "mb_per_core_s": round(megabytes / used, 1), "peak_mb": round(peak / 1e6)}


CHART = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" font-family="sans-serif" font-size="13">
<rect width="720" height="300" fill="white"/>
{panels}
</svg>
"""


def chart(results):
    """Two panels by gigabytes of input: seconds by the clock, and megabytes of memory."""
    lines = collections.defaultdict(list)
    for result in results:
        count = result["threads"]
        name = f"{result['format']}, {count} thread" + ("" if count == "1" else "s")
        lines[name].append((result["gigabytes"], result["seconds"], result["peak_mb"]))
    panels = [panel(60, "seconds", lines, 1, 0), panel(420, "MB of memory (limit: 512)", lines, 2, 512)]
    return CHART.format(panels="\n".join(panels))


COLOURS = ["#c0392b", "#2471a3", "#d68910", "#1e8449"]


def panel(left, title, lines, column, least):
    widest = max(point[0] for points in lines.values() for point in points)
    highest = max([least] + [point[column] for points in lines.values() for point in points]) * 1.1
    x = lambda value: left + 250 * value / widest
    y = lambda value: 240 - 200 * value / highest
    parts = [f'<text x="{left}" y="24">{title}</text>',
             f'<path d="M{left} 40V240H{left + 250}" fill="none" stroke="#888"/>']
    for tick in sorted({point[0] for points in lines.values() for point in points}):
        parts.append(f'<text x="{x(tick):.0f}" y="258" text-anchor="middle">{tick:g}</text>')
    parts.append(f'<text x="{left + 250}" y="276" text-anchor="end">GB of JSON lines</text>')
    for tick in range(1, 5):
        value = round(highest / 1.1 * tick / 4, -1 if highest > 60 else 0)
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.0f}</text>')
    for (name, points), colour in zip(lines.items(), COLOURS):
        path = " ".join(f"{x(point[0]):.1f},{y(point[column]):.1f}" for point in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if column == 1:
            place = 52 + 18 * list(lines).index(name)
            parts.append(f'<text x="{left + 12}" y="{place}" fill="{colour}">{name}</text>')
    return "\n".join(parts)


if __name__ == "__main__":
    main()
