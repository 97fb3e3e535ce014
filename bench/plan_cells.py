#!/usr/bin/env python3
"""How far `bonfire plan` is off: forecasts against runs in labs, 24 cells of four models and six set-ups.

    bench/plan_cells.py                                  all cells, as a table in Markdown
    bench/plan_cells.py --cells lenet:2 tagger:4         some of them: a model and the number of a set-up
    bench/plan_cells.py --choices 2                      also runs what the plan chooses, and the two fastest
    bench/plan_cells.py --cells lenet:2 --json >> cells  one part of the table now,
    bench/plan_cells.py --table cells                    and the table of all parts that were measured, later

Makes its own labs, one after the other, and takes them down again. In each lab every model is planned once: the hosts
are measured at the work of its run, a few seconds long, and all set-ups of the lab are among the forecasts. Then the
runs themselves go through some epochs, of which the median without the first counts. Root, because labs need it; a
quiet machine, because hosts of a lab share its cores.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

BONFIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "release", "bonfire")

MODELS = {
    "lenet5": "model: lenet5\ndata: {name: digits, train: %d, test: 64}\nbatch_size: 32\noptimizer: {adam: {lr: 0.001}}\n",
    "lenet": "model: lenet\ndata: {name: digits, train: %d, test: 64}\nbatch_size: 32\noptimizer: {sgd: {lr: 0.01, momentum: 0.9}}\n",
    "tagger": "model: tagger\ndata: {name: grammar, train: %d, test: 64}\nbatch_size: 32\noptimizer: {adam: {lr: 0.001}}\n",
    "mlp": "model: {mlp: {hidden: [512, 512]}}\ndata: {name: digits, train: %d, test: 64}\nbatch_size: 32\noptimizer: {sgd: {lr: 0.01}}\n",
}

# Hosts, what their links carry, and how they exchange: written down before anything was measured.
SETUPS = {
    1: dict(hosts=2, rate="100mbit", arch="allreduce", compression="none", local_steps=1),
    2: dict(hosts=4, rate="100mbit", arch="allreduce", compression="none", local_steps=1),
    3: dict(hosts=4, rate="100mbit", arch="allreduce", compression="int8", local_steps=1),
    4: dict(hosts=4, rate="10mbit", arch="allreduce", compression="none", local_steps=8),
    5: dict(hosts=4, rate="1gbit", arch="allreduce", compression="none", local_steps=1),
    6: dict(hosts=4, rate="100mbit", arch="flat", compression="none", local_steps=1),
}

# Of an epoch; and how many of them.
ROUNDS = 48
EPOCHS = 4


def run_file(model, setup, way):
    """The run of a cell, exchanged in some way."""
    text = MODELS[model] % (setup["hosts"] * 32 * ROUNDS)
    text += f"epochs: {EPOCHS}\neval_every: {EPOCHS} epochs\ncheckpoint_every: {EPOCHS} epochs\n"
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


def call(args, words, **options):
    done = subprocess.run([args.program, *words], capture_output=True, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise RuntimeError(f"bonfire {' '.join(words)}: {done.stderr.strip()[-400:]}")
    return done.stdout


def plan(args, folder, inventory, text):
    """Every forecast of a run, the fastest first."""
    file = os.path.join(folder, "plan.yml")
    with open(file, "w") as f:
        f.write(text)
    lines = call(args, ["plan", "-i", inventory, file, "--json", "--save", os.path.join(folder, "pool.yml")])
    return [json.loads(line) for line in lines.splitlines()]


def seconds(args, folder, inventory, text):
    """What an epoch takes in truth."""
    file, out = os.path.join(folder, "run.yml"), os.path.join(folder, "run")
    with open(file, "w") as f:
        f.write(text)
    subprocess.run(["rm", "-rf", out], check=True)
    call(args, ["run", "-i", inventory, file, "--out", out, "--quiet"])
    events = [json.loads(line) for line in open(os.path.join(out, "events.jsonl"))]
    epochs = [event["seconds"] for event in events if event["event"] == "epoch_ended"]
    return statistics.median(epochs[1:])


def is_way(line, way):
    keys = ("arch", "compression", "local_steps", "workers", "head_works")
    same = all(line[key] == way[key] for key in keys)
    return same and all(line.get(key, 0) == way.get(key, 0) for key in ("delay", "servers"))


def cells(args, folder, inventory, model, numbers):
    """The cells of a model in one lab, by one plan."""
    setups = [SETUPS[number] for number in numbers]
    ways = [dict(setup, workers=setup["hosts"], head_works=True) for setup in setups]
    lines = plan(args, folder, inventory, run_file(model, setups[0], ways[0]))
    found, times = [], {}
    for number, setup, way in zip(numbers, setups, ways):
        forecast = next(line for line in lines if is_way(line, way))
        measured = times[in_short(forecast)] = seconds(args, folder, inventory, run_file(model, setup, way))
        cell = dict(model=model, setup=number, forecast=forecast["seconds_per_epoch"], measured=measured)
        cell.update({key: forecast[key] for key in ("computing_s", "wire_s", "waiting_s")})
        cell["error"] = cell["forecast"] / measured - 1
        found.append(cell)
    if args.choices:
        chosen = next(line for line in lines if line["best"])
        for line in [chosen] + lines[:args.choices]:
            if in_short(line) not in times:
                hosts = inventory_of(inventory, line, folder)
                times[in_short(line)] = seconds(args, folder, hosts, run_file(model, setups[0], line))
        best = min(times, key=times.get)
        for cell in found:
            cell.update(chosen=times[in_short(chosen)], choice=in_short(chosen), best=times[best], fastest=best)
            cell["tried"] = times
    return found


def in_short(line):
    """`allreduce of 4, int8`"""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="*", help="lenet:2: a model and the number of a set-up")
    parser.add_argument("--choices", type=int, default=0, metavar="N", help="also run what is chosen and the N fastest")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--table", metavar="FILE", help="only print the table of lines that --json wrote")
    parser.add_argument("--program", default=BONFIRE)
    parser.add_argument("--lab", default="planlab")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every cell")
    args = parser.parse_args()
    if args.table:
        return table([json.loads(line) for line in open(args.table)])
    globals().update(ROUNDS=args.rounds, EPOCHS=args.epochs)
    # Whoever ends it early wants no lab left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = [tuple(word.split(":")) for word in args.cells or [f"{m}:{s}" for s in SETUPS for m in MODELS]]
    wanted = [(model, int(number)) for model, number in wanted]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for hosts, rate in dict.fromkeys((SETUPS[n]["hosts"], SETUPS[n]["rate"]) for _, n in wanted):
            call(args, ["lab", "up", "--name", args.lab, "--hosts", str(hosts), "--rate", rate])
            inventory = f"/var/lib/bonfire-labs/{args.lab}/files/hosts.ini"
            try:
                here = [(m, n) for m, n in wanted if (SETUPS[n]["hosts"], SETUPS[n]["rate"]) == (hosts, rate)]
                for model in dict.fromkeys(model for model, _ in here):
                    numbers = [number for of, number in here if of == model]
                    for cell in cells(args, folder, inventory, model, numbers):
                        found.append(cell)
                        print(json.dumps(cell), file=sys.stdout if args.json else sys.stderr, flush=True)
            finally:
                call(args, ["lab", "down", "--name", args.lab])
    if not args.json:
        table(found)


def table(found):
    """Forecast, measured and error of every cell, a row for each model; of a cell that was measured again the last."""
    cells = {(line["model"], line["setup"]): line for line in found}
    print("| model | " + " | ".join(in_words(setup) for setup in SETUPS.values()) + " |\n" + "|---" * (len(SETUPS) + 1) + "|")
    for model in MODELS:
        row = [cells.get((model, number)) for number in SETUPS]
        row = [f"{c['forecast']:.3g} / {c['measured']:.3g}, {c['error']:+.0%}" if c else "" for c in row]
        print(f"| {model} | " + " | ".join(row) + " |")
    errors = [abs(line["error"]) for line in cells.values()]
    print(f"\n{len(errors)} cells: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}")
    chosen = [line for line in cells.values() if "chosen" in line]
    right = sum(line["chosen"] <= line["best"] * 1.05 for line in chosen)
    if chosen:
        print(f"what was chosen is the best, or within 5 % of it, in {right} of {len(chosen)}")


def in_words(setup):
    way = setup["arch"] + ("" if setup["compression"] == "none" else f", {setup['compression']}")
    way += f", {setup['local_steps']} local steps" if setup["local_steps"] > 1 else ""
    return f"{setup['hosts']} hosts, {setup['rate']}, {way}"


if __name__ == "__main__":
    main()
