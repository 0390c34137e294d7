"""Planted tables of the studies of certificates: committed ones, and some made by hand, whose aims can be missed."""

from typing import Any

import polars as pl
from planted import World

from experiments.papers import learnt_posteriors
from experiments.papers import private_priors_verdict as priors
from experiments.papers import temperature_verdict as ladders
from experiments.papers.private_priors import STUDY as PRIORS
from experiments.papers.runs.small_samples import COMPRESSED, COUNT, HALF, NOTHING
from experiments.papers.runs.small_samples import PRIVATE as PRIVATELY
from experiments.papers.trajectory import TARGETS, TRAJECTORY
from experiments.registry import study
from experiments.runner import RESULTS, read_table

Row = dict[str, Any]
WORTH = {"PRIVATE": 0.026, "NORMS": 0.022, "CURVE": 0.1, "ZEROS": 0.05, "COUNTED": 0.03, "OLD": 0.055,
         "OLD_SHARP": 0.041, "LARGER_SHARP": 0.039}  # fmt: skip


def _priors():
    """Ten and two classes at three seeds each, by route."""
    for dataset in ("mnist", "mnist2"):
        for name, value in WORTH.items():
            where = getattr(priors, name)
            for seed in range(3 if where["recipe"] == "split" else 1):
                own = value + 1e-4 * seed
                kind = "new_examples_clopper_pearson" if name == "COUNTED" else "randomised_noisy_sum_maurer"
                row = {**where, "dataset": dataset, "seed": seed, "value": own, "status": "rigorous",
                       "certificate": kind, "test_error": own / 2, "below_test": False, "n_test": 10_000}  # fmt: skip
                yield row
                if name in ("PRIVATE", "NORMS"):
                    yield {**row, "of": "weights", "value": own + 0.005}


def _prior(name, value, **more):
    return {**getattr(priors, name), **more}, {"value": value}


MANY = pl.col("seed") * 0.002 + 0.0275
OF_PRIORS = [
    ("(clipped sums) certifies at most", {}, {}, True),
    ("norms were kept certifies at most", {}, {}, True),
    ("(clipped sums) certifies at most 0.0400", *_prior("PRIVATE", 0.0401, seed=1), False),
    ("(clipped sums) certifies at most 0.0330", *_prior("PRIVATE", 0.034), False),
    ("norms were kept certifies at most", *_prior("NORMS", 0.041), False),
    ("at the price of its sums) certifies", {}, {}, False),
    ("at the price of its sums) certifies", *_prior("OLD_SHARP", 0.03), True),
    ("larger mu) certifies", {}, {}, True),
    ("larger mu) certifies", *_prior("LARGER_SHARP", 0.041), False),
    ("at least a tenth less risk", {}, {}, True),
    ("than the same at the price", *_prior("CURVE", 0.02), False),
    ("than one that saw no row", *_prior("ZEROS", 0.0265), False),
    ("than one that saw no row", *_prior("ZEROS", MANY), None),
    ("than a private one", *_prior("NORMS", 0.026), False),
    ("than the private head", *_prior("PRIVATE", 0.0262, of="weights"), False),
    ("than the trajectory's own weights", *_prior("NORMS", 0.0222, of="weights"), False),
    ("taught, counted", *_prior("COUNTED", 0.012), False),
    ("Every rigorous certificate", priors.PRIVATE, {"value": 0.001, "below_test": True}, False),
]


def _aims():
    """One certificate an aim, a tenth below it, and what must hold of every certificate."""
    for limit, where, classes in TARGETS.values():
        yield {"sampler": "SGHMC", "dataset": "mnist" if classes == 10 else "mnist2", "of": "weights", **where,
               "status": "rigorous", "certificate": "realised_sum_maurer", "value": 0.9 * limit,
               "test_error": 0.4 * limit, "n_test": 10_000}  # fmt: skip
    usual = {"sampler": "DP-SGD", "learner": "linear", "of": "weights", "n_test": 10_000, "status": "rigorous"}
    for price, value in (("clipped sums", 0.2), ("privacy curve", 0.3)):
        yield usual | {"dataset": "mnist", "price": price, "value": value, "test_error": 0.1}
    yield usual | {"dataset": "mnist+random", "price": "realised norms", "value": 0.95, "test_error": 0.9}
    yield usual | {"dataset": "mnist", "price": "none", "status": "optimistic", "value": 0.1, "test_error": 0.05}


OF_AIMS = [
    ("", {}, {}, True),
    ("certified at most at", {"certificate": "realised_sum_maurer"}, {"value": 0.11}, False),
    ("Every rigorous", {"price": "clipped sums"}, {"value": 0.05}, False),
    ("So is every optimistic", {"status": "optimistic"}, {"value": 0.01}, False),
    ("Random labels", {"price": "realised norms"}, {"value": 0.89}, False),
    ("noisy sums is below", {"price": "clipped sums"}, {"value": 0.31}, False),
]


def _few():
    """Certificates of a few records by five routes, at two sizes and three seeds."""
    for route, value in {COUNT: 0.02, HALF: 0.04, NOTHING: 0.1, COMPRESSED: 0.2, PRIVATELY: 0.3}.items():
        for n, seed in ((n, seed) for n in (500, 5000) for seed in range(3)):
            yield {"dataset": "mnist", "unit": "example", "route": route, "certificate": "x", "status": "rigorous",
                   "records": n, "seed": seed, "n_test": 5000, "value": value + 1e-4 * seed,
                   "test_error": 0.01}  # fmt: skip


OF_FEW = [
    ("", {}, {}, True),
    (f"{COUNT} certifies less", {"route": COUNT, "records": 5000}, {"value": 0.25}, False),  # at one size
    (f"{HALF} certifies less", {"route": HALF}, {"value": 0.15}, False),
    (f"{NOTHING} certifies less", {"route": NOTHING}, {"value": 0.35}, False),
    (f"{COUNT} certifies less than {HALF}", {"route": COUNT}, {"value": 0.02 + 0.03 * pl.col("seed")}, None),
    ("at least its predictor's test error", {"route": HALF}, {"value": 0.001}, False),
]
OF_LEARNT = [
    ("Every certificate", {}, {}, True),
    ("Every certificate", {"kind": "stages", "dataset": "mnist"}, {"value": 0.001}, False),
    *(("prior that saw nothing", {}, {"value": value}, holds) for value, holds in ((0.05, True), (0.2, False))),
    ("on the same features", {"recipe": "gradients"}, {"value": 0.9}, False),
    ("on the same features", {}, {}, True),
    ("random waves", {"recipe": "gradients and waves"}, {"value": 0.02}, True),
    ("random waves", {"recipe": "gradients and waves"}, {"value": 0.9}, False),
    ("learnt filters", {}, {}, True),
    ("learnt filters", {}, {"by_learnt_filters": 0.99}, False),
    ("3 stages", {}, {}, True),
    ("3 stages", {"kind": "stages"}, {"value": 0.5}, False),
]
HALF_OF_DATA, PRIVATE_HEAD = ({"recipe": recipe, "of": "randomised"} for recipe in ("held-out", "private-prior"))
LIES = {"value": 0.001, "below_test": True}
OF_CERTIFICATES = [
    (("Every rigorous", "So is every optimistic", "No test error contradicts"), {}, {}, True),
    ("Every rigorous", HALF_OF_DATA, LIES, False),
    ("Every rigorous", HALF_OF_DATA, {"value": pl.col("test_error") - 1e-4, "below_test": True}, None),
    ("So is every optimistic", {"status": "optimistic"}, LIES, False),
    ("No test error contradicts", {"recipe": "data-free", "of": "prior mean"}, LIES, False),
    ("than its prior's mean", {}, {}, False),
    ("than its prior's mean", HALF_OF_DATA, {"value": 0.0}, True),
    (("than a data-free one.", "without either", "a head of zeros"), {}, {}, True),
    ("than a data-free one.", HALF_OF_DATA, {"value": 0.99}, False),
    (("without either", "a head of zeros"), PRIVATE_HEAD, {"value": 0.99}, False),
]
OF_COMPRESSION = [
    (("is certified at", "Every certificate", "Random labels"), {}, {}, True),
    ("is certified at", {"learner": "entropy-sgd"}, {"value": 0.031}, False),
    ("Every certificate", {"labels": "true"}, {"value": 0.001}, False),
    ("Random labels", {"labels": "random"}, {"value": 0.4}, False),
    ("On 1,437 digits", {"dataset": "digits"}, {"value": 0.01}, True),
    ("On 1,437 digits", {}, {}, False),
]
OF_ROUTES = [
    ("", {}, {}, True),
    ("Every certificate", {}, {"value": 0.0001}, False),
    ("A count on a held-out half", {"route": "count on a held-out half"}, {"value": 0.9}, False),
    ("Compression of all", {"route": "compression of all"}, {"value": 0.99}, False),
    ("grow more slowly", {"route": "compression of all"}, {"k": pl.col("n")}, False),
]


def rung(times, error, **changes):
    """What a chain says at so many times the temperature of the paper."""
    return {
        "about": "ladder", "network": "FC100", "norm": "none", "algorithm": "Entropy-SGLD", "start": "sgd",
        "tau": times * 60_000**0.5, "times": times, "epsilon": 0.0325 * times, "n": 60_000, "mean_error": error,
        "mean_error_mcse": 0.001, "mean_loss": 4 * error, "mean_loss_mcse": 0.001, "prior_loss": 2.0,
        "test_error": error, "base_std": 1.0, "step_size": 0.2, "momentum": 0.0, "outer_momentum": 0.0,
        "inner_step_size": 2.0, "inner_steps": 20, **dict.fromkeys((*ladders.WEIGHTS, *ladders.GIBBS), 0.9), **changes,
    }  # fmt: skip


LADDER = [
    rung(1.0, 0.02, start="base"), rung(1.0, 0.021), rung(100.0, 0.01), rung(100.0, 0.01, start="base"),
]  # fmt: skip
BASE = {"start": "base", "times": 1.0}
OF_LADDER = [
    (("about 2%", "SGD's weights meet", "at every temperature"), {}, {}, True),
    ("about 2%", {"times": 1.0}, {"mean_error": 0.2}, False),
    ("about 2%", {"times": 1.0}, {"mean_error": 0.05, "mean_error_mcse": 0.01}, None),
    (("SGD's weights meet", "at every temperature"), BASE, {"mean_error": 0.3}, False),
]


def _committed(name, turns):
    return World(study(name), read_table(RESULTS / name / "cpu"), turns, scale="cpu")


WORLDS = [
    World(PRIORS, pl.DataFrame(list(_priors()), infer_schema_length=None), OF_PRIORS, scale="cpu"),
    World(TRAJECTORY, pl.DataFrame(list(_aims()), infer_schema_length=None), OF_AIMS, scale="cpu"),
    World(study("small-samples"), pl.DataFrame(list(_few())), OF_FEW, scale="cpu"),
    World(study("temperature-map"), pl.DataFrame(LADDER), OF_LADDER, scale="cpu", about="Entropy-SGLD, FC100"),
    _committed("learnt-posteriors", OF_LEARNT)._replace(claims=learnt_posteriors.claims),
    _committed("compression", OF_COMPRESSION),
    _committed("compression-routes", OF_ROUTES), _committed("certificates", OF_CERTIFICATES),
]  # fmt: skip
