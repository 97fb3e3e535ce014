#!/usr/bin/env bash
# A model of 150 million parameters on two nodes, a third that joins late, a checkpoint, a head that is killed and resumed:
#   bench/large_model.sh [PROGRAM]      under a sync server and as an all-reduce. Needs about 16 GB of memory.
# Prints the rounds, how the run ended, and the most memory that the head had.
set -euo pipefail
program=$(realpath "${1:-target/release/bonfire}")
folder=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf -- "$folder"' EXIT

run() {
    local name=$1 arch=$2 out=$folder/$1
    cat >"$folder/$name.yml" <<YAML
model: {mlp: {hidden: [11860, 11860]}}
optimizer: {sgd: {lr: 0.01, momentum: 0.9}}
data: {name: digits, train: 600, test: 20}
batch_size: 4
num_server_rounds: 24
eval_every: 100 rounds
checkpoint_every: 8 rounds
keep_checkpoints: 1
silence_s: 30
$arch
YAML
    "$program" head "$folder/$name.yml" --out "$out" --ticket-file "$folder/$name.ticket" --listen 127.0.0.1:0 \
        >"$out.log" 2>&1 &
    local head=$!
    until [ -s "$folder/$name.ticket" ]; do sleep 0.2; done
    for node in 1 2; do
        "$program" node --ticket-file "$folder/$name.ticket" --name "n$node" >"$out-n$node.log" 2>&1 &
    done
    until grep -q '"event":"checkpointed"' "$out/events.jsonl" 2>/dev/null; do sleep 0.5; kill -0 $head; done
    echo "$name: first checkpoint; head at most $(awk '/VmHWM/ {print int($2 / 1024)}' /proc/$head/status) MB"
    "$program" node --ticket-file "$folder/$name.ticket" --name late >"$out-late.log" 2>&1 &
    until grep -q '"name":"late"' "$out/events.jsonl"; do sleep 0.5; kill -0 $head; done
    sleep 15
    local most
    most=$(awk '/VmHWM/ {print int($2 / 1024)}' /proc/$head/status)
    kill -KILL $head
    wait $head 2>/dev/null || true
    "$program" head --resume "$out" >>"$out.log" 2>&1
    echo "$name: $(sed -n 's/^ *"\(exit\|rounds\|samples\)": \(.*\),*$/\1 \2/p' "$out/summary.json" | tr '\n' ' ') head at most $most MB before it was killed"
    grep -oE '"event":"(node_joined|node_lost|resumed|warned|checkpointed)"[^}]*' "$out/events.jsonl" | cut -c1-140
    wait
    rm -rf -- "$out"
}

run server 'arch: flat
parameter_server: {num_workers: 2}'
run allreduce 'arch: allreduce
allreduce: {num_workers: 2}'
