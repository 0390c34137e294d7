"""The table of compressions: learners run on examples that they pick themselves, certified on all of them; beside what
Dziugaite and Roy 2018 print for Entropy-SGLD under an unproved hypothesis, and Bazinet et al. 2025 for one network."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

import bounds
from experiments.claims import Claim, Comparison, every, judging, least_risk
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp.cli.compressing import Compression, compute
from pacdp.cli.compression_recipes import CLASSES, compression
from pacdp.cli.figures import style
from pacdp.cli.figures.numbers import up
from pacdp.cli.reading import certificates_of
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job, single
from pacdp.compress import Groups, Stop

COMPRESSION = single(compute)
COLUMNS = columns(
    (pl.String, "dataset labels learner"),
    (pl.Int64, "n k errors_left"),
    (pl.Float64, "value"),
    (pl.String, "status"),
    (pl.Float64, "failure_prob"),
    (pl.String, "settings"),
    (pl.Float64, "test_error half_held_out"),
    (pl.Int64, "n_test rounds"),
    (pl.Float64, "seconds"),
    (pl.String, "unit"),
    (pl.Float64, "tolerance"),
    (pl.Int64, "start"),
)
NOTES = (
    "The settings were chosen with the 10,000 test images (of digits the 360) in place of the sample; test errors are "
    "therefore a little too good, and certificates are not touched.",
    "k counts the records that were picked and those in error at the end; half_held_out is Clopper and Pearson's bound "
    "for a network with this test error, rounded down to a count, on half of the n examples, had the other half "
    "trained it as well as all of them: what a held-out count could say at best.",
    "Random labels: two thousand images, so that the run ends; it keeps most of them.",
    "Malaria and X-rays: a record is a patient, who is in error when more than the share in column tolerance of the "
    "patient's images are; certificate and test error are shares of patients.",
    "The official test set of the X-rays is not drawn like their training set: it has another mix of classes, and in a "
    "trial a network learnt from 300 patients erred on twice as large a share of its patients as of 600 others of the "
    "training set. The certificate is about patients like the sample's, and may well lie below that test error.",
    "CIFAR-10: ten thousand images are the sample, seen by oriented gradients and colours of 64 places; where column "
    "start has a number, the network first learnt from so many others, which are not counted in n; it errs on too many "
    "for more picks to help, so that one round of twenty is all there is.",
)
_AT_MOST = Stop(rounds=(240,))
"""Of plain SGD on MNIST, which may go on mending what it has just unlearnt."""
_RANDOM = 2000
_OTHER_LAW = "xrays"
_PICTURES, _STARTED = 10_000, 40_000
"""Images of CIFAR-10 in a sample, and of a head start."""


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every learner on digits, and on images of MNIST at more than the smallest scale."""
    found = list(_jobs(scale, seed))
    return [Job(key=f"compress-{key}", kind=COMPRESSION, config=config, tags=tags) for key, config, tags in found]


def _jobs(scale: Scale, seed: int) -> Iterator[tuple[str, Compression, dict[str, Any]]]:
    smoke = scale == "smoke"
    plan = {
        "digits": ("entropy-sgd", "kernel") if smoke else ("entropy-sgd", "entropy-sgld", "sgd", "adam", "kernel"),
        "digits2": ("entropy-sgd",),
        "mnist2": () if smoke else ("entropy-sgd", "entropy-sgld", "sgd", "kernel"),
        "mnist": () if smoke else ("entropy-sgd", "sgd", "kernel"),
        "malaria": () if smoke else ("adam",),
        "xrays": () if smoke else ("adam",),
    }
    for dataset, learners in plan.items():
        for learner in learners:
            config = compression(learner, dataset, scale=scale, seed=seed)
            if learner == "sgd" and dataset.startswith("mnist"):
                config = replace(config, stop=_AT_MOST)
            if smoke and learner == "entropy-sgd":
                config = replace(config, learner=replace(config.learner, steps=5), groups=Groups(sizes=(100,)),
                                 stop=Stop(rounds=(3,)))  # fmt: skip
            yield f"{learner}-{dataset}", config, {"dataset": dataset, "labels": "true", "learner": learner}
    if not smoke:
        yield from _cifar10(scale, seed)
    dataset, size = ("digits2", 100) if smoke else ("mnist2", _RANDOM)
    config = compression("entropy-sgd", dataset, scale=scale, random_labels=1.0, train_size=size, seed=seed)
    config = replace(config, groups=Groups(sizes=(50,)), chosen_on_test=False, expected=())
    yield f"entropy-sgd-{dataset}-random", config, {"dataset": dataset, "labels": "random", "learner": "entropy-sgd"}


def _cifar10(scale: Scale, seed: int) -> Iterator[tuple[str, Compression, dict[str, Any]]]:
    """A sample of some images by themselves, and one of as many after a head start on the others."""
    config = compression("kernel", "cifar10", scale=scale, train_size=_PICTURES, seed=seed)
    yield "kernel-cifar10", config, {"dataset": "cifar10", "labels": "true", "learner": "kernel"}
    config = compression("adam", "cifar10", scale=scale, seed=seed)
    config = replace(config, learner=replace(config.learner, steps=1), start_size=_STARTED, start_steps=6000,
                     groups=Groups(sizes=(20,)), stop=Stop(rounds=(1,)))  # fmt: skip
    yield "adam-cifar10-start", config, {"dataset": "cifar10", "labels": "true", "learner": "adam"}


def rows(done: Done) -> Iterator[Row]:
    """A row a run; 1 where its sample ran out."""
    report, config = done.result, done.job.config
    made = next((one for one in certificates_of(report) if one.name == "compression"), None)
    details = report["details"].get("compression", {})
    tested = [one for one in report["measured"] if one["on"] == "test"]
    tested = next((one for one in tested if (one["loss"] == "zero-one") == (report["unit"] == "example")), None)
    fixed = None if made is None else made.hypothesis("settings fixed beforehand")
    yield {
        **done.tags,
        "n": report["n"],
        "k": details.get("kept", report["n"]),
        "errors_left": details.get("errors"),
        "value": 1.0 if made is None else made.value,
        "status": "rigorous" if made is None else made.status,
        "failure_prob": config.failure_prob,
        "settings": "the sample ran out" if fixed is None else f"{fixed.standing}: {fixed.by}",
        "test_error": None if tested is None else tested["mean"],
        "n_test": None if tested is None else tested["n"],
        "half_held_out": None if tested is None else _held_out(tested["mean"], report["n"], config.failure_prob),
        "rounds": details.get("number"),
        "seconds": report["details"]["seconds"],
        "unit": report["unit"],
        "tolerance": config.tolerance if report["unit"] == "person" else None,
        "start": config.start_size or None,
    }


def _held_out(error: float, n: int, failure_prob: float) -> float:
    half = n // 2
    return bounds.clopper_pearson_upper(int(error * half), half, failure_prob)


def _one(table: pl.DataFrame, dataset: str, learner: str, name: str = "value") -> float | None:
    chosen = (pl.col("dataset") == dataset) & (pl.col("learner") == learner) & (pl.col("labels") == "true")
    found = table.filter(chosen)[name].to_list()
    return found[0] if found else None


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Published certificates of one network on MNIST."""
    ours = "ours: rigorous, all examples, Entropy-SGD on oriented gradients and one hidden layer"
    yield Comparison("two-class MNIST, certificate", 0.030, _one(table, "mnist2", "entropy-sgd"),
                     f"Dziugaite and Roy 2018: Entropy-SGLD, if its chain had converged; {ours}")  # fmt: skip
    yield Comparison("ten-class MNIST, certificate of one network", 0.0306, _one(table, "mnist", "entropy-sgd"),
                     f"Bazinet et al. 2025: n = 43,200, failure probability 0.005; {ours}")  # fmt: skip


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The targets, and what must hold of every certificate."""
    targets = (("mnist2", 0.030), ("mnist", 0.0200)) if scale != "smoke" else ()
    for dataset, most in targets:
        value = _one(table, dataset, "entropy-sgd")
        told = "missing" if value is None else up(value)
        yield Claim(
            f"{dataset}: Entropy-SGD is certified at {most:.4f} or less.",
            None if value is None else value <= most,
            told,
        )
    true = table.filter((pl.col("labels") == "true") & pl.col("test_error").is_not_null())
    true = true.filter(pl.col("dataset") != _OTHER_LAW)
    tested = list(true.iter_rows(named=True))
    low = [row for row in tested if row["value"] < least_risk(row["test_error"], row["n_test"])]
    said = "; ".join(
        f"{row['dataset']} {row['learner']}: {up(row['value'])}, {row['test_error']:.4f}" for row in tested
    )
    words = "Every certificate is at least its test error, where the test set has the sample's law."
    yield Claim(words, not low if tested else None, said or "none")
    random = table.filter(pl.col("labels") == "random")
    chance = [(row["value"], 1.0 - 1.0 / CLASSES[row["dataset"]]) for row in random.iter_rows(named=True)]
    told = ", ".join(f"{up(value)} where chance is {least:g}" for value, least in chance)
    yield Claim("Random labels are certified at chance or worse.", every([v >= c for v, c in chance]), told or "none")
    small = [row for row in tested if row["dataset"] == "digits"]
    told = "; ".join(f"{row['learner']}: {up(row['value'])} against {up(row['half_held_out'])}" for row in small)
    better = [row["value"] < row["half_held_out"] for row in small]
    yield Claim("On 1,437 digits the best compression certifies less than a count on a held-out half could.",
                any(better) if better else None, told or "none")  # fmt: skip


def _figure(table: pl.DataFrame) -> Any:
    drawn, grid = style.figure(1, 1, width=5.0, height=4.0)
    axes = grid[0][0]
    for row in table.iter_rows(named=True):
        if row["test_error"] is not None:
            axes.plot(row["test_error"], row["value"], "o")
            axes.annotate(f"{row['learner']}, {row['dataset']}", (row["test_error"], row["value"]), fontsize=6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot([1e-3, 1.0], [1e-3, 1.0], color="grey", linewidth=0.8)
    axes.set_xlabel("test error")
    axes.set_ylabel("certificate, 95%")
    axes.set_title("certificates of compressed learners")
    return drawn


STUDY = Study(
    name="compression",
    title="Learners certified on all of their data by sample compression",
    paper="Campi and Garatti 2023; beside Dziugaite and Roy 2018 and Bazinet et al. 2025",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=_figure),
    judge=judging(numbers=numbers, claims=claims, notes=lambda table, scale: NOTES),
)
