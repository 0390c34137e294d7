"""Private priors at the price of their noisy sums: what a certificate is made of, by route, on the same features."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from bounds import Certificate
from experiments.claims import judging
from experiments.figures import private_priors as figures
from experiments.job_costs import by_seeds
from experiments.papers import private_priors_verdict as verdict
from experiments.papers.certificate_parts import PARTS, parts
from experiments.papers.private_priors_verdict import BY_CURVE, KEPT, TAUGHT
from experiments.papers.runs import listed_prior, private_prior, private_priors
from experiments.papers.runs.held_out import DATASETS
from experiments.papers.runs.listed_prior import SHARP
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp.cli.config import Runtime
from pacdp.cli.reading import certificates_of, error_on_test
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job, single

SEEDS = {"mnist": 3, "mnist2": 3}
"""Of the noise, one elsewhere; the split and all settings are the same."""


def _of_split(config: private_priors.Config, runtime: Runtime, folder: Path) -> Row:
    return private_priors.conduct(config, root=runtime.data_root)


def _of_list(config: private_prior.Settings, runtime: Runtime, folder: Path) -> Row:
    return listed_prior.listed(config, root=runtime.data_root)


SPLIT, LISTED = single(_of_split), single(_of_list)


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Both data sets on the split, by seed; and the list-paying prior, as it was and with a larger mu."""
    two, ten = DATASETS[scale]
    made = [*_on_split(ten, scale, seed), *_with_list(ten, scale, seed), *_on_split(two, scale, seed)]
    return [Job(key=key, kind=kind, config=config, tags=tags) for key, kind, config, tags in made]


Named = tuple[str, Any, Any, dict[str, Any]]


def _on_split(dataset: str, scale: Scale, seed: int) -> Iterator[Named]:
    base = private_priors.SMOKE if scale == "smoke" else private_priors.MNIST
    for own in range(seed, seed + SEEDS.get(dataset, 1)):
        config = replace(base, dataset=dataset, seed=own)
        yield f"split-{dataset}-{own}", SPLIT, config, {"dataset": dataset, "recipe": "split", "seed": own}


def _with_list(dataset: str, scale: Scale, seed: int) -> Iterator[Named]:
    base = private_prior.SMOKE if scale == "smoke" else private_prior.MNIST
    for name, more in {"list": {}, "list, larger mu": LARGER}.items():
        config = replace(base, dataset=dataset, seed=seed, **({} if scale == "smoke" else more))
        key = f"{name.replace(', ', '-').replace(' ', '-')}-{dataset}"
        yield key, LISTED, config, {"dataset": dataset, "recipe": name, "seed": seed}


LARGER: dict[str, Any] = {"head_mu": 0.05, "centre_mu": 0.01, "clip_norm": 0.03, "path": 2000.0}
"""All of the same list, which is paid for."""


LABELS = {
    ("split", "head of zeros", "randomised"): "prior that saw no digit of the bound, posterior",
    ("list", BY_CURVE, "randomised"): "private, list of settings: as it was",
    ("list", SHARP, "randomised"): "the same at the price of its sums",
    ("list, larger mu", SHARP, "randomised"): "private, same list, larger mu: price of its sums",
    ("split", "clipped, by its privacy curve", "randomised"): "private, split: privacy curve",
    ("split", "clipped", "randomised"): "private, split: price of its sums",
    ("split", "clipped", "weights"): "the private head as it is",
    ("split", KEPT, "randomised"): "kept norms, split: posterior",
    ("split", KEPT, "weights"): "kept norms: the trajectory's certificate",
    ("split", f"{TAUGHT}, counted", "prior mean"): "head from the choosing rows alone, counted",
    ("split", TAUGHT, "randomised"): "the same as prior, posterior",
}
"""Recipe, route and predictor of what the figure shows."""


def rows(done: Done) -> Iterator[Row]:
    """A row a certificate of a 0-1 risk."""
    report, recipe = done.result, done.tags["recipe"]
    first = KEPT if recipe == "split" else BY_CURVE
    for route, one in {first: report, **report["details"]["references"]}.items():
        for made in certificates_of(one):
            if made.measures == "0-1 risk":
                label = LABELS.get((recipe, route, made.of)) if not made.name.startswith("test_set") else None
                yield {**done.tags, "route": route, "label": label, "shown": label is not None, **_row(made, one)}


def _row(made: Certificate, report: Row) -> Row:
    count, chosen = report["choices"]["count"], (report["prior"] or {}).get("choice_nats", 0.0)
    tested = report["details"].get("errors_of_weights", {}).get("test") if made.of == "weights" else None
    if tested is None:
        tested = error_on_test(report, made.of, made.measures)
    counted = made.name.startswith("test_set")
    own = {} if counted else parts(made, count=count, choice_nats=chosen if made.of == "randomised" else 0.0)
    return own | {
        "of": made.of,
        "certificate": made.name,
        "value": made.value,
        "status": made.status,
        "settings": count,
        "failure_prob": made.failure_prob,
        "n": made.inputs.get("n", report["n"]),
        "test_error": tested,
        "n_test": next((one["n"] for one in report["measured"] if one["on"] == "test"), None),
        "below_test": tested is not None and made.value < tested,
    }


_COLUMNS = columns(
    (pl.String, "dataset recipe route of label certificate status"),
    (pl.Boolean, "shown below_test"),
    (pl.Int64, "seed n n_test settings"),
    (pl.Float64, "value failure_prob test_error error sampled_error kl_nats prior_nats choice_nats log_xi_nats"),
) | dict.fromkeys(PARTS[1:], pl.Float64)

STUDY = Study(
    name="private-priors",
    title="Private priors at the price of their noisy sums",
    paper="this project; private priors as in Dziugaite and Roy 2018",
    jobs=jobs,
    table=tabled(rows, _COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(
        claims=verdict.claims,
        notes=lambda table, scale: verdict.NOTES,
        numbers=verdict.numbers,
        points=verdict.points,
        settled_by=by_seeds(jobs),
    ),
)
