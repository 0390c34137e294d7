"""What is said of Figures 1 to 4 of Dziugaite and Roy (2018): sizes of their runs, printed numbers, sentences."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, below, count_noise, every
from experiments.costs import TWO_CORES
from experiments.job_costs import cost, on_a_gpu
from experiments.papers.chains import (
    CAREFUL,
    Line,
    Size,
    an_hour,
    compared,
    first,
    last,
    mnist,
    noise,
    noise_up_to,
    pick,
    smoke,
)
from experiments.papers.gaps import (
    EXPECTED,
    HARMLESS,
    HIGH,
    LETTERS,
    OVERFITS,
    UNFINISHED,
    contrast_claim,
    epsilon_why,
    excess,
    gap,
    gaps_claim,
    lower,
    noise_between,
    noise_of,
    nonvacuous_claim,
    tightness_claim,
    unlearnt,
    violations_claim,
    worse,
)
from pacdp import GibbsSettings
from pacdp.cli.recipes import Scale

_PAPER_N = mnist("mnist2").n
COLDEST = 0.001
"""The least thermal noise of Figure 1, where SGLD is nearest to SGD."""
SEEDS = 8
"""Of SGD and the coldest SGLD, which one run each does not tell apart."""
TIGHTER = (
    "PAC-Bayes bounds are generally tighter (bound minus the test error of its classifier) than the H- and C-bounds "
    "(Entropy-SGLD, true labels)."
)
_FROM_RANDOM = "{epochs:g} epochs from random weights; "
_WHY = {
    1: _FROM_RANDOM + "chains from SGD's weights stay at a larger error than the paper's as well (temperature-map)",
    2: _FROM_RANDOM + "chains from SGD's weights stay at a larger error than the paper's as well (entropy-sgld-laws)",
    3: "SGLD's chains with CONV guess at this temperature from both starts: longer runs do not help (temperature-map)",
    4: _FROM_RANDOM + "chains from SGD's weights stay at a smaller error (entropy-sgld-laws)",
}
"""What was done otherwise, and what other studies measured of it, by figure."""
_TRACK = GibbsSettings(epochs=10.0, prior_draws=10, test_draws=10)
_FEW: dict[Scale, Size] = {
    "smoke": smoke("digits2"),
    "cpu": Size("mnist2", 200.0, 4, _TRACK, train_size=2000),
    "gpu": an_hour("mnist2"),
    "paper": mnist("mnist2"),
}
PRIVATE_SIZES = {**_FEW, "cpu": Size("mnist2", 25.0, 4, CAREFUL)}
"""Of Entropy-SGLD, which with tau = sqrt(n) learns little from few examples: all of them at every scale but smoke."""
SIZES: dict[int, dict[Scale, Size]] = {
    1: _FEW,
    2: {**_FEW, "cpu": Size("mnist2", 30.0, 3, CAREFUL)},
    3: {**_FEW, "cpu": Size("mnist2", 30.0, 4, CAREFUL)},
    4: {
        "smoke": smoke("digits"),
        "cpu": Size("mnist", 15.0, 3, CAREFUL),
        "gpu": an_hour("mnist"),
        "paper": mnist("mnist"),
    },
}
EXCESS = {
    "FC1024": dict.fromkeys(LETTERS, "slightly more than 0.03"),
    "CONV": dict.fromkeys(("dp_pac_bayes_2018", "dp_chernoff_2018"), "about 0.03"),
}
"""How far Figure 4's caption has bounds above the test error; of CONV's H-bound it says nothing."""
_OVERFITTING = {"FC1024": "about 0.02", "CONV": "<0.01"}


def _why(figure: int, scale: Scale) -> str:
    size = PRIVATE_SIZES[scale] if figure == 1 else SIZES[figure][scale]
    return _WHY[figure].format(epochs=size.epochs)


def numbers_1(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Section 5.2 and the caption."""
    private = first(last(table, algorithm="Entropy-SGLD", labels="true"))
    hot = first(last(table, algorithm="SGLD", labels="true", thermal_noise=0.1))
    rounds = "not run" if private is None else f"n is {private['n']}"
    rounds = "the paper rounds" if private and private["n"] == _PAPER_N else rounds
    gibbs = "Section 5.2, the same: test error of the Gibbs classifier (about)"
    root = "Section 5.2, true labels, Entropy-SGLD at tau = sqrt(n): test error of the mean classifier (about)"
    bound = "Section 5.2, the same: differentially private PAC-Bayes bound (roughly)"
    spent = "Caption: epsilon at tau = sqrt(n) of 60000 (approximately)"
    for what, paper, row, name, why in (
        (root, 0.02, private, "test_error", _why(1, scale)),
        (gibbs, 0.02, private, "gibbs_test_error", _why(1, scale)),
        (bound, 0.03, private, "dp_pac_bayes_2018", _why(1, scale)),
        (spent, 0.0327, private, "epsilon", epsilon_why(private, paper_n=_PAPER_N)),
        ("Section 5.2: thermal noise at tau = sqrt(n) (approximately)", 0.09, private, "thermal_noise", rounds),
        (
            *("Caption: risk of SGLD at thermal noise 0.1 on true labels (close to)", 0.5, hot, "test_error"),
            "ours has a Gaussian base measure; not run at scale cpu",
        ),
    ):
        yield compared(what, paper, row, name, why)


def claims_1(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The caption's sentences and Section 5.2's."""
    found, chance = last(table), _FEW[scale].guessing
    true, random = (pick(found, "Entropy-SGLD", labels) for labels in ("true", "random"))
    yield _sgd_claim(pick(found, "SGD", "true"), pick(found, "SGLD", "true"))
    for sentence, rows, limit in (
        ("On random labels SGD overfits.", pick(found, "SGD", "random"), {"least": OVERFITS}),
        (
            "On random labels, SGLD has high generalization error for thermal noise values 0.01 and below.",
            *(pick(found, "SGLD", "random", noise_up_to(0.01)), {"least": HIGH}),
        ),
        (
            "At 0.05 thermal noise, SGLD has almost zero generalization error on both true and random labels.",
            *(pick(found, "SGLD", at=noise(0.05)), {"most": HARMLESS}),
        ),
        (
            "On random labels, Entropy-SGD overfits for thermal noise values 0.005 and below.",
            *(pick(found, "Entropy-SGD", "random", noise_up_to(0.005)), {"least": OVERFITS}),
        ),
        (
            "At 0.01 thermal noise, Entropy-SGD has low generalization error on both true and random labels.",
            *(pick(found, "Entropy-SGD", at=noise(0.01)), {"most": OVERFITS}),
        ),
        ("On random labels, Entropy-SGLD does not overfit.", random, {"most": HARMLESS}),
        (
            "On true labels, the generalization error for networks learned by Entropy-SGLD is close to zero.",
            *(true, {"most": HARMLESS}),
        ),
    ):
        yield gaps_claim(sentence, rows, among=found, chance=chance, **limit)
    yield contrast_claim(found, chance=chance)
    nonvacuous = "On true labels all bounds of Entropy-SGLD are nonvacuous."
    yield nonvacuous_claim(nonvacuous, true, among=found, guessing=chance)
    yield tightness_claim(f"The {TIGHTER}", true)
    yield violations_claim(table, "We see almost no violations in the data (Section 5.2).")


def _sgd_claim(sgd: Sequence[Line], sgld: Sequence[Line]) -> Claim:
    sentence = "SGD achieves the smallest training and test error on true labels, of SGD and SGLD."
    if not sgd or not sgld:
        return Claim(sentence, None, UNFINISHED)
    names = ("train_error", "test_error")
    least = {name: min(sgld, key=lambda row, name=name: row[name]) for name in names}
    shown = {name.replace("_", " "): (sgd[0][name], row[name]) for name, row in least.items()}
    told = (f"{name}: SGD {one:.4f}, best SGLD {other:.4f}" for name, (one, other) in shown.items())
    seen = every(lower(sgd[0], row, name) for name, row in least.items())
    return Claim(sentence, seen, "; ".join(told), _MORE_SEEDS)


def numbers_2(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Section 1."""
    for row in last(table, algorithm="Entropy-SGLD", labels="true"):
        what = f"Section 1: test error on MNIST, network not named; ours {row['network']}"
        yield compared(what, "0.03-0.08", row, "test_error", _why(2, scale))


def claims_2(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The caption of Figure 2."""
    found, chance = last(table, algorithm="Entropy-SGLD", labels="true"), SIZES[2][scale].guessing
    yield _similar(found, chance)
    yield gaps_claim("The true generalization gap is close to zero.", found, among=found, chance=chance, most=HARMLESS)
    loose = "All the computed bounds on the test error are loose but nonvacuous."
    yield nonvacuous_claim(loose, found, among=found, guessing=chance)
    yield violations_claim(table, EXPECTED)


def _similar(found: list[dict[str, Any]], chance: float) -> Claim:
    sentence = "Both training error and generalization error are similar for both network architectures."
    if len(found) < 2:
        return Claim(sentence, None, "fewer than two networks have finished")
    one, other = found[:2]
    train, gaps = abs(one["train_error"] - other["train_error"]), abs(gap(one) - gap(other))
    told = f"training error differs by {train:.4f}; generalization error differs by {gaps:.4f}"
    close = below(train, HARMLESS, noise_between(one, other, "train_error"))
    holds = every([close, below(gaps, HARMLESS, math.hypot(noise_of(one), noise_of(other)))])
    little = unlearnt([one, other], found, chance)
    return Claim(sentence, None if little else holds, f"{told}; similar below {HARMLESS:g}{little}")


def numbers_3(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The caption of Figure 3."""
    sgld, entropy = (first(last(table, algorithm=name, labels="true")) for name in ("SGLD", "Entropy-SGLD"))
    for what, name in (
        ("test error of SGLD minus that of Entropy-SGLD's mean network (approximately)", "test_error"),
        ("training error, likewise (approximately)", "train_error"),
    ):
        both = None if sgld is None or entropy is None else sgld[name] - entropy[name]
        yield Comparison(f"Caption: {what}", 0.03, both, _why(3, scale))
    yield compared("Caption: C-bound of SGLD, true labels (around)", 0.08, sgld, "dp_chernoff_2018", _why(3, scale))
    mean = "Caption: C-bound of Entropy-SGLD's mean classifier (roughly)"
    yield compared(mean, 0.04, entropy, "dp_chernoff_2018", _why(1, scale))


def claims_3(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The caption of Figure 3."""
    sgld, entropy = (first(last(table, algorithm=name, labels="true")) for name in ("SGLD", "Entropy-SGLD"))
    chance, random = SIZES[3][scale].guessing, last(table, algorithm="SGLD", labels="random")
    errors = "On true labels, SGLD learns a network with higher training and test error than Entropy-SGLD's."
    yield worse(errors, sgld, entropy, ("train_error", "test_error"), chance)
    harmless = "SGLD does not overfit on random labels."
    yield gaps_claim(harmless, random, among=last(table), chance=chance, most=HARMLESS)
    bound = "The C-bound of SGLD's network is worse than that of Entropy-SGLD's mean classifier."
    yield worse(bound, sgld, entropy, ("dp_chernoff_2018",), chance)
    yield violations_claim(table, EXPECTED)


def numbers_4(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The caption of Figure 4."""
    for row in last(table, labels="true"):
        for name, about in EXCESS.get(row["network"], {}).items():
            what = f"Caption: {LETTERS[name]} minus test error, {row['network']}"
            yield Comparison(what, about, excess(row, name), _why(4, scale))
    for row in last(table, labels="random"):
        what = f"Caption: overfitting of random labels, {row['network']}"
        yield Comparison(what, _OVERFITTING.get(row["network"]), gap(row), _why(4, scale))


def claims_4(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The caption of Figure 4."""
    true, random = (last(table, labels=labels) for labels in ("true", "random"))
    where: dict[str, Any] = {"among": true, "chance": SIZES[4][scale].guessing}
    little = "On random labels Entropy-SGLD overfits by about 2% at most (here: less than 3%)."
    yield gaps_claim("On true labels the generalization gap is close to zero.", true, **where, most=HARMLESS)
    yield gaps_claim(little, random, **where, most=0.03)
    yield guessing_claim(next((row for row in random if row["network"] == "CONV"), None), **where)
    own = {row["network"]: row for row in true}
    yield order_claim(own.get("CONV"), own.get("FC1024"), **where)
    nonvacuous = "On true labels all bounds are nonvacuous."
    yield nonvacuous_claim(nonvacuous, true, among=true, guessing=where["chance"])
    yield violations_claim(table, EXPECTED)


def guessing_claim(row: Line | None, **where: Any) -> Claim:
    """Whether CONV guesses on random labels; ``where`` as of :func:`unlearnt`."""
    sentence = "On random labels CONV's training and test error remain close to the guessing rate (90%)."
    if row is None:
        return Claim(sentence, None, "CONV has not finished")
    errors = [(row[name], row[n]) for name, n in (("train_error", "n"), ("test_error", "n_test"))]
    holds, little = every(below(abs(error - 0.9), 0.03, count_noise((error, n))) for error, n in errors), ""
    if holds:
        little = unlearnt([row], **where)
    told = f"{', '.join(f'{error:.4f}' for error, _ in errors)}; close within 0.03{little}"
    return Claim(sentence, None if little else holds, told)


def order_claim(conv: Line | None, dense: Line | None, **where: Any) -> Claim:
    """Whether CONV has learnt more than FC1024; ``where`` as of :func:`unlearnt`."""
    sentence = "On true labels CONV has lower training and test errors than FC1024."
    if conv is None or dense is None:
        return Claim(sentence, None, "the table has not both networks")
    both, names = {"CONV": conv, "FC1024": dense}, ("train_error", "test_error")
    told = "; ".join(f"{name}: {', '.join(f'{row[of]:.4f}' for of in names)}" for name, row in both.items())
    best = min(both.values(), key=lambda row: row["train_error"])
    little = unlearnt([best], **where)
    holds = None if little else every(lower(both["CONV"], both["FC1024"], of) for of in names)
    return Claim(sentence, holds, told + little)


_AT_REST = (
    "entropy-sgld-laws asks it of chains that begin at SGD's weights and stay where they are, and its runs are made; "
    "the figure's own, longer at the same temperature, would be {cost} (scale gpu)"
)
_MORE_SEEDS = "entropy-sgld-laws asks it of several seeds, and its runs are made"


def settled(planned: Any, table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
    """What settles an open claim: at scale cpu the seeds or chains of entropy-sgld-laws, else seeds or a GPU."""
    if claim.settled_by == _MORE_SEEDS:
        one = [job for job in planned(scale, 0) if job.tags["algorithm"] in ("SGD", "SGLD")]
        runs = [job for job in one if job.tags["labels"] == "true" and job.tags["thermal_noise"] <= COLDEST]
        return f"{claim.settled_by}: {cost(SEEDS * runs, TWO_CORES)}"
    if scale == "cpu":
        return _AT_REST.format(cost=cost(planned("gpu", 0)))
    if claim.settled_by:
        runs = [one for one in planned(scale, 0) if one.tags["algorithm"] == "Entropy-SGLD"]
        return f"{claim.settled_by}; the runs of one take {cost(runs, TWO_CORES)}"
    return on_a_gpu(planned)(table, scale, claim)
