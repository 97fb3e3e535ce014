#!/usr/bin/env python3
"""How far `bonfire plan` is off, and whether what it chooses is the best: forecasts against runs in labs.

    bench/plan_cells.py                                  24 cells of four models and six set-ups, as tables in Markdown
    bench/plan_cells.py --cells lenet:2 tagger:4         some of them: a model and the number of a set-up
    bench/plan_cells.py --cells others                   cells that are not of the 24
    bench/plan_cells.py --choices 6                      also runs what the plan chooses, and up to 6 that may be faster
    bench/plan_cells.py --cells lenet:2 --json >> cells  one part of the tables now,
    bench/plan_cells.py --table cells                    and the tables of all parts that were measured, later

Makes its own labs, one after the other, and takes them down again. In each lab every model is planned once: the hosts
are measured at the work of its run, a few seconds long, and all set-ups of the lab are among the forecasts. Then the
runs themselves go through some epochs, of which the median without the first counts. How many rounds an epoch has is
the same rule for all: as many as take EPOCH_S by the forecast. Root, because labs need it; a quiet machine, because
hosts of a lab share its cores.

Choices are judged by the rule of the plan: a way that changes what is learnt counts as the best only where it saves
more than a twentieth of the time. What is forecast to take longer than the fastest by more than NEAR is not run.
"""
import argparse
import hashlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")


def model(name, data, optimizer):
    return f"model: {name}\ndata: {{name: {data}, train: %d, test: 64}}\nbatch_size: 32\noptimizer: {{{optimizer}}}\n"


MODELS = {
    "lenet5": model("lenet5", "digits", "adam: {lr: 0.001}"),
    "lenet": model("lenet", "digits", "sgd: {lr: 0.01, momentum: 0.9}"),
    "tagger": model("tagger", "grammar", "adam: {lr: 0.001}"),
    "mlp": model("{mlp: {hidden: [512, 512]}}", "digits", "sgd: {lr: 0.01}"),
    # Of other cells.
    "cnn": model("cnn", "digits", "sgd: {lr: 0.01}"),
    "sentiment": model("sentiment", "reviews", "adam: {lr: 0.001}"),
    "tagger-sgd": model("tagger", "grammar", "sgd: {lr: 0.1}"),
}


def setup(hosts, rate, arch="allreduce", compression="none", local_steps=1, **more):
    return dict(hosts=hosts, rate=rate, arch=arch, compression=compression, local_steps=local_steps, **more)


# Hosts, what their links carry, and how they exchange: written down before anything was measured.
SETUPS = {
    1: setup(2, "100mbit"),
    2: setup(4, "100mbit"),
    3: setup(4, "100mbit", compression="int8"),
    4: setup(4, "10mbit", local_steps=8),
    5: setup(4, "1gbit"),
    6: setup(4, "100mbit", arch="flat"),
    # Of other cells.
    7: setup(3, "20mbit", compression="f16"),
    8: setup(4, "100mbit", compression="int8", cpu="1,0.5,0.5,0.25"),
    9: setup(2, "1gbit", arch="flat"),
    10: setup(3, "50mbit", compression="powersgd 4"),
    11: setup(4, "100mbit,100mbit,100mbit,20mbit", compression="int8"),
    12: setup(4, "100mbit", servers=1),
    13: setup(2, "50mbit", delay_of_link="10ms"),
    14: setup(3, "30mbit", compression="int8", local_steps=8, delay=6),
    15: setup(3, "200mbit", arch="flat", compression="int8", cpu="0.5,0.5,0.25"),
    # Ways that are often chosen.
    16: setup(2, "100mbit", compression="powersgd 2"),
    17: setup(4, "100mbit", compression="powersgd 2"),
    18: setup(2, "100mbit", arch="single"),
}

CELLS = [(name, number) for number in range(1, 7) for name in ("lenet5", "lenet", "tagger", "mlp")]

# Also written down before they were measured.
OTHERS = [("sentiment", 7), ("lenet", 8), ("cnn", 9), ("tagger-sgd", 10), ("mlp", 11), ("lenet", 12), ("tagger", 13),
          ("sentiment", 14), ("tagger", 15)]

# So many epochs, each so long by the forecast, of so many rounds at most.
EPOCHS, EPOCH_S, MOST_ROUNDS = 6, 1.2, 640

# Those of the run file by which that is found.
TRY_ROUNDS = 48

# The same where ways are compared.
CHOICE_EPOCHS, CHOICE_EPOCH_S = 4, 1.0

# What is forecast to take longer than the fastest by more than this is not run; nor is a run that takes so long.
NEAR, LONGEST_S = 0.15, 60

# A choice may be so much slower than the best; and what changes what is learnt has to save so much.
CLOSE, LEAST_GAIN = 0.05, 0.05


def run_file(name, hosts, way, rounds, epochs):
    """A run that is exchanged in some way: epochs of so many rounds, if all hosts work. No round is exact, for the
    median epoch would have none."""
    text = MODELS[name] % (hosts * 32 * rounds)
    text += f"epochs: {epochs}\neval_every: {epochs} epochs\ncheckpoint_every: never\n"
    if way["arch"] == "single":
        return text + "arch: single\nworkers: 1\nhead: {works: true}\n"
    key = "allreduce" if way["arch"] == "allreduce" else "parameter_server"
    servers = f", servers: {way['servers']}" if way.get("servers") else ""
    text += f"arch: {way['arch']}\n{key}: {{num_workers: {way['workers']}{servers}}}\n"
    text += f"head: {{works: {str(way['head_works']).lower()}}}\n"
    if way["compression"].startswith("powersgd"):
        text += f"compression: {{powersgd: {way['compression'].split()[1]}}}\n"
    elif way["compression"] != "none":
        text += f"compression: {way['compression']}\n"
    if way["local_steps"] > 1:
        text += f"local_steps: {way['local_steps']}\n"
    if way.get("delay", 0) > 0:
        text += f"outer: {{delay: {way['delay']}}}\n"
    return text


def rounds_of(round_s, epoch_s, steps):
    """How many rounds an epoch has: a multiple of the local steps that there may be."""
    return min(math.ceil(epoch_s / round_s / steps) * steps, MOST_ROUNDS)


def call(args, words, **options):
    done = subprocess.run([args.program, *words], capture_output=True, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise RuntimeError(f"bonfire {' '.join(words)}: {done.stderr.strip()[-400:]}")
    return done.stdout


def plan(args, folder, text, hosts):
    """Every forecast of a run, the fastest first."""
    file = os.path.join(folder, "plan.yml")
    with open(file, "w") as f:
        f.write(text)
    return [json.loads(line) for line in call(args, ["plan", *hosts, file, "--json"]).splitlines()]


def pace():
    """What the same work takes on two threads now, in seconds: machines are not always as fast."""
    block, found = bytes(8 << 20), []

    def work():
        for _ in range(4):
            hashlib.sha256(block).digest()

    for _ in range(9):
        threads, begun = [threading.Thread(target=work) for _ in range(2)], time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def seconds(args, folder, inventory, text):
    """What every epoch takes in truth, and what every node sent."""
    file, out = os.path.join(folder, "run.yml"), os.path.join(folder, "run")
    with open(file, "w") as f:
        f.write(text)
    subprocess.run(["rm", "-rf", out], check=True)
    call(args, ["run", "-i", inventory, file, "--out", out, "--quiet"])
    events = [json.loads(line) for line in open(os.path.join(out, "events.jsonl"))]
    nodes = [node for event in events if event["event"] == "nodes" for node in event["nodes"]]
    sent = dict.fromkeys((node["name"] for node in nodes), 0)
    for node in nodes:
        sent[node["name"]] += node["sent_bytes"]
    return [event["seconds"] for event in events if event["event"] == "epoch_ended"], sent


def median(epochs):
    """Without the first."""
    return statistics.median(epochs[1:])


def is_way(line, way):
    keys = ("arch", "compression", "local_steps", "workers", "head_works")
    same = all(line[key] == way[key] for key in keys)
    return same and all(line.get(key, 0) == way.get(key, 0) for key in ("delay", "servers"))


def way_of(setup):
    workers = 1 if setup["arch"] == "single" else setup["hosts"] - setup.get("servers", 0)
    return dict(setup, workers=workers, head_works=True)


def cells(args, folder, inventory, name, numbers):
    """The cells of a model in one lab, and the choice there, by one plan."""
    hosts, first = SETUPS[numbers[0]]["hosts"], way_of(SETUPS[numbers[0]])
    os.makedirs(args.keep or folder, exist_ok=True)
    pool = os.path.join(args.keep or folder, f"{name}-{numbers[0]}.pool.yml")
    paces = [pace()]
    lines = plan(args, folder, run_file(name, hosts, first, TRY_ROUNDS, EPOCHS), ["-i", inventory, "--save", pool])
    times, paces = {}, paces + [pace()]
    for number in [] if args.only_choices else numbers:
        way = way_of(SETUPS[number])
        round_s = next(line for line in lines if is_way(line, way))["seconds_per_epoch"] / TRY_ROUNDS
        rounds = rounds_of(round_s, EPOCH_S, max(8, way["local_steps"]))
        text = run_file(name, hosts, way, rounds, EPOCHS)
        # By the figures of the same hosts, for a run of just this length.
        forecast = next(line for line in plan(args, folder, text, ["--measured", pool]) if is_way(line, way))
        epochs, sent = seconds(args, folder, inventory, text)
        measured, paces = median(epochs), paces + [pace()]
        times[in_short(forecast)] = measured / rounds
        cell = dict(model=name, setup=number, rounds=rounds, forecast=forecast["seconds_per_epoch"], measured=measured)
        cell.update({key: forecast[key] for key in ("computing_s", "wire_s", "waiting_s")})
        cell.update(epochs=epochs, sent=sent, paces=[round(pace * 1e3, 1) for pace in (paces[0], paces[1], paces[-1])])
        yield dict(cell, error=cell["forecast"] / measured - 1)
    if args.choices:
        yield choice(args, folder, inventory, (name, numbers), lines, times)


def choice(args, folder, inventory, of, lines, times):
    """What was chosen, and what would have been the best of those that may be: all in seconds a round."""
    (name, numbers), hosts = of, SETUPS[of[1][0]]["hosts"]
    chosen = next(line for line in lines if line["best"])
    near = [line for line in lines if line["seconds_per_epoch"] <= lines[0]["seconds_per_epoch"] * (1 + NEAR)]
    rounds = rounds_of(chosen["seconds_per_epoch"] / TRY_ROUNDS, CHOICE_EPOCH_S, 16)

    def measure(line):
        texts = run_file(name, hosts, line, rounds, CHOICE_EPOCHS)
        return median(seconds(args, folder, inventory_of(inventory, line, folder), texts)[0]) / rounds

    tried, left_out = [], []
    for line in [chosen] + [line for line in near if line is not chosen][:args.choices]:
        too_long = line["seconds_per_epoch"] / TRY_ROUNDS * rounds * CHOICE_EPOCHS > LONGEST_S
        if too_long and in_short(line) not in times:
            left_out.append(in_short(line))
            continue
        if in_short(line) not in times:
            times[in_short(line)] = measure(line)
        tried.append(line)

    def best():
        by_time = sorted(tried, key=lambda line: times[in_short(line)])
        exact = next((line for line in by_time if not is_lossy(line)), by_time[0])
        saves = times[in_short(by_time[0])] < times[in_short(exact)] * (1 - LEAST_GAIN)
        return by_time[0] if saves else exact

    # What seems to be faster has to be so twice.
    if tried and chosen in tried and times[in_short(chosen)] > times[in_short(best())] * (1 + CLOSE):
        for line in (best(), chosen):
            times[in_short(line)] = min(times[in_short(line)], measure(line))
    found = dict(model=name, setups=numbers, choice=in_short(chosen), near=len(near), left_out=left_out)
    if chosen in tried:
        found.update(chosen=times[in_short(chosen)], fastest=in_short(best()), best=times[in_short(best())])
        found["tried"] = {in_short(line): times[in_short(line)] for line in tried}
        found["forecast"] = {in_short(line): line["seconds_per_epoch"] / TRY_ROUNDS for line in tried}
    return found


def is_lossy(line):
    return line["compression"] not in ("none", "lossless") or line["local_steps"] > 1


def in_short(line):
    """`allreduce of 4, int8`"""
    if line["arch"] == "single":
        return "one machine"
    words = [f"{line['arch']} of {line['workers']}" + ("" if line["head_works"] else " and a head")]
    words += [f"{line['servers']} servers"] if line.get("servers") else []
    words += [line["compression"]] if line["compression"] != "none" else []
    words += [f"{line['local_steps']} local steps"] if line["local_steps"] > 1 else []
    words += [f"delay {line['delay']}"] if line.get("delay") else []
    return ", ".join(words)


def inventory_of(inventory, line, folder):
    """The hosts of a candidate, the head's first."""
    texts = list(open(inventory))
    hosts = {text.split()[0]: text for text in texts if "ansible_host=" in text}
    start = next(number for number, text in enumerate(texts) if text in hosts.values())
    others = [text for text in texts[start:] if text not in hosts.values()]
    file = os.path.join(folder, "some.ini")
    with open(file, "w") as f:
        f.writelines(texts[:start] + [hosts[name] for name in line["hosts"]] + others)
    return file


def lab_of(number):
    """What makes its lab."""
    setup = SETUPS[number]
    words = ["--hosts", str(setup["hosts"]), "--rate", setup["rate"]]
    words += ["--cpu", setup["cpu"]] if "cpu" in setup else []
    return tuple(words + (["--delay", setup["delay_of_link"]] if "delay_of_link" in setup else []))


def wanted_cells(words):
    if not words:
        return CELLS
    known = {"all": CELLS, "others": OTHERS}
    known.update({f"{model}:{number}": [(model, number)] for model in MODELS for number in SETUPS})
    for word in words:
        if word not in known:
            sys.exit(f"error: --cells {word}: no such cell; models are {', '.join(MODELS)}, set-ups 1 to {max(SETUPS)}")
    return [cell for word in words for cell in known[word]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="*", help="lenet:2: a model and the number of a set-up; or all, others")
    parser.add_argument("--choices", type=int, default=0, metavar="N", help="also run what is chosen, and N beside it")
    parser.add_argument("--only-choices", action="store_true", help="not the cells themselves")
    parser.add_argument("--table", metavar="FILE", help="only print the tables of lines that --json wrote")
    parser.add_argument("--keep", metavar="DIR", help="where the figures of hosts are kept")
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--lab", default="planlab")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every cell and choice")
    args = parser.parse_args()
    if args.table:
        return tables([json.loads(line) for line in open(args.table)])
    # Whoever ends it early wants no lab left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = wanted_cells(args.cells)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for lab in dict.fromkeys(lab_of(number) for _, number in wanted):
            call(args, ["lab", "up", "--name", args.lab, *lab])
            inventory = f"/var/lib/bonfire-labs/{args.lab}/files/hosts.ini"
            try:
                here = [(name, number) for name, number in wanted if lab_of(number) == lab]
                for name in dict.fromkeys(name for name, _ in here):
                    numbers = [number for of, number in here if of == name]
                    for line in cells(args, folder, inventory, name, numbers):
                        found.append(line)
                        print(json.dumps(line), file=sys.stdout if args.json else sys.stderr, flush=True)
            finally:
                call(args, ["lab", "down", "--name", args.lab])
    if not args.json:
        tables(found)


def tables(found):
    """Of what was measured again the last counts."""
    cells = {(line["model"], line["setup"]): line for line in found if "setup" in line}
    choices = {(line["model"], number): line for line in found for number in line.get("setups", [])}
    of_24 = {cell: line for cell, line in cells.items() if cell in CELLS}
    others = [line for cell, line in cells.items() if cell not in CELLS]
    if of_24:
        cell_table(of_24)
    if others:
        print("\n| model | set-up | forecast / measured | error |\n|---|---|---|---|")
        for line in others:
            setup, seconds = in_words(SETUPS[line["setup"]]), f"{line['forecast']:.3g} / {line['measured']:.3g}"
            print(f"| {line['model']} | {setup} | {seconds} | {percent(line['error'])} |")
        errors([abs(line["error"]) for line in others])
    if choices:
        choice_table(choices)


def cell_table(cells):
    """Forecast, measured and error of every cell, a row for each model."""
    numbers = sorted({number for _, number in CELLS})
    print("| model | " + " | ".join(in_words(SETUPS[number]) for number in numbers) + " |")
    print("|---" * (len(numbers) + 1) + "|")
    for name in dict.fromkeys(name for name, _ in CELLS):
        row = [cells.get((name, number)) for number in numbers]
        row = [f"{c['forecast']:.3g} / {c['measured']:.3g}, {percent(c['error'])}" if c else "" for c in row]
        print(f"| {name} | " + " | ".join(row) + " |")
    errors([abs(line["error"]) for line in cells.values()])


def errors(of):
    print(f"\n{len(of)} cells: median error {statistics.median(of) * 100:.1f} %, worst {max(of) * 100:.1f} %")


def percent(part):
    """`+3 %`"""
    whole = round(part * 100)
    return f"{whole:+d} %" if whole else "0 %"


def choice_table(choices):
    """What was chosen in every lab, what else may have been the best there, and what that took."""
    print("\n| model | lab | chosen | forecast / measured | others that were run | behind the best |")
    print("|---" * 6 + "|")
    labs = {(line["model"], lab_of(line["setups"][0])): line for line in choices.values()}
    for line in labs.values():
        setup = SETUPS[line["setups"][0]]
        row = [line["model"], f"{setup['hosts']} hosts, {in_mbit(setup['rate'])}", line["choice"]]
        if "chosen" not in line:
            print("| " + " | ".join(row + ["not run", "", ""]) + " |")
            continue
        times = {way: f"{line['forecast'][way] * 1e3:.3g} / {line['tried'][way] * 1e3:.3g}" for way in line["tried"]}
        chosen = times.pop(line["choice"])
        others = "; ".join(f"{way}: {time}" for way, time in times.items()) or "none"
        print("| " + " | ".join(row + [chosen, others, percent(line["chosen"] / line["best"] - 1)]) + " |")
    judged = {cell: line for cell, line in choices.items() if "chosen" in line}
    right = sum(line["chosen"] <= line["best"] * (1 + CLOSE) for line in judged.values())
    alone = sum(len(line["tried"]) == 1 for line in labs.values() if "chosen" in line)
    print(f"\nms a round of all hosts. {len(labs)} choices; in {alone} nothing else was near")
    print(f"what was chosen is the best, or within 5 % of it, in {right} of {len(judged)} cells")


def in_mbit(rate):
    return rate.replace("mbit", " Mbit/s").replace("gbit", " Gbit/s").replace(",", ", ")


def in_words(setup):
    words = [f"{setup['hosts']} hosts", in_mbit(setup["rate"])]
    words += [f"cores {setup['cpu'].replace(',', ', ')}"] if "cpu" in setup else []
    words += [f"{setup['delay_of_link']} under way"] if "delay_of_link" in setup else []
    words += [setup["arch"]] if setup["arch"] != "allreduce" else []
    words += [f"{setup['servers']} server"] if "servers" in setup else []
    words += [setup["compression"]] if setup["compression"] != "none" else []
    words += [f"{setup['local_steps']} local steps"] if setup["local_steps"] > 1 else []
    words += [f"{setup['delay']} of them ahead"] if setup.get("delay") else []
    return ", ".join(words)


if __name__ == "__main__":
    main()
