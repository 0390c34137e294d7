"""The table of certificates: data sets, priors, posteriors, each with what it assumes and what it costs; beside what
Dziugaite and Roy 2018, Pérez-Ortiz et al. 2021 and Viallard et al. 2023 publish."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from bounds import Certificate, unproved
from experiments.claims import Claim, Comparison, Point, decide, every, judging, least_risk, point, say
from experiments.figures import certificates as figures
from experiments.papers.chains import BRIEF
from experiments.papers.runs import finite, held_out, private_prior
from experiments.papers.runs.certified import certified_chain
from experiments.papers.runs.held_out import DATASETS, NETWORKS_TRIED, HeldOutConfig, held_out_config, sizes
from experiments.study import Done, Row, Study, drawing, tabled
from experiments.tables import column, part
from pacdp import Settings
from pacdp.backprop import PosteriorSettings
from pacdp.backprop.network import SmallCNN
from pacdp.cli.config import Run, Runtime
from pacdp.cli.figures.numbers import up
from pacdp.cli.reading import certificates_of, error_on_test
from pacdp.cli.recipes import Scale, recipe
from pacdp.cli.sweep.jobs import Job, single

_CHAINS = ("entropy-sgld", "entropy-sgld-clipped", "entropy-sgd-clipped", "sgd")
_TEST_SET = "test_set_clopper_pearson"
_COMPARED = Settings(
    hypothesis=unproved("settings fixed beforehand", "some settings were compared on MNIST, and nothing pays for that")
)
PUBLISHED = (
    (
        *("posterior drawn anew for every answer: certificate", 0.0155, "randomised"),
        "PAC-Bayes with backprop, prior from half the data (Pérez-Ortiz et al. 2021, f_quad, a four-layer CNN)",
    ),
    (
        *("one network drawn from the posterior: certificate", 0.012, "one draw"),
        "disintegrated bounds, prior from half the data (Viallard et al. 2023)",
    ),
)
COUNT = ("held-out", "prior mean")
"""The errors that the network from one half of the data makes on the other, counted."""
GAIN = "the randomised network certifies less risk than its prior's mean by a count of errors on the same examples"
PAIRS = {
    "a prior from half the data certifies less risk than a data-free one": ("held-out", "data-free"),
    "a prior with privately made centre of features and head certifies less risk than a data-free one without either": (
        "private-prior",
        "private-prior: independent prior",
    ),
    "a private head as prior certifies less risk than a head of zeros on the same privately centred features": (
        "private-prior",
        "private-prior: zero head",
    ),
}
"""One prior against another, by their randomised networks; a posterior may be its prior (:func:`idle`)."""
NOTES = (
    "Each certificate has its failure probability by itself: quoting the smallest of k needs k times as much.",
    "Settings of the data-free, held-out, finite and private-prior recipes were chosen with MNIST in view; column "
    "compared says among how many settings the choice is paid for, in the failure probability of each certificate. The "
    "lists were written down after the tries. Rows of the test set do not pay for test errors that were looked at.",
    "Settings of Entropy-SG(L)D, clipped or not, were tried on MNIST too, and nothing pays for that: their rows are "
    "statements about settings fixed beforehand.",
    "The test images of MNIST are other people's handwriting than the training images: a bound for the law of the "
    "latter may lie below an error on the former.",
    "Optimistic rows assume that SGLD has converged, which nothing shows.",
)


def _of_held_out(config: HeldOutConfig, runtime: Runtime, folder: Path) -> Row:
    done = held_out.held_out(config, root=runtime.data_root, device=runtime.device, resume=folder / "draws.json")
    return done.to_dict()


def _of_finite(config: finite.FiniteConfig, runtime: Runtime, folder: Path) -> Row:
    return finite.finite(config, root=runtime.data_root)


def _of_private_prior(config: private_prior.Settings, runtime: Runtime, folder: Path) -> Row:
    return private_prior.conduct(config, root=runtime.data_root).to_dict()


def _of_chain(run: Run, runtime: Runtime, folder: Path) -> Row:
    return certified_chain(run, runtime, folder, unlisted=_COMPARED) | {"provenance": None}


HELD_OUT, FINITE = single(_of_held_out), single(_of_finite)
PRIVATE_PRIOR, CHAIN = single(_of_private_prior), single(_of_chain)


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every pair of prior and posterior, on two-class and on ten-class images."""
    return [
        Job(key=f"{name}-{dataset}", kind=kind, config=config, tags={"dataset": dataset, "recipe": name})
        for dataset in DATASETS[scale]
        for name, kind, config in _on(dataset, scale, seed)
    ]


def _on(dataset: str, scale: Scale, seed: int) -> Iterator[tuple[str, Any, Any]]:
    smoke = scale == "smoke"
    yield "data-free", HELD_OUT, _data_free(dataset, smoke=smoke, seed=seed)
    yield "held-out", HELD_OUT, held_out_config(dataset, scale="smoke" if smoke else "cpu", seed=seed)
    own: dict[str, Any] = {"compared": sizes(private_prior.FEATURES_TRIED)}  # chosen with MNIST in view
    if smoke:
        own = {"orientations": 8, "cells": 4, "scale": 0.7, "networks": 4, "iterations": 10}
    yield "finite", FINITE, finite.FiniteConfig(dataset=dataset, seed=seed, **own)
    base = private_prior.SMOKE if smoke else private_prior.MNIST
    yield "private-prior", PRIVATE_PRIOR, replace(base, dataset=dataset, seed=seed)
    recipes = {name: recipe(f"{name}-{dataset}", scale=scale, seed=seed) for name in _CHAINS}
    chains = {name: replace(run, reproducible=True) for name, run in recipes.items()}
    if smoke:
        less: dict[str, Any] = {"epochs": 1.0, "records": 1, "track": BRIEF, "certify": BRIEF}
        chains = {name: replace(run, **less) for name, run in chains.items()
                  if dataset == "digits" or not name.endswith("clipped")}  # fmt: skip
    for name, run in chains.items():
        yield name, CHAIN, run
    long, shortest = chains["entropy-sgld"], chains.get("entropy-sgld-clipped")
    if shortest and long.epochs != shortest.epochs:  # as long as the clipped one, side by side
        yield "entropy-sgld-short", CHAIN, replace(long, epochs=shortest.epochs, records=shortest.records)


def _data_free(dataset: str, *, smoke: bool, seed: int) -> HeldOutConfig:
    base = HeldOutConfig(dataset=dataset, prior_share=0.0, prior_std=0.03, passes=2, seed=seed)
    if smoke:
        posterior = PosteriorSettings(steps=10, batch_size=128)
        return replace(base, network=SmallCNN(channels=(4, 8), hidden=16), posterior=posterior)
    # prior_std was chosen with MNIST in view, among 1, 2, 3, 5 times 10^-1, 10^-2, 10^-3, and the network; steps and
    # step size are the posterior's, at a seed whose draws none was chosen by
    return replace(base, posterior=PosteriorSettings(steps=4000, step_size=0.005), compared=12 * NETWORKS_TRIED)


def rows(done: Done) -> Iterator[Row]:
    """A row a certificate of a risk or of half a Brier risk."""
    report, name = done.result, done.tags["recipe"]
    references = report["details"].get("references", {})
    for recipe_, one in {name: report, **{f"{name}: {k.replace('_', ' ')}": v for k, v in references.items()}}.items():
        for made in certificates_of(one):
            yield {"dataset": done.tags["dataset"], "recipe": recipe_, **_row(made, one)}


def _row(made: Certificate, report: dict[str, Any]) -> Row:
    test_error, costs = error_on_test(report, made.of, made.measures), {one.name: one for one in made.costs}
    source = (report["prior"] or {}).get("source")
    fixed, transfer, kl = made.hypothesis("settings fixed beforehand"), costs.get("transfer"), costs.get("kl")
    return {
        "of": made.of,
        "measures": made.measures,
        "certificate": made.name,
        "value": made.value,
        "status": made.status,
        "settings": f"{fixed.standing}: {fixed.by}",
        "test_error": test_error,
        "failure_prob": made.failure_prob,
        "compared": report["choices"]["count"],
        "n": made.inputs.get("n", report["n"]),
        "prior": source,
        "empirical_risk": made.terms.get("empirical_risk"),
        "kl_nats": kl.nats if kl else None,
        "total_per_example": made.total_per_example if costs else None,
        "privacy_per_example": transfer.per_example if transfer else None,
        "below_test": test_error is not None and made.value < test_error,
        "n_test": next((one["n"] for one in report["measured"] if one["on"] == "test"), None),
        "trained": made.of != "prior mean" or source != "DataFree",
    }


def _risks(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter((pl.col("measures") == "0-1 risk") & (pl.col("certificate") != _TEST_SET))


def _value(risks: pl.DataFrame, dataset: str, name: str, of: str) -> float | None:
    found = column(risks, "value", {"dataset": dataset, "recipe": name, "of": of, "status": "rigorous"})
    return found[0] if found else None


def _up(certificate: float | None) -> str:
    return "missing" if certificate is None else up(certificate)


def idle(risks: pl.DataFrame) -> set[tuple[str, str]]:
    """The data sets and recipes whose posterior is its prior, KL = 0: no posterior was learnt.

    Their certificates hold. With a prior from other examples they are test-set bounds of that prior's network.
    """
    return set(part(risks, of="randomised", kl_nats=0).select("dataset", "recipe").iter_rows())


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Published certificates of ten-class MNIST; a test-set bound does not answer for one with a posterior."""
    small, dataset, risks = SmallCNN(), DATASETS[scale][1], _risks(table)
    ours = (
        f"ours: a CNN of {small.channels[0]} and twice {small.channels[1]} channels and {small.hidden} hidden units, "
        "trained on augmented images, at the recipe's failure probability, with the choice of its settings paid for"
    )
    still = (dataset, "held-out") in idle(risks)
    for what, printed, of, origin in PUBLISHED:
        value = _value(risks, dataset, "held-out", of)
        none = "; ours learnt no posterior (KL = 0) and is a test-set bound: see the next numbers" if still else ""
        yield Comparison(f"{dataset}, {what}", printed, None if still else value, f"{origin}; {ours}{none}")
        if still:
            what = f"{dataset}, {of} of the prior from half the data, KL = 0: test-set bound"
            yield Comparison(what, None, value, "no PAC-Bayes certificate: of the network that saw the other half")
    what = f"{dataset}, that network itself: errors counted on the same examples (Clopper-Pearson)"
    yield Comparison(what, None, _value(risks, dataset, *COUNT), "the plain count, without noise on the weights")
    for name, prior in (("data-free", "network"), ("private-prior: independent prior", "linear on fixed features")):
        value = _value(risks, dataset, name, "randomised")
        why = "a posterior learnt from a prior that saw nothing; no published number is at hand"
        yield Comparison(f"{dataset}, {prior}: certificate with a data-free prior", None, value, why)


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Against the test errors, of one prior against another, and of a posterior against a count."""
    risks = _risks(table)
    rigorous, trained = pl.col("status") == "rigorous", pl.col("trained")
    first = "Every rigorous certificate of a trained classifier is at least its test error."
    yield above(first, risks.filter(rigorous & trained))
    yield above("So is every optimistic one.", risks.filter(pl.col("status") == "optimistic"))
    yield uncontradicted(risks.filter(rigorous & ~trained))
    for dataset in DATASETS[scale]:
        one, count = _value(risks, dataset, "held-out", "randomised"), _value(risks, dataset, *COUNT)
        said = " (KL = 0: a test-set bound of the prior itself)" if (dataset, "held-out") in idle(risks) else ""
        less = decide(lambda one, count: one < count, one, count)
        yield Claim(f"{dataset}: {GAIN}.", less, f"{_up(one)}{said} against {_up(count)}")
        for sentence, names in PAIRS.items():
            values = [_value(risks, dataset, name, "randomised") for name in names]
            still = [name for name in names if (dataset, name) in idle(risks)]
            told = " against ".join(_up(value) for value in values)
            told += f"; {' and '.join(still)}: KL = 0, the certificate of the prior itself" if still else ""
            less = decide(lambda one, other: one < other, *values)
            yield Claim(f"{dataset}: {sentence}.", less, told)


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """What the certificates are worth, on ten classes."""
    risks, dataset = _risks(table), DATASETS[scale][1]
    rigorous = part(risks, status="rigorous", trained=True).height
    yield point(
        claims,
        "Every rigorous",
        f"All {rigorous} rigorous certificates of trained classifiers lie above their test errors",
    )
    ours, blind = (
        decide(up, _value(risks, dataset, name, "randomised"))
        for name in ("private-prior", "private-prior: independent prior")
    )
    said = "A private prior certifies less than one that saw nothing, on fixed features: {ours} against {blind}"
    yield point(claims, f"{dataset}: a prior with privately made", say(said, ours=ours, blind=blind))
    held, count = (decide(up, _value(risks, dataset, "held-out", of)) for of in ("randomised", COUNT[1]))
    said = (
        "With half of the data as prior PAC-Bayes beats a count of errors on the other half: {held} against "
        "{count} counted"
    )
    said += "; no posterior was learnt (KL = 0)" if (dataset, "held-out") in idle(risks) else ""
    yield point(claims, f"{dataset}: {GAIN}", say(said, held=held, count=count))


def uncontradicted(rows: pl.DataFrame) -> Claim:
    """Untrained networks err about as often as guessing, and their certificates lie close above that: they are asked
    for the least risk that the test errors leave possible, with 95% confidence each."""
    found = above("", rows)
    sentence = "No test error contradicts a rigorous certificate of an untrained network (95% confidence each)."
    return Claim(sentence, None if rows.is_empty() else found.holds is not False, found.evidence)


def above(sentence: str, rows: pl.DataFrame) -> Claim:
    """None where a test error lies above its certificate by no more than 95% confidence in it allows."""
    compared = rows.filter(pl.col("test_error").is_not_null())
    able = compared.filter(pl.col("value") < 1.0)
    seen, said = list[bool | None](), list[str]()
    for row in able.filter(pl.col("below_test")).iter_rows(named=True):
        least = least_risk(row["test_error"], row["n_test"]) if row["n_test"] else None
        seen.append(False if least is None or row["value"] < least else None)
        where = f"{row['dataset']} {row['recipe']}, {row['of']}, {row['certificate']}"
        limit = "" if least is None else f" (risk at least {least:.4f} at 95%)"
        said.append(f"{where}: {row['value']:.4f} < test error {row['test_error']:.4f}{limit}")
    vacuous = compared.height - able.height
    more = f" ({vacuous} more are 1, which nothing exceeds)" if vacuous else ""
    told = f"{able.height} compared{more}; {'; '.join(said) or 'none below'}"
    return Claim(sentence, every(seen or [True] * able.height), told)


STUDY = Study(
    name="certificates",
    title="Certificates of two-class and ten-class digits, by prior and posterior",
    paper="Dziugaite and Roy 2018; Pérez-Ortiz et al. 2021; Viallard et al. 2023",
    jobs=jobs,
    table=tabled(rows),
    draw=drawing(figure=lambda table: figures.draw(table, _TEST_SET, idle(_risks(table)))),
    judge=judging(numbers=numbers, claims=claims, notes=lambda table, scale: NOTES, points=points),
)
STUDIES = (STUDY,)
