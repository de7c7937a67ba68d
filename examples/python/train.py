"""A training loop that tells sonde what it does, on the standard library alone.

    sonde record -o train.run -- python3 examples/python/train.py
    sonde report train.run
    sonde plot training train.run -o curves.svg

Two layers learn by plain stochastic gradient descent to tell points inside a ring from those outside of
it. The loss that is printed is the one that is recorded. notebook.ipynb beside it looks at such a run.
"""

import math
import random
import sys

import sonde

POINTS, HELD_OUT, BATCH, HIDDEN = 384, 64, 16, 8
chance = random.Random(1)   # the same numbers in every run


def make_points(count):
    points = []
    for _ in range(count):
        x, y = chance.uniform(-2, 2), chance.uniform(-2, 2)
        points.append((x, y, float(0.7 < math.hypot(x, y) < 1.6)))
    return points


class Model:
    def __init__(self):
        self.w1 = [[chance.uniform(-1, 1), chance.uniform(-1, 1)] for _ in range(HIDDEN)]
        self.b1 = [chance.uniform(-1, 1) for _ in range(HIDDEN)]
        self.w2 = [chance.uniform(-0.5, 0.5) for _ in range(HIDDEN)]
        self.b2 = 0.0

    def forward(self, batch):
        """What it makes of each point, and the mean loss."""
        made, loss = [], 0.0
        for x, y, label in batch:
            hidden = [math.tanh(w[0] * x + w[1] * y + b) for w, b in zip(self.w1, self.b1)]
            out = 1 / (1 + math.exp(-self.b2 - sum(w * h for w, h in zip(self.w2, hidden))))
            loss -= math.log((out if label else 1 - out) + 1e-12)
            made.append((hidden, out))
        return made, loss / len(batch)

    def backward(self, batch, made):
        """The slope of the loss: of w1, b1, w2 for each hidden unit, and of b2."""
        slopes, b2 = [[0.0] * 4 for _ in range(HIDDEN)], 0.0
        for (x, y, label), (hidden, out) in zip(batch, made):
            error = (out - label) / len(batch)
            b2 += error
            for slope, h, w in zip(slopes, hidden, self.w2):
                inner = error * w * (1 - h * h)
                slope[0] += inner * x
                slope[1] += inner * y
                slope[2] += inner
                slope[3] += error * h
        return slopes, b2

    def optimize(self, slopes, b2, rate):
        for i, (x, y, b, w) in enumerate(slopes):
            self.w1[i][0] -= rate * x
            self.w1[i][1] -= rate * y
            self.b1[i] -= rate * b
            self.w2[i] -= rate * w
        self.b2 -= rate * b2


def accuracy(batch, made):
    return sum((out > 0.5) == bool(label) for (_, _, label), (_, out) in zip(batch, made)) / len(batch)


def train(epochs):
    with sonde.ml.dataset_load("ring", format="memory") as load:
        points = make_points(POINTS)
        load.add(items=len(points))
    with sonde.ml.track_model_init("ring"):
        model = Model()
    kept, held_out = points[:-HELD_OUT], points[-HELD_OUT:]
    loop = sonde.ml.Loop("ring")
    batches = loop.batches([kept[i:i + BATCH] for i in range(0, len(kept), BATCH)], dataset="ring")
    for number in range(epochs):
        rate = 0.5 / (1 + 0.05 * number)
        losses, rights = [], []
        with loop.epoch(number) as epoch:
            for batch in batches:
                with loop.step(samples=len(batch)) as step:
                    with step.phase("forward"):
                        made, loss = model.forward(batch)
                    with step.phase("backward"):
                        slopes, b2 = model.backward(batch, made)
                    with step.phase("optimizer"):
                        model.optimize(slopes, b2, rate)
                losses.append(loss)
                rights.append(accuracy(batch, made))
            with loop.phase("validation"):
                made, val_loss = model.forward(held_out)
            epoch.record(train_loss=sum(losses) / len(losses), val_loss=val_loss,
                         train_acc=sum(rights) / len(rights), val_acc=accuracy(held_out, made), learning_rate=rate)
        print(f"epoch {number} train_loss {epoch.values['train_loss']!r} val_loss {val_loss!r}")
    for size in (1, 4, 16, 64):
        for _ in range(5):
            with sonde.ml.track_inference("ring", batch_size=size):
                model.forward(held_out[:size])


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
