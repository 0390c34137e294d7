"""What the random-label runs say of the sentences of Dziugaite and Roy (2018), Section 5.2 and Figures 1 and 3."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Verdict
from experiments.random_labels_bounds import epsilon_why, nonvacuous_claim, tightness_claim, violations_claim
from experiments.random_labels_gaps import HARMLESS, HIGH, OVERFITS, contrast_claim, gaps_claim, private
from experiments.random_labels_learning import guessing, learning_notes, worse
from experiments.recipes import SIZES, Scale

Row = dict[str, Any]
_PAPER_DATASET = "mnist2"
_MADE = {
    "smoke": "Two-class 8x8 digits, one hidden layer of 100, 40 epochs; theirs: two-class MNIST, a convolutional "
    "network, thousands of epochs.",
    "cpu": "One hidden layer of 100, 150 epochs, an outer step of 2; theirs: a convolutional network, thousands of "
    "epochs, an outer base step of 0.006.",
    "paper": "Convolutional network and settings as theirs, as far as they are printed.",
}
_OTHER_STUDY = (
    "entropy-sgld-figure-1 judges the same sentences in a setting of its own (network, number of examples, epochs), "
    "and need not decide them alike."
)
_UNFITTED = (
    "A low gap on random labels at a training error near that of guessing is that of a network which has fitted none "
    "of them."
)


def judge(table: pl.DataFrame, scale: Scale, *, dataset: str) -> Verdict:
    """Comparisons of the last records with the printed numbers, and the claims of the text on the same records."""
    table = table.with_columns(n=pl.lit(SIZES[dataset]))
    last = table.group_by("run", maintain_order=True).last().to_dicts()
    chance = guessing(dataset)
    violated = violations_claim(table, "No bound is violated more frequently than it is expected to be (Section 5).")
    other = () if scale == "paper" else (_OTHER_STUDY,)
    return Verdict(
        comparisons=tuple(_comparisons(last, _MADE[scale])),
        claims=(*_gap_claims(last), *_bound_claims(last, chance), violated),
        notes=(
            "One run a setting: nothing here says how much another seed would change.",
            "Every bound takes SGLD for converged, which nothing proves; they are optimistic.",
            f"A gap (test error minus training error) is called high above {HIGH}, overfitting above {OVERFITS}, low "
            f"below {OVERFITS} and none below {HARMLESS}; within two standard errors of the difference of such a limit "
            "nothing is decided.",
            *learning_notes(last, chance), _UNFITTED, *other,
        ),
    )  # fmt: skip


def _pick(last: Sequence[Row], algorithm: str, labels: str, noise: Callable[[float], bool] | None = None) -> list[Row]:
    """The runs at the noises asked for, or at the private setting."""
    found = [row for row in last if (row["algorithm"], row["labels"]) == (algorithm, labels)]
    return [row for row in found if (private(row) if noise is None else noise(row["thermal_noise"]))]


def _comparisons(last: Sequence[Row], why: str) -> list[Comparison]:
    entropy, sgld = _pick(last, "Entropy-SGLD", "true"), _pick(last, "SGLD", "true")
    noisy = _pick(last, "SGLD", "true", lambda noise: noise == 0.1)
    true = "Entropy-SGLD, true labels"
    plan: list[tuple[str, str, list[Row], str]] = [
        (f"{true}: test error of the Gibbs classifier (Section 5.2)", "approximately 2%", entropy, "gibbs_test_error"),
        (f"{true}: test error of the mean classifier (Section 5.2)", "approximately 2%", entropy, "test_error"),
        (f"{true}: PAC-Bayes bound (Section 5.2)", "roughly 3%", entropy, "dp_pac_bayes_2018"),
        (f"{true}: C-bound on the mean classifier (Figure 3)", "roughly 4%", entropy, "dp_chernoff_2018"),
        ("SGLD at the same privacy, true labels: C-bound (Figure 3)", "around 8%", sgld, "dp_chernoff_2018"),
        ("SGLD at thermal noise 0.1, true labels: risk (Figure 1)", "close to 50%", noisy, "test_error"),
    ]
    first = entropy[0] if entropy else None
    epsilon = Comparison(what=f"{true}: epsilon (Figure 1)", paper="0.0327", ours=first["epsilon"] if first else None,
                         why=epsilon_why(first, paper_n=SIZES[_PAPER_DATASET]))  # fmt: skip
    return [epsilon, *(Comparison(what=what, paper=paper, ours=rows[0][name] if rows else None,
                                  why=why if rows else "not run") for what, paper, rows, name in plan)]  # fmt: skip


def _gap_claims(last: Sequence[Row]) -> list[Claim]:
    entropy_mid = [row for labels in ("true", "random")
                   for row in _pick(last, "Entropy-SGD", labels, lambda noise: noise == 0.01)]  # fmt: skip
    return [
        gaps_claim("SGD overfits random labels.", _pick(last, "SGD", "random", lambda _: True), least=OVERFITS),
        gaps_claim("On random labels, SGLD has high generalization error for thermal noise 0.01 and below.",
                   _pick(last, "SGLD", "random", lambda noise: noise <= 0.01), least=HIGH),
        gaps_claim("On random labels, Entropy-SGD overfits for thermal noise 0.005 and below.",
                   _pick(last, "Entropy-SGD", "random", lambda noise: noise <= 0.005), least=OVERFITS),
        gaps_claim("At 0.01 thermal noise, Entropy-SGD has low generalization error on both true and random labels.",
                   entropy_mid, most=OVERFITS),
        gaps_claim("On true labels, the generalization error of Entropy-SGLD is close to zero.",
                   _pick(last, "Entropy-SGLD", "true"), most=HARMLESS),
        gaps_claim("On random labels, Entropy-SGLD does not overfit.", _pick(last, "Entropy-SGLD", "random"),
                   most=HARMLESS),
        gaps_claim("On random labels, SGLD at the same privacy does not overfit.", _pick(last, "SGLD", "random"),
                   most=HARMLESS),
        contrast_claim(last),
    ]  # fmt: skip


def _bound_claims(last: Sequence[Row], chance: float) -> list[Claim]:
    bounded = [*_pick(last, "Entropy-SGLD", "true"), *_pick(last, "Entropy-SGLD", "random")]
    sgld, entropy = (next(iter(_pick(last, name, "true")), None) for name in ("SGLD", "Entropy-SGLD"))
    return [
        worse("On true labels, SGLD at the same privacy has higher error and C-bound than Entropy-SGLD (Figure 3).",
              sgld, entropy, ("train_error", "test_error", "dp_chernoff_2018"), chance),
        nonvacuous_claim("All bounds on Entropy-SGLD's classifiers are nonvacuous.", bounded, guessing=chance),
        tightness_claim("PAC-Bayes bounds are (generally, it says; here: on true and on random labels) tighter (bound "
                        "minus the test error of its classifier) than the H- and C-bounds.", bounded),
    ]  # fmt: skip
