"""Random labels: Dziugaite and Roy (2018), Figure 1 and Section 5.2, on small networks; and Zhang et al. (2017) in a
wider form, four algorithms at increasing corruption of the labels.

Random labels are uniform over the classes in training and test set alike. With K classes and a share of the labels
random no classifier's true error is below share · (1 - 1/K), and none that guesses does worse on average than 1 - 1/K;
between the two lies what an algorithm has learnt, below them what it has memorised.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Point, judging, point, rises, say
from experiments.figures import chains as figures
from experiments.papers import gaps
from experiments.papers.chains import (
    BOUNDS,
    LABELS,
    MEASURED,
    SMALL,
    Line,
    Size,
    chain,
    compared,
    final,
    first,
    guessing,
    last,
    mnist,
    network_name,
    noise,
    noise_up_to,
    pick,
    private,
    records,
    smoke,
)
from experiments.papers.gaps import HARMLESS, HIGH, OVERFITS, UNFINISHED, VACUOUS, gap, noise_of, tested
from experiments.papers.runs.corrupted import CORRUPTED, Corrupted
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import part
from pacdp import Architecture, GibbsSettings
from pacdp.cli import recipes
from pacdp.cli.figures.numbers import down, up, up_digits
from pacdp.cli.figures.style import CHAIN_BOUNDS
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import METHODS
from pacdp.cli.recipes import Scale, run, tau_of
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import sampler_job

NOISES: dict[Scale, dict[str, tuple[float, ...]]] = {
    "smoke": {"sgld": (0.01, 0.1), "entropy-sgd": (0.01, 0.1)},
    "cpu": {"sgld": (0.001, 0.01, 0.05), "entropy-sgd": (0.001, 0.005, 0.01, 0.05)},
    "paper": {"sgld": (0.001, 0.005, 0.01, 0.05, 0.1), "entropy-sgd": (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1)},
}
DATASETS: dict[Scale, str] = {"smoke": "digits2", "cpu": "mnist2", "paper": "mnist2"}
_MADE = {
    "smoke": "Two-class 8x8 digits, one hidden layer of 100, 40 epochs; theirs: two-class MNIST, a convolutional "
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
    private_noise = math.sqrt(2.0 / math.sqrt(recipes.SIZES[dataset]))
    plan = [("sgd", 0.0, None), ("entropy-sgld", private_noise, None), ("sgld", private_noise, None)]
    plan += [(algorithm, at, tau_of(at)) for algorithm, noises in NOISES[scale].items() for at in noises]
    found = []
    for labels, share in LABELS.items():
        for algorithm, at, tau in plan:
            made = run(algorithm, dataset, scale=scale, tau=tau, random_labels=share, seed=seed)
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
    """Who fits random labels, what privacy costs, and what stopped Entropy-SGLD."""
    found = _last(table, scale)
    fitted, harmless = (first(pick(found, name, "random")) for name in ("SGD", "Entropy-SGLD"))
    said = (
        "SGD and cold Entropy-SGD fit random labels and Entropy-SGLD at tau = sqrt(n) does not: test minus training "
        "error {sgd:.3f} for SGD, {ours:.3f} for Entropy-SGLD"
    )
    numbers = {"sgd": fitted and gap(fitted), "ours": harmless and gap(harmless)}
    yield point(claims, "tau = sqrt(n) does not", say(said, **numbers))
    entropy, sgld = (first(pick(found, name, "true", private)) for name in ("Entropy-SGLD", "SGLD"))
    said = "At equal privacy SGLD is worse than Entropy-SGLD: test error {sgld:.3f} against {ours:.3f}"
    ends = {"sgld": sgld and sgld["test_error"], "ours": entropy and entropy["test_error"]}
    yield point(claims, "same privacy has higher", say(said, **ends))
    yield stalled(table, paper="about 2%")


def stalled(table: pl.DataFrame, *, paper: str) -> Point:
    """Where Entropy-SGLD stops on true labels, and whether its error still falls: why is not known."""
    own = part(table, algorithm="Entropy-SGLD", labels="true").drop_nulls("gibbs_test_error").sort("epochs")
    along = own.to_dicts() if own["run"].n_unique() == 1 else []
    begin, end = (along[0], along[-1]) if len(along) > 1 else (None, None)
    said = (
        "Why Entropy-SGLD at tau = sqrt(n) stops at a Gibbs test error of {last:.3f} where the paper has {paper}: it "
        "had {early:.3f} after {few:.0f} epochs and {last:.3f} after {many:.0f}, so that the number of epochs alone is "
        "not shown to be the reason"
    )
    numbers = {"early": begin and begin["gibbs_test_error"], "last": end and end["gibbs_test_error"]}
    numbers |= {"few": begin and begin["epochs"], "many": end and end["epochs"]}
    by = "a chain that starts from SGD's weights (if it leaves them, the target itself has this error); scale paper"
    return Point(say(said, paper=paper, **numbers), None, by)


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


# corruption

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
PRIVATE = ("Entropy-SGLD", "DP-SGD", "DP-SGLD")
ACCOUNTED = "private_kl_chernoff"
_EFFORT = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
SETTINGS: dict[Scale, tuple[Size, Architecture, Sampling, Budget]] = {
    "smoke": (smoke("digits2"), SMALL, Sampling(sample_rate=0.1, steps=40), Budget(epsilon=4.0, delta=1e-4)),
    "cpu": (
        Size("mnist2", 100.0, 4, _EFFORT, train_size=20_000),
        *(Architecture(hidden=(100,)), Sampling(sample_rate=0.02, steps=500), Budget(epsilon=1.0)),
    ),
    "paper": (
        mnist("mnist2"),
        *(Architecture(name="conv"), Sampling(sample_rate=0.02, steps=2000), Budget(epsilon=1.0)),
    ),
}


def corrupted_jobs(scale: Scale, seed: int) -> list[Job]:
    """SGD, Entropy-SGLD at tau = sqrt(n), DP-SGD and DP-SGLD at every share of random labels."""
    size, network, sampling, budget = SETTINGS[scale]
    found = []
    for name in ("sgd", "entropy-sgld"):
        for share in SHARES:
            one = chain(name, size, scale=scale, network=network, seed=seed, random_labels=share)
            tags = {"algorithm": one.algorithm, "network": network_name(network), "random_share": share}
            found.append(sampler_job(one, **tags))
    for name in ("dp-sgd", "dp-sgld"):
        for share in SHARES:
            training = PrivateConfig(
                **{"dataset": size.dataset, "architecture": network.name, "hidden": network.hidden},
                **{"method": METHODS[name], "sampling": sampling, "budget": budget},
                **{"seed": seed, "reproducible": True, "records": 4},
            )
            one = Corrupted(training=training, random_labels=share, train_size=size.train_size, seed=seed)
            tags = {"algorithm": training.algorithm, "network": network_name(network), "random_share": share}
            found.append(Job(key=f"{name}-{share:g}-{digest(one)}", kind=CORRUPTED, config=one, tags=tags))
    return found


CORRUPTED_COLUMNS = columns(
    *((pl.String, "algorithm network"), (pl.Float64, "random_share least_error"), (pl.String, "run")),
    *((pl.Int64, "step n n_test"), (pl.Float64, "train_error test_error gibbs_train_error gibbs_test_error kl_nats")),
    *((pl.Float64, "epsilon delta"), (pl.String, "privacy"), (pl.Float64, f"{' '.join(BOUNDS)} {ACCOUNTED}")),
)


def corrupted_rows(done: Done) -> Iterator[Row]:
    """One row a record; private runs have one, at their end.

    Epsilon is of two kinds, which ``privacy`` tells apart: accounted for step by step (DP-SGD, DP-SGLD; delta > 0,
    add-remove), or of the target that Entropy-SGLD is assumed to have reached (delta 0, replace-one).
    """
    classes = 2 if done.job.config.problem.dataset.endswith("2") else 10
    own = {"run": done.job.key, "least_error": done.tags["random_share"] * (1.0 - 1.0 / classes), **done.tags}
    if isinstance(done.job.config, Corrupted):
        row = done.result
        bound = {ACCOUNTED: row["bound"]["value"], "privacy": "accounted, add-remove", "step": row["steps"]}
        yield {**row, **own, **bound}
        return
    for row in records(done):
        assumed = row.get("epsilon") is not None
        kind = {"privacy": "assumes stationarity, replace-one", "delta": 0.0} if assumed else {"privacy": "none"}
        yield {**row, **own, **kind}


def corrupted_claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Claims of Zhang et al. for SGD, of Dziugaite and Roy for private learning."""
    found = _by_share(table)
    sgd = [row for row in found if row["algorithm"] == "SGD"]
    noisy = [row for row in sgd if row["least_error"] > 0]
    yield _told(
        "SGD memorises random labels: at every share of them its training error is less than half of the least error "
        "that any classifier can have.",
        *(all(row["train_error"] < 0.5 * row["least_error"] for row in noisy), noisy),
    )
    steadily = rises([gap(row) for row in sgd], [noise_of(row) for row in sgd])
    grows = "SGD's generalization error grows steadily with the share of random labels."
    yield _told(grows, steadily, sgd if len(sgd) > 1 else [])
    for name in PRIVATE:
        own = [row for row in found if row["algorithm"] == name]
        harmless = f"{name} does not fit random labels: its gap is below {HARMLESS:g} at every share, beyond chance."
        seen = gaps.gaps_claim(harmless, own, among=found, chance=SETTINGS[scale][0].guessing, most=HARMLESS)
        yield _told(harmless, seen.holds, own)
    for name in PRIVATE:
        true = [row for row in found if row["algorithm"] == name and row["random_share"] == 0]
        least = {bound: value for bound, value, _ in _bounds(true)}
        best = min(least, key=lambda bound: least[bound], default="")
        chance = "below 1/2, the error of guessing between two classes"
        seen = (least[best] < 0.5, f"{CHAIN_BOUNDS[best]} bound {up(least[best])}") if least else (None, UNFINISHED)
        yield Claim(f"On true labels the smallest bound of {name} is {chance}.", *seen)
    yield _honest(found)


def _by_share(table: pl.DataFrame) -> list[Row]:
    return final(table).sort("random_share", maintain_order=True).to_dicts()


def _bounds(rows: Sequence[Line]) -> list[tuple[str, float, Line]]:
    return [(name, row[name], row) for row in rows for name in (*BOUNDS, ACCOUNTED) if row[name] is not None]


def _told(sentence: str, holds: bool | None, rows: Sequence[Line]) -> Claim:
    if not rows:
        return Claim(sentence, None, UNFINISHED)
    shown = ((row["random_share"], row["train_error"], row["test_error"]) for row in rows)
    told = "; ".join(f"share {share:g}: train {train:.3f}, test {test:.3f}" for share, train, test in shown)
    return Claim(sentence, holds, told)


def _honest(rows: list[Row]) -> Claim:
    sentence = "No bound lies below the least error that any classifier can have on such labels."
    margins = [(value, value - row["least_error"]) for _, value, row in _bounds(rows)]
    if not margins:
        return Claim(sentence, None, UNFINISHED)
    able = [margin for value, margin in margins if value < VACUOUS]
    under = sum(margin < 0 for margin in able)
    least = f"; the smallest margin is {down(min(able))}" if able else ""
    told = f"{under} of {len(able)} bounds below {VACUOUS:g} do{least}; {len(margins) - len(able)} more are vacuous"
    return Claim(sentence, under == 0 if able else None, f"{told} and cannot")


def corrupted_points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Who memorises, at the largest share of random labels."""
    worst = {name: row for row in _by_share(table) for name in [row["algorithm"]]}
    sgd = worst.get("SGD")
    said = "SGD memorises labels that are all random: training error {train:.3f}, test error {test:.3f}"
    numbers = {name: sgd and sgd[f"{name}_error"] for name in ("train", "test")}
    yield point(claims, "SGD memorises random labels", say(said, **numbers))
    for name in PRIVATE:
        row = worst.get(name)
        said = "{name} does not fit random labels: test minus training error {gap:.3f} where all are random"
        yield point(
            *(claims, f"{name} does not fit random labels", say(said, name=name, gap=row and gap(row))),
            settled_by=f"more seeds, for a mean gap that can be told from {HARMLESS:g}",
        )


def corrupted_notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What the epsilons are, how much was learnt, what was cut, and which bounds lie below a test error."""
    found, size = _by_share(table), SETTINGS[scale][0]
    spent = {name: {up_digits(row["epsilon"], 4) for row in found if row["algorithm"] == name} for name in PRIVATE}
    told = "; ".join(f"{name} {', '.join(sorted(values))}" for name, values in spent.items() if values)
    deltas = ", ".join(f"{delta:g}" for delta in sorted({row["delta"] for row in found if row["delta"]}))
    at = f" at delta {deltas}" if deltas else ""
    yield (
        f"{gaps.CONVERGENCE} That goes for Entropy-SGLD; the bounds of DP-SGD and DP-SGLD are accounted for, and "
        "assume nothing."
    )
    yield "The labels of the test set are as random as those of the training set, so that both have one law."
    yield (
        f"Epsilon by algorithm: {told}. Those of DP-SGD and DP-SGLD are for add-remove neighbours{at}; "
        "Entropy-SGLD's is pure, for replace-one neighbours, and assumes that its target was reached."
    )
    yield (
        "Zhang et al. corrupt CIFAR-10 and ImageNet, with larger networks and many epochs; nothing here repeats their "
        "numbers."
    )
    yield from gaps.learning_notes([row for row in found if row["random_share"] == 0], size.guessing)
    if scale != "paper":
        part = f"{size.train_size} examples of {size.dataset}" if size.train_size else size.dataset
        yield f"Scale {scale}: {part}, {size.epochs:g} epochs, a small fully connected network, one seed."
    for name, value, row in _bounds(found):
        test = row[tested(name)]
        if test is not None and value < test:
            where = f"{row['algorithm']}, {row['random_share']:g} of the labels random"
            yield f"Bound below a test error: {CHAIN_BOUNDS[name]} {value:.4f} < {test:.4f} ({where})."


RANDOM_LABELS = Study(
    name="random-labels",
    title="Overfitting true and random labels, and what the bounds say",
    paper="Dziugaite and Roy (2018), Figure 1",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=figures.by_noise),
    judge=judging(numbers=numbers, claims=claims, notes=notes, points=points),
    summary=summary,
)
CORRUPTION = Study(
    name="random-labels-corruption",
    title="Memorising random labels: four algorithms at increasing corruption",
    paper="Zhang et al. 2017, Understanding deep learning requires rethinking generalization, in wider form",
    jobs=corrupted_jobs,
    table=tabled(corrupted_rows, CORRUPTED_COLUMNS),
    draw=drawing(figure=figures.by_share),
    judge=judging(claims=corrupted_claims, notes=corrupted_notes, points=corrupted_points),
)
STUDIES = (RANDOM_LABELS, CORRUPTION)
