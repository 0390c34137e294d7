"""Which tests are to notice a change of which file: those that mirror it first, then laws that all formulas share."""

_COSTS = "test_laws.py::test_costs_add_up_and_value_follows_from_costs_and_inputs_alone"
_LAWS = f"{_COSTS} test_laws.py::test_nan_and_misuse_are_refused_by_name"
_ALONE = "test_laws.py::test_bounds_of_one_price_obey_the_laws"
_ENDS = "test_fuzz.py::test_values_at_the_ends_of_float64_are_safe"
_PRIVATE = "test_private_priors.py test_private_pac_bayes.py"
_ACCOUNTS = " ".join(f"accounting/test_{name}.py" for name in ("one_step", "uses", "too_little_noise", "compositions"))

TARGETS = {
    "_arrays": "test_check.py test_means.py test_people.py",
    "_assemble": f"test_certificate.py test_catalogue.py test_pac_bayes.py {_PRIVATE} {_LAWS}",
    "_check": "test_check.py test_means.py test_privacy_records.py",
    "_elementwise": "test_elementwise.py test_kl.py",
    "_losses": f"test_transfer.py test_transfer_mechanisms.py {_PRIVATE}",
    "_rounding": "test_rounding.py test_tails.py",
    "_threshold_tests": "test_risk_control.py test_monotone_control.py",
    "_transfer_search": f"test_transfer.py test_transfer_mechanisms.py {_PRIVATE}",
    "_wealth": "test_monitor.py test_exchangeability.py",
    "budget": "test_budget.py test_combine.py test_faults_monte_carlo.py",
    "certificate": "test_certificate.py test_combine.py test_laws.py",
    "combine": "test_combine.py test_faults_monte_carlo.py",
    "compression": "test_compression.py",
    "disagreement": "test_disagreement.py",
    "divergence": "test_divergence.py test_triangular_gaussian.py test_catalogue.py",
    "exchangeability": "test_exchangeability.py",
    "gibbs": "test_gibbs_estimates.py test_gibbs_posterior.py",
    "gibbs_around": "test_gibbs_around.py",
    "gibbs_draws": "test_gibbs_draws.py",
    "gibbs_posterior": f"test_gibbs_posterior.py {_COSTS}",
    "hypotheses": "test_certificate.py test_combine.py test_people.py test_faults_monte_carlo.py test_noisy_sums.py",
    "kl": "test_kl.py test_faults_of_others.py test_divergence.py test_means.py",
    "means": "test_means.py test_tails.py test_order.py test_people.py",
    "monitor": "test_monitor.py",
    "paired": "test_paired.py",
    "monotone_control": "test_monotone_control.py",
    "monte_carlo": "test_monte_carlo.py test_gibbs_estimates.py test_faults_monte_carlo.py test_combine.py "
    "test_people.py",
    "new_example": f"test_new_example.py {_COSTS}",
    "noisy": f"test_noisy_sums.py test_gibbs_draws.py {_COSTS}",
    "noisy_runs": "test_noisy_sums.py",
    "noisy_epochs": "test_once_sums.py",
    "noisy_steps": "test_noisy_sums.py",
    "objectives": "test_objectives.py test_kl_gradient.py test_faults_of_others.py",
    "one_draw": f"test_catalogue.py test_noisy_sums.py {_LAWS}",
    "pac_bayes": f"test_pac_bayes.py test_catalogue.py test_faults_of_others.py {_LAWS} {_ENDS}",
    "partition": "test_partition.py test_gibbs_estimates.py",
    "people": "test_people.py test_new_example.py",
    "prices": f"{_PRIVATE} test_order.py {_LAWS} test_noisy_sums.py",
    "privacy": "test_privacy_records.py accounting/test_uses.py",
    "privacy_loss": "test_privacy_records.py test_private_pac_bayes.py test_transfer.py",
    "printed": f"{_PRIVATE} test_laws.py::test_names_of_papers_and_users_are_cells {_ALONE}",
    "refined": f"test_catalogue.py {_LAWS} {_ENDS}",
    "released": f"{_PRIVATE} test_noisy_sums.py {_LAWS}",
    "reliability": f"{_LAWS} {_ALONE}",
    "reliability_bins": "test_reliability_bins.py",
    "risk_control": "test_risk_control.py",
    "running_mean": "test_monitor.py",
    "numbers": "test_sentence.py test_monitor.py",
    "transfer": f"test_private_pac_bayes.py test_transfer_mechanisms.py test_transfer.py {_COSTS}",
    "xi": f"test_pac_bayes.py test_catalogue.py {_COSTS}",
    **dict.fromkeys(
        (f"accounting/{name}" for name in ("_cells", "_compose", "_fourier", "_pieces", "_plan", "accountant")),
        f"{_ACCOUNTS} accounting/test_extremes.py accounting/test_worst_pair.py accounting/test_many_levels.py",
    ),
    "accounting/_allocation": "accounting/test_once_an_epoch.py",
    "accounting/_levels": "accounting/test_many_levels.py",
    "accounting/_schedule": f"{_ACCOUNTS} accounting/test_once_an_epoch.py accounting/test_extremes.py",
    "accounting/events": "accounting/test_uses.py test_noisy_sums.py test_privacy_records.py",
    "accounting/gaussian": f"{_ACCOUNTS} accounting/test_extremes.py",
    "accounting/last_iterate": "accounting/test_last_iterate.py",
    "accounting/least_noise": "accounting/test_uses.py",
    "accounting/renyi": "accounting/test_uses.py accounting/test_one_step.py accounting/test_compositions.py",
    "accounting/tuning": "accounting/test_tuning.py",
    "accounting/tradeoff": "accounting/test_uses.py accounting/test_compositions.py",
}
"""Test files under tests/bounds by file of bounds, without ``.py``."""

UNTRIED = ("__init__", "accounting/__init__", "needs", "record")
"""Files without anything to change, and a table of names, which a test compares with the verifier's own."""


def suite_of(file):
    """What pytest is to run for a file such as ``bounds/kl.py``."""
    name = file.removeprefix("bounds/").removesuffix(".py")
    refusals = "accounting/test_accounting_refusals.py" if "/" in name else "test_bounds_refusals.py"
    return [f"tests/bounds/{one}" for one in (*TARGETS[name].split(), refusals)]
