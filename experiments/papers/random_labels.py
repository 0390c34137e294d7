"""Random labels: Dziugaite and Roy (2018), Figure 1 and Section 5.2, on small networks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Point, judging, point, say
from experiments.figures import chains as figures
from experiments.job_costs import by_seeds
from experiments.papers import gaps
from experiments.papers.chains import (
    BOUNDS,
    BRIEF,
    LABELS,
    MEASURED,
    compared,
    final,
    first,
    guessing,
    last,
    noise,
    noise_up_to,
    pick,
    private,
    records,
)
from experiments.papers.gaps import HARMLESS, HIGH, OVERFITS, gap
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp.cli import recipes
from pacdp.cli.recipes import Scale, run, tau_of
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import sampler_job

NOISES: dict[Scale, dict[str, tuple[float, ...]]] = {
    "smoke": {"sgld": (0.01, 0.1), "entropy-sgd": (0.01, 0.1)},
    "cpu": {"sgld": (0.001, 0.01, 0.05), "entropy-sgd": (0.001, 0.005, 0.01, 0.05)},
    "gpu": {"sgld": (0.001, 0.005, 0.01, 0.05, 0.1), "entropy-sgd": (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1)},
    "paper": {"sgld": (0.001, 0.005, 0.01, 0.05, 0.1), "entropy-sgd": (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1)},
}
DATASETS: dict[Scale, str] = {"smoke": "digits2", "cpu": "mnist2", "paper": "mnist2"}
_MADE = {
    "smoke": "Two-class 8x8 digits, one hidden layer of 100, 4 epochs; theirs: two-class MNIST, a convolutional "
    "network, thousands of epochs.",
    "cpu": "One hidden layer of 100, 150 epochs, an outer step of 2; theirs: a convolutional network, thousands of "
    "epochs, an outer base step of 0.006.",
    "paper": "Convolutional network and settings as theirs, as far as they are printed.",
}
_UNFITTED = (
    "A low gap on random labels at a training error near that of guessing is that of a network which has fitted none "
    "of them."
)
_OTHER_STUDY = (
    "entropy-sgld-figure-1 judges the same sentences in a setting of its own (network, number of examples, epochs), "
    "and need not decide them alike."
)


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every run: SGD, then each algorithm at its noises, then SGLD and Entropy-SGLD at the private setting τ = √n."""
    dataset = DATASETS[scale]
    less = {"epochs": 4.0, "records": 2, "track": BRIEF, "certify": BRIEF} if scale == "smoke" else {}
    private_noise = math.sqrt(2.0 / math.sqrt(recipes.SIZES[dataset]))
    plan = [("sgd", 0.0, None), ("entropy-sgld", private_noise, None), ("sgld", private_noise, None)]
    plan += [(algorithm, at, tau_of(at)) for algorithm, noises in NOISES[scale].items() for at in noises]
    found = []
    for labels, share in LABELS.items():
        for algorithm, at, tau in plan:
            made = run(algorithm, dataset, scale=scale, tau=tau, random_labels=share, seed=seed)
            made = replace(made, **less)
            found.append(sampler_job(made, algorithm=made.algorithm, labels=labels, thermal_noise=at))
    return found


def rows(done: Done) -> Iterator[Row]:
    """One row a record: errors, KL, epsilon and all bounds."""
    tau = {"tau": getattr(done.job.config.sampler, "tau", None)}
    return (row | tau for row in records(done))


_MEASURED = MEASURED.replace("test_error gibbs_train", "test_error n_test gibbs_train")
COLUMNS = columns(
    *((pl.String, "algorithm labels"), (pl.Float64, "thermal_noise tau"), (pl.String, "run"), (pl.Int64, "step")),
    (pl.Float64, f"epochs epochs_over_l {_MEASURED} {' '.join(BOUNDS)}"),
) | {"n_test": pl.Int64}


def summary(plan: Sequence[Job], table: pl.DataFrame) -> dict[str, Any]:
    """How many bounds were compared with test errors, which lie below them, and where each run ended."""
    ends = "algorithm labels thermal_noise epochs train_error test_error gibbs_train_error gibbs_test_error kl_nats"
    ends += " dp_pac_bayes_2018 dp_pac_bayes dp_kl_chernoff"
    return {
        "runs": len(plan),
        "rows": table.height,
        "bounds_compared": int(sum(table[name].is_not_null().sum() for name in BOUNDS if name in table.columns)),
        "violations": gaps.violations(table),
        "final": final(table).select(ends.split()).to_dicts(),
    }


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The last records beside the printed numbers."""
    found = _last(table, scale)
    entropy, sgld = (first(pick(found, name, "true", private)) for name in ("Entropy-SGLD", "SGLD"))
    noisy = first(pick(found, "SGLD", "true", noise(0.1)))
    true = "Entropy-SGLD, true labels"
    why = gaps.epsilon_why(entropy, paper_n=recipes.SIZES["mnist2"])
    yield compared(f"{true}: epsilon (Figure 1)", "0.0327", entropy, "epsilon", why)
    sgld_s = "SGLD at the same privacy, true labels: C-bound (Figure 3)"
    for what, paper, row, name in (
        (f"{true}: test error of the Gibbs classifier (Section 5.2)", "approximately 2%", entropy, "gibbs_test_error"),
        (f"{true}: test error of the mean classifier (Section 5.2)", "approximately 2%", entropy, "test_error"),
        (f"{true}: PAC-Bayes bound (Section 5.2)", "roughly 3%", entropy, "dp_pac_bayes_2018"),
        (f"{true}: C-bound on the mean classifier (Figure 3)", "roughly 4%", entropy, "dp_chernoff_2018"),
        (sgld_s, "around 8%", sgld, "dp_chernoff_2018"),
        ("SGLD at thermal noise 0.1, true labels: risk (Figure 1)", "close to 50%", noisy, "test_error"),
    ):
        yield compared(what, paper, row, name, _MADE[scale] if row else "not run")


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences of Section 5.2 and Figures 1 and 3."""
    found, chance = _last(table, scale), guessing(DATASETS[scale])
    true, random = (pick(found, "Entropy-SGLD", labels, private) for labels in ("true", "random"))
    mid = [row for labels in ("true", "random") for row in pick(found, "Entropy-SGD", labels, noise(0.01))]
    for sentence, rows, limit in (
        ("SGD overfits random labels.", pick(found, "SGD", "random"), {"least": OVERFITS}),
        (
            "On random labels, SGLD has high generalization error for thermal noise 0.01 and below.",
            *(pick(found, "SGLD", "random", noise_up_to(0.01)), {"least": HIGH}),
        ),
        (
            "On random labels, Entropy-SGD overfits for thermal noise 0.005 and below.",
            *(pick(found, "Entropy-SGD", "random", noise_up_to(0.005)), {"least": OVERFITS}),
        ),
        (
            "At 0.01 thermal noise, Entropy-SGD has low generalization error on both true and random labels.",
            *(mid, {"most": OVERFITS}),
        ),
        ("On true labels, the generalization error of Entropy-SGLD is close to zero.", true, {"most": HARMLESS}),
        ("On random labels, Entropy-SGLD does not overfit.", random, {"most": HARMLESS}),
        (
            "On random labels, SGLD at the same privacy does not overfit.",
            *(pick(found, "SGLD", "random", private), {"most": HARMLESS}),
        ),
    ):
        yield gaps.gaps_claim(sentence, rows, among=found, chance=chance, **limit)
    yield gaps.contrast_claim(found, chance=chance)
    yield gaps.worse(
        "On true labels, SGLD at the same privacy has higher error and C-bound than Entropy-SGLD (Figure 3).",
        first(pick(found, "SGLD", "true", private)),
        first(true),
        ("train_error", "test_error", "dp_chernoff_2018"),
        chance,
    )
    both = [*true, *random]
    nonvacuous = "All bounds on Entropy-SGLD's classifiers are nonvacuous."
    yield gaps.nonvacuous_claim(nonvacuous, both, among=found, guessing=chance)
    yield gaps.tightness_claim(
        "PAC-Bayes bounds are (generally, it says; here: on true and on random labels) tighter (bound minus the test "
        "error of its classifier) than the H- and C-bounds.",
        both,
    )
    yield gaps.violations_claim(table, gaps.EXPECTED)


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Who fits random labels, and what privacy costs; what stops Entropy-SGLD is for temperature-map to say."""
    found = _last(table, scale)
    fitted, harmless = (first(pick(found, name, "random")) for name in ("SGD", "Entropy-SGLD"))
    said = (
        "SGD and cold Entropy-SGD fit random labels and Entropy-SGLD at tau = sqrt(n) does not: test minus training "
        "error {sgd:.3f} for SGD, {ours:.3f} for Entropy-SGLD, which has learnt some: {learnt}"
    )
    learnt = gaps.learnt_share(pick(found, "Entropy-SGLD", "true", private), guessing(DATASETS[scale])) or None
    numbers = {"sgd": fitted and gap(fitted), "ours": harmless and gap(harmless), "learnt": learnt}
    yield point(claims, "tau = sqrt(n) does not", say(said, **numbers))
    entropy, sgld = (first(pick(found, name, "true", private)) for name in ("Entropy-SGLD", "SGLD"))
    said = "At equal privacy SGLD is worse than Entropy-SGLD: test error {sgld:.3f} against {ours:.3f}"
    ends = {"sgld": sgld and sgld["test_error"], "ours": entropy and entropy["test_error"]}
    yield point(claims, "same privacy has higher", say(said, **ends))


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Limits, and how much was learnt."""
    yield "One run a setting: nothing here says how much another seed would change."
    yield "Every bound takes SGLD for converged, which nothing proves; they are optimistic."
    yield (
        f"A gap (test error minus training error) is called high above {HIGH}, overfitting above {OVERFITS}, low "
        f"below {OVERFITS} and none below {HARMLESS}; within two standard errors of the difference of such a limit "
        "nothing is decided."
    )
    yield from gaps.learning_notes(_last(table, scale), guessing(DATASETS[scale]))
    yield _UNFITTED
    if scale != "paper":
        yield _OTHER_STUDY


def _last(table: pl.DataFrame, scale: Scale) -> list[Row]:
    return last(table.with_columns(n=pl.lit(recipes.SIZES[DATASETS[scale]])))


RANDOM_LABELS = Study(
    name="random-labels",
    title="Overfitting true and random labels, and what the bounds say",
    paper="Dziugaite and Roy (2018), Figure 1",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=figures.by_noise),
    judge=judging(numbers=numbers, claims=claims, notes=notes, points=points, settled_by=by_seeds(jobs)),
    summary=summary,
)
STUDIES = (RANDOM_LABELS,)
