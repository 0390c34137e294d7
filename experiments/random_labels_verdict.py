"""What the random-label runs say of the sentences of Dziugaite and Roy (2018), Section 5.2 and Figures 1 and 3."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from experiments.figures.style import CONVERGED, GIBBS_BOUNDS
from experiments.papers.chance import above, below, count_noise, every
from experiments.recipes import Scale
from experiments.studies.study import Claim, Comparison, Verdict

Row = dict[str, Any]
_HIGH = 0.1
"""A gap between test and training error that is called high."""
_LOW = 0.05
_NONE = 0.02
Answer = bool | None
_BOUNDS_2018 = ("dp_pac_bayes_2018", "dp_hoeffding_2018", "dp_chernoff_2018")
_FAILURE_PROB = 0.05
_MADE = {
    "smoke": "Two-class 8x8 digits, one hidden layer of 100, 40 epochs; theirs: two-class MNIST, a convolutional "
    "network, thousands of epochs.",
    "cpu": "One hidden layer of 100, 150 epochs, an outer step of 2; theirs: a convolutional network, thousands of "
    "epochs, an outer base step of 0.006.",
    "paper": "Convolutional network and settings as theirs, as far as they are printed.",
}


def judge(table: pl.DataFrame, scale: Scale, violations: Sequence[Row]) -> Verdict:
    """Comparisons of the last records with the printed numbers, and the claims of the text on the same records."""
    last = table.group_by("run", maintain_order=True).last().to_dicts()
    return Verdict(
        comparisons=tuple(_comparisons(last, _MADE[scale])),
        claims=(*_claims(last), _never_violated(table, violations)),
        notes=(
            "One run a setting: nothing here says how much another seed would change.",
            "Every bound takes SGLD for converged, which nothing proves; they are optimistic.",
            f"A gap (test error minus training error) is called high above {_HIGH}, low below {_LOW} and none below "
            f"{_NONE}; within two standard errors of the test error of such a limit nothing is decided.",
        ),
    )


def _pick(last: Sequence[Row], algorithm: str, labels: str, noise: Callable[[float], bool] | None = None) -> list[Row]:
    """The runs at the noises asked for, or at the private setting: the greatest of Entropy-SGLD's."""
    found = [row for row in last if (row["algorithm"], row["labels"]) == (algorithm, labels)]
    if noise is None:
        private = {row["thermal_noise"] for row in last if row["algorithm"] == "Entropy-SGLD"}
        return [row for row in found if row["thermal_noise"] in private]
    return [row for row in found if noise(row["thermal_noise"])]


def _comparisons(last: Sequence[Row], why: str) -> list[Comparison]:
    entropy, sgld = _pick(last, "Entropy-SGLD", "true"), _pick(last, "SGLD", "true")
    noisy = _pick(last, "SGLD", "true", lambda noise: noise == 0.1)
    true = "Entropy-SGLD, true labels"
    plan: list[tuple[str, str, list[Row], str]] = [
        (f"{true}: epsilon (Figure 1)", "0.0327", entropy, "epsilon"),
        (f"{true}: test error of the Gibbs classifier (Section 5.2)", "approximately 2%", entropy, "gibbs_test_error"),
        (f"{true}: test error of the mean classifier (Section 5.2)", "approximately 2%", entropy, "test_error"),
        (f"{true}: PAC-Bayes bound (Section 5.2)", "roughly 3%", entropy, "dp_pac_bayes_2018"),
        (f"{true}: C-bound on the mean classifier (Figure 3)", "roughly 4%", entropy, "dp_chernoff_2018"),
        ("SGLD at the same privacy, true labels: C-bound (Figure 3)", "around 8%", sgld, "dp_chernoff_2018"),
        ("SGLD at thermal noise 0.1, true labels: risk (Figure 1)", "close to 50%", noisy, "test_error"),
    ]
    return [Comparison(what=what, paper=paper, ours=rows[0][name] if rows else None, why=why if rows else "not run")
            for what, paper, rows, name in plan]  # fmt: skip


def _claims(last: Sequence[Row]) -> list[Claim]:
    private = [*_pick(last, "Entropy-SGLD", "true"), *_pick(last, "Entropy-SGLD", "random")]
    low = _pick(last, "SGLD", "random", lambda noise: noise <= 0.01)
    entropy_low = _pick(last, "Entropy-SGD", "random", lambda noise: noise <= 0.005)
    entropy_mid = [row for labels in ("true", "random")
                   for row in _pick(last, "Entropy-SGD", labels, lambda noise: noise == 0.01)]  # fmt: skip
    return [
        _claim("SGD overfits random labels.", _pick(last, "SGD", "random", lambda noise: True), _high),
        _claim("On random labels, SGLD has high generalization error for thermal noise 0.01 and below.", low, _high),
        _claim("On random labels, Entropy-SGD overfits for thermal noise 0.005 and below.", entropy_low, _high),
        _claim("At 0.01 thermal noise, Entropy-SGD has low generalization error on both true and random labels.",
               entropy_mid, _low),
        _claim("On true labels, the generalization error of Entropy-SGLD is close to zero.",
               _pick(last, "Entropy-SGLD", "true"), _none),
        _claim("On random labels, Entropy-SGLD does not overfit.", _pick(last, "Entropy-SGLD", "random"), _none),
        _claim("On random labels, SGLD at the same privacy does not overfit.", _pick(last, "SGLD", "random"), _none),
        _claim("All bounds on Entropy-SGLD's classifiers are nonvacuous.", private,
               lambda row: all(row[name] < 1.0 for name in _BOUNDS_2018), _bounds),
        _claim("PAC-Bayes bounds are (generally, it says; here: on true and on random labels) tighter than the H- and "
               "C-bounds.", private,
               lambda row: row["dp_pac_bayes_2018"] < min(row["dp_hoeffding_2018"], row["dp_chernoff_2018"]), _bounds),
    ]  # fmt: skip


def _claim(
    sentence: str, rows: Sequence[Row], holds: Callable[[Row], Answer], evidence: Callable[[Row], str] | None = None
) -> Claim:
    """Holds where it holds of every run; None where one of them leaves it open and none contradicts."""
    found = "; ".join((evidence or _errors)(row) for row in rows)
    return Claim(sentence=sentence, holds=every([holds(row) for row in rows]), evidence=found or "not run")


def _gaps(row: Row) -> list[tuple[float, float]]:
    """Gaps of the weights and of the Gibbs classifier, with two standard errors of their test errors."""
    pairs = (("train_error", "test_error"), ("gibbs_train_error", "gibbs_test_error"))
    return [(row[test] - row[train], count_noise((row[test], row["n_test"])))
            for train, test in pairs if row[train] is not None and row[test] is not None]  # fmt: skip


def _high(row: Row) -> Answer:
    return every([above(gap, _HIGH, noise) for gap, noise in _gaps(row)])


def _low(row: Row) -> Answer:
    return every([below(gap, _LOW, noise) for gap, noise in _gaps(row)])


def _none(row: Row) -> Answer:
    return every([below(gap, _NONE, noise) for gap, noise in _gaps(row)])


def _errors(row: Row) -> str:
    said = f"noise {row['thermal_noise']:.3g}: training error {row['train_error']:.4f}, test {row['test_error']:.4f}"
    if row["gibbs_test_error"] is None:
        return said
    return f"{said}, Gibbs training {row['gibbs_train_error']:.4f}, test {row['gibbs_test_error']:.4f}"


def _bounds(row: Row) -> str:
    values = zip(("PAC-Bayes", "H", "C"), (row[name] for name in _BOUNDS_2018), strict=True)
    return f"{row['labels']} labels: " + ", ".join(f"{name} {value:.4f}" for name, value in values)


def _never_violated(table: pl.DataFrame, violations: Sequence[Row]) -> Claim:
    compared = 0
    for name in (one for one in CONVERGED if one in table.columns):
        test = "gibbs_test_error" if name in GIBBS_BOUNDS else "test_error"
        compared += table.filter(pl.col(name).is_not_null(), pl.col(test).is_not_null()).height
    return Claim(
        sentence="No bound is violated more frequently than it is expected to be.",
        holds=len(violations) <= _FAILURE_PROB * compared if compared else None,
        evidence=f"{len(violations)} of {compared} recorded bounds lie below the measured test error; each may fail "
        f"with probability {_FAILURE_PROB}, the records of a run not independently",
    )
