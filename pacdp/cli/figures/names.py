"""Names of bounds, and their values and probabilities as text, which never look better than they are; nothing draws."""

import math

from bounds.numbers import up, up_digits

CHAIN_BOUNDS = {
    "dp_pac_bayes_2018": "DP-PAC-Bayes (2018)",
    "dp_pac_bayes_max_information": "DP-PAC-Bayes (max-information)",
    "dp_pac_bayes": "DP-PAC-Bayes (sharp transfer)",
    "dp_gibbs_pac_bayes": "DP-PAC-Bayes (no draws of Q)",
    "dp_hoeffding_2018": "H-bound (2018)",
    "dp_chernoff_2018": "C-bound (2018)",
    "dp_hoeffding": "H-bound (sharp)",
    "dp_chernoff": "C-bound (sharp)",
    "dp_kl_chernoff": "kl-Chernoff (sharp)",
    "test_set_clopper_pearson": "test set (Clopper-Pearson)",
    "private_pac_bayes": "PAC-Bayes (accounted)",
    "private_kl_chernoff": "kl-Chernoff (accounted)",
}
"""Of a chain's checkpoint, by the names of their functions."""
ACCOUNTED = ("private_pac_bayes", "private_kl_chernoff")
"""Of chains with clipped gradients; rigorous."""
CONVERGED = {name: label for name, label in CHAIN_BOUNDS.items() if name not in ACCOUNTED}
"""Of chains without clipping."""
NAMES = {
    **CHAIN_BOUNDS,
    "poisson_sum_kl_chernoff": "kl-Chernoff (secret batches)",
    "once_sum_kl_chernoff": "kl-Chernoff (secret batches, once an epoch)",
    "randomised_maurer": "PAC-Bayes-kl",
    "randomised_private_pac_bayes": "PAC-Bayes-kl, private prior",
    "randomised_hybrid_pac_bayes": "PAC-Bayes-kl, hybrid prior",
    "half_brier_hybrid_pac_bayes": "PAC-Bayes-kl, hybrid prior (half Brier)",
    "half_brier_maurer": "PAC-Bayes-kl (half Brier)",
    "half_brier_private_pac_bayes": "PAC-Bayes-kl, private prior (half Brier)",
    "one_draw_disintegrated": "disintegrated PAC-Bayes",
    "one_draw_ece": "calibration from training data",
    "test_set_ece": "test set (second moment)",
    "prior_mean_clopper_pearson": "Clopper-Pearson",
    "finite_ensemble": "PAC-Bayes-kl (finite)",
    "vote_finite_ensemble": "twice PAC-Bayes-kl (finite)",
    "one_of_finitely_many": "Clopper-Pearson, union",
    "one_draw_private_disintegrated": "disintegrated PAC-Bayes, private prior",
    "new_examples_clopper_pearson": "new examples (Clopper-Pearson)",
    "new_examples_paired": "new examples (discordant pairs)",
    "new_examples_auc": "new examples (ROC curve)",
    "new_examples_ece": "new examples (second moment)",
    "new_examples_new_person": "new people (kl)",
    "test_set_new_person": "test set of people (kl)",
    "prior_mean_new_person": "new people, prior mean (kl)",
}
GIBBS_BOUNDS = (
    "dp_pac_bayes_2018",
    "dp_pac_bayes_max_information",
    "dp_pac_bayes",
    "dp_gibbs_pac_bayes",
)


def label(name: str) -> str:
    """A bound's name in figures and tables; one without a name here is called as its function is."""
    return NAMES.get(name) or plain(name[:60])


def plain(text: str) -> str:
    """The text with a question mark for every character that the figures' font may lack; any space is a plain one."""
    return "".join(
        " " if c.isspace() else c if c.isprintable() and ord(c) < 0x590 else "?" for c in text
    )


_SUM_ROUNDING = (
    1.0 - 2.0**-50
)  # what a ledger's sums may exceed their decimal totals by, as in bounds.certificate


def probability(value: float) -> str:
    """A failure probability to four significant digits, rounded up but for a sum's last bits: 0.1 - 0.04 is 0.06."""
    shown = up_digits(value * _SUM_ROUNDING, 4)
    return shown.rstrip("0").rstrip(".") if "." in shown and "e" not in shown else shown


def bound(value: float) -> str:
    """A certificate's value to four decimals, rounded up; "1 (vacuous)" for one that then says nothing."""
    return "1 (vacuous)" if vacuous(value) else up(value)


def vacuous(value: float) -> bool:
    """Whether the value, as it is shown, says nothing."""
    return float(up(value)) >= 1.0 if math.isfinite(value) else True
