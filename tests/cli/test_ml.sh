#!/usr/bin/env bash
# What a training loop in C tells (sonde/ml.h, examples/train.c): a report of a recording and /api/ml of a
# running agent say exactly what it did, and CPU time is found by span.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit 1

# figures WHAT FILE EPOCHS PRINTED: the JSON of a report or an answer, against what the loop is known to do
cat >figures.py <<'END'
import json, math, re, sys
_, path, epochs, printed = sys.argv
epochs = int(epochs)
ml = json.load(open(path))["ml"]
training, = ml["training"]
said = re.findall(r"^epoch (\d+) train_loss (\S+) val_loss (\S+)$", open(printed).read(), re.M)
assert len(said) == epochs, said
assert training["model"] == "ring" and training["program"] == "example_train", training
assert (training["steps"], training["samples"]) == (56 * epochs, 56 * 32 * epochs), training
assert training["step"]["count"] == 56 * epochs and training["first_step"]["count"] == epochs
phases = {p["phase"]: p for p in training["phases"]}
assert list(phases) == ["data_wait", "forward", "backward", "optimizer", "validation"], list(phases)
assert phases["data_wait"]["count"] == 57 * epochs and phases["validation"]["count"] == epochs
total = sum(p["seconds"] for p in phases.values())
assert math.isclose(total, training["epoch"]["seconds"], abs_tol=1e-9 * 300 * epochs), total
assert [e["epoch"] for e in training["epochs"]] == list(range(epochs)), training["epochs"]
for epoch, (number, train_loss, val_loss) in zip(training["epochs"], said):
    assert epoch["steps"] == 56 and epoch["samples"] == 1792 and epoch["ok"], epoch
    assert math.isclose(epoch["values"]["train_loss"], float(train_loss), rel_tol=1e-9), epoch
    assert math.isclose(epoch["values"]["val_loss"], float(val_loss), rel_tol=1e-9), epoch
losses = [float(s[1]) for s in said]
assert losses == sorted(losses, reverse=True), losses
inference, = ml["inference"]
sizes = {b["batch_size"]: b["count"] for b in inference["batches"]}
assert list(sizes.items()) == [("1", 17), ("2", 17), ("4", 17), ("8", 17), ("16", 16), ("32", 16)], sizes
assert inference["items"] == 17 * 15 + 16 * 48, inference
dataset, = ml["datasets"]
assert (dataset["dataset"], dataset["format"], dataset["items"], dataset["count"]) == ("ring", "memory", 2048, 1)
END
figures() { python3 figures.py "${@:2}" >out.figures 2>&1 || complain "$1:" "$(cat out.figures)"; }

# ---- A recording ---------------------------------------------------------------------------------
"$sonde" record -o train.run -- "$SONDE_BUILD/example_train" 100 >printed 2>err || complain "record:" "$(cat err)"
status 0 "$sonde" report --json train.run
figures "recording" out 100 printed
status 0 "$sonde" report train.run
has "training" '^ +(model +)?ring' out
status 0 "$sonde" flamegraph --span ml.epoch -o epoch.svg train.run
has "the CPU time of epochs" forward epoch.svg

# ---- A running agent -------------------------------------------------------------------------------
start_agent log
status 0 curl -sf "$url/api/ml"
has "nothing told" '"ml":null' out
"$SONDE_BUILD/example_train" 3 >printed 2>err
told() { curl -sf "$url/api/ml" >answer && python3 figures.py answer 3 printed; }
until_true told
figures "/api/ml" answer 3 printed
finish
