"""Which tests are to notice a change of which file: those that mirror it first, then laws that all formulas share."""

_COSTS = "test_laws.py::test_costs_add_up_and_value_follows_from_costs_and_inputs_alone"
_LAWS = f"{_COSTS} test_laws.py::test_nan_and_misuse_are_refused_by_name"
_ALONE = "test_laws.py::test_bounds_of_one_price_obey_the_laws"
_ENDS = "test_fuzz.py::test_values_at_the_ends_of_float64_are_safe"
_PRIVATE = "test_private_priors.py test_private_pac_bayes.py"
_ACCOUNTS = " ".join(f"accounting/test_{name}.py" for name in ("one_step", "uses", "too_little_noise", "compositions"))

TARGETS = {
    "_arithmetic": "test_rounding.py test_elementwise.py test_tails.py test_kl.py",
    "_check": "test_check.py test_means.py test_people.py test_privacy_records.py",
    "_losses": f"test_transfer.py test_transfer_mechanisms.py {_PRIVATE}",
    "_threshold_tests": "test_risk_control.py test_monotone_control.py",
    "budget": "test_budget.py test_combine.py test_faults_monte_carlo.py",
    "certificate": "test_certificate.py test_combine.py test_laws.py",
    "combine": "test_combine.py test_faults_monte_carlo.py test_disagreement.py",
    "compression": "test_compression.py",
    "divergence": "test_divergence.py test_triangular_gaussian.py test_catalogue.py",
    "exchangeability": "test_exchangeability.py test_monitor.py",
    "gibbs_around": "test_gibbs_around.py",
    "gibbs_draws": "test_gibbs_draws.py",
    "gibbs_posterior": f"test_gibbs_posterior.py test_gibbs_estimates.py {_COSTS}",
    "hypotheses": "test_needs.py test_certificate.py test_combine.py test_people.py test_faults_monte_carlo.py "
    "test_noisy_sums.py",
    "kl": f"test_kl.py test_faults_of_others.py test_divergence.py test_means.py "
    f"test_pac_bayes.py test_catalogue.py {_COSTS}",
    "means": "test_means.py test_tails.py test_order.py test_people.py test_paired.py",
    "monitor": "test_monitor.py",
    "monte_carlo": "test_monte_carlo.py test_gibbs_estimates.py test_faults_monte_carlo.py test_combine.py "
    "test_people.py",
    "new_example": f"test_new_example.py {_COSTS}",
    "noisy": f"test_noisy_sums.py test_gibbs_draws.py {_COSTS}",
    "noisy_runs": "test_noisy_sums.py",
    "noisy_steps": "test_noisy_sums.py test_once_sums.py",
    "objectives": "test_objectives.py test_kl_gradient.py test_faults_of_others.py",
    "pac_bayes": f"test_pac_bayes.py test_catalogue.py test_faults_of_others.py test_noisy_sums.py {_LAWS} {_ENDS}",
    "partition": "test_partition.py test_gibbs_estimates.py",
    "people": "test_people.py test_new_example.py",
    "prices": f"test_certificate.py test_catalogue.py test_pac_bayes.py test_noisy_sums.py {_PRIVATE} "
    f"test_order.py {_LAWS}",
    "privacy": "test_privacy_records.py accounting/test_uses.py test_private_pac_bayes.py test_transfer.py",
    "printed": f"{_PRIVATE} test_noisy_sums.py test_laws.py::test_names_of_papers_and_users_are_cells {_LAWS} {_ALONE}",
    "refined": f"test_catalogue.py {_LAWS} {_ENDS}",
    "reliability": f"test_reliability_bins.py {_LAWS} {_ALONE}",
    "risk_control": "test_risk_control.py test_monotone_control.py",
    "numbers": "test_sentence.py test_monitor.py",
    "transfer": f"test_private_pac_bayes.py test_transfer_mechanisms.py test_transfer.py {_COSTS}",
    **dict.fromkeys(
        (f"accounting/{name}" for name in ("_cells", "_compose", "_fourier", "_pieces", "accountant")),
        f"{_ACCOUNTS} accounting/test_extremes.py accounting/test_worst_pair.py accounting/test_many_levels.py "
        "accounting/test_once_an_epoch.py",
    ),
    "accounting/_levels": "accounting/test_many_levels.py",
    "accounting/_schedule": f"{_ACCOUNTS} accounting/test_once_an_epoch.py accounting/test_extremes.py",
    "accounting/events": "accounting/test_uses.py test_noisy_sums.py test_privacy_records.py",
    "accounting/gaussian": f"{_ACCOUNTS} accounting/test_extremes.py",
    "accounting/last_iterate": "accounting/test_last_iterate.py",
    "accounting/renyi": "accounting/test_uses.py accounting/test_one_step.py accounting/test_compositions.py",
    "accounting/tuning": "accounting/test_tuning.py",
    "accounting/tradeoff": "accounting/test_uses.py accounting/test_compositions.py",
}
"""Test files under tests/bounds by file of bounds, without ``.py``."""

UNTRIED = ("__init__", "accounting/__init__", "record")
"""Files without anything to change."""


def suite_of(file):
    """What pytest is to run for a file such as ``bounds/kl.py``."""
    name = file.removeprefix("bounds/").removesuffix(".py")
    refusals = "accounting/test_accounting_refusals.py" if "/" in name else "test_bounds_refusals.py"
    return [f"tests/bounds/{one}" for one in (*TARGETS[name].split(), refusals)]
