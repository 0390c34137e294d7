"""Hashes of 60,000 MNIST images and labels, against BLAKE2b of each row in a Python loop. One core."""

import hashlib

import numpy as np

from benchmarks.timing import in_turn, publish
from pacdp.data import Rows, load, require_apart

ROUNDS = 7


def main() -> None:
    """Print the results and write them to benchmarks/results/rows.json."""
    train, test = load("mnist")
    rows, others = (Rows.of(data.inputs, data.labels) for data in (train, test))
    pixels = train.inputs.reshape(train.n, -1).view(np.uint8)
    times = in_turn(
        {
            "Rows.of": lambda: Rows.of(train.inputs, train.labels),
            "require_apart": lambda: require_apart(rows, others),
            "BLAKE2b by row": lambda: [
                hashlib.blake2b(row, digest_size=8).digest() for row in pixels
            ],
        },
        rounds=ROUNDS,
    )
    publish("rows", {f"{name}, seconds": own.table(1.0) for name, own in times.items()})


if __name__ == "__main__":
    main()
