"""Certificates of predictions beside scikit-learn's numbers of the same, with people, of many classes, from a file.

A million hard labels of ten classes; the same with 20,000 people; 20,000 labels of a thousand classes; CSV files of a
million rows, of whole numbers, texts, or probabilities to two decimals, beside polars: which reads the first, and makes
arrays of the others as this does. Seconds of the processor are compared.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.metrics import accuracy_score, precision_score, recall_score

from benchmarks.timing import Times, in_turn, publish, tables
from pacdp import certify_predictions
from pacdp.cli.predicting.tables import read_table

ROWS, PEOPLE = 10**6, 20_000


def answered(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and predictions of which nine in ten are the labels and the others any class."""
    rng = np.random.default_rng(0)
    labels, others = rng.integers(0, classes, (2, rows))
    return labels, np.where(rng.random(rows) < 0.9, labels, others)


def by_sklearn(labels: np.ndarray, predictions: np.ndarray) -> object:
    each: Any = {"average": None}
    measured = accuracy_score(labels, predictions)
    return measured, *(one(labels, predictions, **each) for one in (precision_score, recall_score))


def arrays(file: Path) -> object:
    """The columns that polars reads as arrays, those of probabilities as one."""
    frame = pl.read_csv(file)
    soft = frame.select(pl.col("^p[0-9]$"))
    return [column.to_numpy() for column in frame.drop(soft.columns)], soft.to_numpy()


def main() -> None:
    labels, predictions = answered(ROWS, 10)
    many = answered(20_000, 1_000)
    people = np.random.default_rng(1).integers(0, PEOPLE, ROWS)
    certify_predictions(labels[:100], predictions[:100], people=people[:100])  # compiles
    with tempfile.TemporaryDirectory() as folder:
        file, texts, soft = (Path(folder, f"{name}.csv") for name in ("whole", "texts", "soft"))
        frame = pl.DataFrame({"label": labels, "prediction": predictions})
        frame.write_csv(file)
        frame.select(pl.all().cast(pl.String) + " of ten").write_csv(texts)
        table = np.random.default_rng(2).dirichlet(np.ones(3), ROWS).round(2)
        columns = {f"p{k}": table[:, k] for k in range(3)}
        pl.DataFrame({"label": labels % 3, **columns}).write_csv(soft)
        times = in_turn(
            {
                "certify_predictions": lambda: certify_predictions(labels, predictions),
                "scikit-learn": lambda: by_sklearn(labels, predictions),
                "with people": lambda: certify_predictions(labels, predictions, people=people),
                "a thousand classes": lambda: certify_predictions(*many),
                "the file": lambda: read_table(file),
                "the file by polars": lambda: pl.read_csv(file),
                "a file of texts": lambda: read_table(texts),
                "texts by polars": lambda: arrays(texts),
                "a file of probabilities": lambda: read_table(soft),
                "probabilities by polars": lambda: arrays(soft),
            },
            rounds=7,
        )
    pairs = {
        "certify_predictions / scikit-learn": ("certify_predictions", "scikit-learn"),
        "with people / without": ("with people", "certify_predictions"),
        "the file / polars": ("the file", "the file by polars"),
        "a file of texts / polars": ("a file of texts", "texts by polars"),
        "a file of probabilities / polars": ("a file of probabilities", "probabilities by polars"),
    }
    ratios = {name: ratio(times[one], times[other]) for name, (one, other) in pairs.items()}
    publish("predictions", {"seconds": tables(times), "ratios of processor seconds": ratios})


def ratio(one: Times, other: Times) -> float:
    return round(min(one.processor) / min(other.processor), 2)


if __name__ == "__main__":
    main()
