"""The bounds under test and the broken ones that must be caught. A new bound joins by a line in ENTRIES."""

from functools import partial

import bounds
from bounds import FailureBudget, best_of, overall_certificate
from tests.coverage import calibrated, catalogue, released, sampled, worlds
from tests.coverage.harness import Entry


def checkpoints_at_share(errors, n, failure_prob):
    each = FailureBudget(failure_prob).spend("checkpoints", failure_prob).share("checkpoints", len(errors))
    made = [bounds.gibbs_risk_upper(mean=float(k / n), draws=n, failure_prob=each) for k in errors]
    return best_of(made, budget=failure_prob)


def checkpoints_unpaid(errors, n, failure_prob):
    return min(bounds.gibbs_risk_upper(mean=float(k / n), draws=n, failure_prob=failure_prob).value for k in errors)


def prior_grid_paid(risk, n, count, failure_prob):  # the least risk has the least certificate
    return bounds.maurer(risk=risk, kl_nats=0.0, n=n, failure_prob=failure_prob / count)


def overall(bound, mean, draws, kl_nats, n, failure_prob):
    budget = FailureBudget.split(failure_prob, **{"Monte Carlo": 1, "PAC step": 4})
    risk = bounds.gibbs_risk_upper(mean=mean, draws=draws, failure_prob=budget.spent["Monte Carlo"])
    return overall_certificate(risk=risk, bound=partial(bound, kl_nats=kl_nats, n=n), budget=budget)


def without_draws(bound, log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, n, failure_prob, **more):
    partition = bounds.log_partition_best(
        log_mean_exp=log_mean_exp, mean_loss=mean_loss, tau=tau, loss_low=loss_low, loss_high=loss_high,
        draws=draws, failure_prob=failure_prob / 5,
    )  # fmt: skip
    return bound(
        log_partition_lower_nats=partition.nats, log_partition_failure_prob=partition.failure_prob,
        tau=tau, loss_low=loss_low, loss_high=loss_high, n=n, failure_prob=failure_prob * 4 / 5, **more,
    )  # fmt: skip


def gibbs_pac_bayes(log_mean_exp, mean_loss, tau, loss_low, loss_high, error_loss, draws, n, failure_prob):
    told = locals()
    return without_draws(bounds.gibbs_pac_bayes, **told)


def dp_gibbs_pac_bayes(log_mean_exp, mean_loss, tau, loss_low, loss_high, error_loss, draws, n, epsilon, failure_prob):
    told = locals()
    return without_draws(bounds.dp_gibbs_pac_bayes, **told)


def gibbs_catoni(log_mean_exp, mean_loss, tau, loss_low, loss_high, draws, n, failure_prob):
    told = locals()
    return without_draws(bounds.gibbs_catoni, **told)


def best_of_catoni(risk, kl_nats, n, failure_prob):
    grid = [n * c for c in TEMPERATURES]
    each = failure_prob / len(grid)
    made = [bounds.catoni(risk=risk, kl_nats=kl_nats, n=n, failure_prob=each, inverse_temperature=c) for c in grid]
    return best_of(made, budget=failure_prob)


def catoni_grid(risk, kl_nats, n, failure_prob):
    grid = [n * c for c in TEMPERATURES]
    return bounds.catoni_grid(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, inverse_temperatures=grid)


def split_kl(share_1, share_2, kl_nats, n, failure_prob):
    levels, shares = (0.0, 0.25, 1.0), (share_1, share_2)
    return bounds.split_kl(levels=levels, shares=shares, kl_nats=kl_nats, n=n, failure_prob=failure_prob)


def recursive(risk, kl_nats, n, share_1, share_2, share_3, step_kl_nats, step_n, gamma, failure_prob):
    step = bounds.ExcessStep(shares=(share_1, share_2, share_3), kl_nats=step_kl_nats, n=step_n)
    return bounds.recursive(risk=risk, kl_nats=kl_nats, n=n, steps=[step], gamma=gamma, failure_prob=failure_prob)


def prior_scale(risk, scale, index, n, failure_prob):
    (nats,) = (point.nats for point in catalogue.neighbours(scale) if point.index == index)
    return bounds.maurer(risk=risk, kl_nats=nats, n=n, failure_prob=failure_prob)


def markov_transfer(risk, n, privacy, failure_prob):
    information = bounds.in_expectation_nats(privacy=privacy, n=n).information_nats
    nats = bounds.markov_transfer_nats(information_nats=information, failure_prob=failure_prob)
    return bounds.binary_kl_upper(risk, nats / n)


def brier_risk(brier, kl_nats, n, failure_prob):
    return bounds.brier_risk(brier=brier, bound=partial(bounds.maurer, kl_nats=kl_nats, n=n, failure_prob=failure_prob))


def bins_together(bound, counts, corrects, confidences, true_gaps, failure_prob):
    """How far the closest bound lies above its bin's true gap; below zero if one of them fails."""
    told = zip(counts.tolist(), corrects.tolist(), confidences.tolist(), strict=True)
    bins = [_bin(*numbers) for numbers in told]
    made = bound(bins=bins, min_count=5, failure_prob=failure_prob)
    return min(made.terms[f"gap_{b}"] - true for b, true in enumerate(true_gaps))


def _bin(count, correct, confidence):
    low, high = max(0.0, confidence - 0.005), min(1.0, confidence + 0.005)
    return bounds.ConfidenceBin(low=low, high=high, count=count, correct=correct, mean_confidence=confidence)


TEMPERATURES = (0.3, 1.0, 3.0, 20.0)
private_catoni = partial(bounds.private_catoni, inverse_temperature=100.0)
ENTRIES = [
    Entry("clopper_pearson_upper", bounds.clopper_pearson_upper, worlds.TAILS, share=0.9),
    Entry("kl_chernoff_upper", bounds.kl_chernoff_upper, worlds.TAILS, share=0.9),
    Entry("hoeffding_upper", bounds.hoeffding_upper, worlds.TAILS, slack=0.15),
    Entry("gibbs_risk_upper", bounds.gibbs_risk_upper, (*worlds.TAILS, *sampled.MONTE_CARLO), share=0.9),
    Entry("weighted_risk_upper", bounds.weighted_risk_upper, sampled.WEIGHTED, share=0.7),
    Entry("maurer", bounds.maurer, worlds.PAC_BAYES, share=0.3),
    Entry("mcallester", bounds.mcallester, worlds.PAC_BAYES, slack=0.2),
    Entry("quadratic", bounds.quadratic, worlds.PAC_BAYES, slack=0.2),
    Entry("thiemann", bounds.thiemann, worlds.PAC_BAYES, slack=0.2),
    Entry("catoni, C = 600", partial(bounds.catoni, inverse_temperature=600.0), worlds.PAC_BAYES, share=0.9),
    Entry("catoni, best_of a paid grid", best_of_catoni, worlds.PAC_BAYES, share=0.08),
    Entry("catoni_grid", catoni_grid, worlds.PAC_BAYES, share=0.08),
    Entry("linear, lam = 1", partial(bounds.linear, lam=1.0), worlds.PAC_BAYES, slack=0.2),
    Entry("dp_pac_bayes", bounds.dp_pac_bayes, worlds.PRIVATE, slack=0.2),
    Entry("dp_pac_bayes_max_information", bounds.dp_pac_bayes_max_information, worlds.PRIVATE, slack=0.25),
    Entry("dp_pac_bayes_2018", bounds.dp_pac_bayes_2018, worlds.PRIVATE, slack=0.25),
    Entry("dp_kl_chernoff", bounds.dp_kl_chernoff, worlds.PRIVATE[:3], slack=0.2),
    Entry("dp_chernoff", bounds.dp_chernoff, worlds.PRIVATE[:3], slack=0.2),
    Entry("dp_hoeffding", bounds.dp_hoeffding, worlds.PRIVATE[:3], slack=0.2),
    Entry("dp_hoeffding_2018", bounds.dp_hoeffding_2018, worlds.PRIVATE[:3], slack=0.35),
    Entry("dp_chernoff_2018", bounds.dp_chernoff_2018, worlds.PRIVATE[:3], slack=0.9),
    Entry(
        "log_partition_lower",
        bounds.log_partition_lower,
        (*sampled.LOG_PARTITION, sampled.annealed),
        share=0.9,
        lower=True,
    ),
    Entry("log_partition_chernoff", bounds.log_partition_chernoff, sampled.LOG_PARTITION, share=0.9, lower=True),
    Entry("log_partition_jensen", bounds.log_partition_jensen, sampled.LOG_PARTITION, share=0.8, lower=True),
    Entry("log_partition_best", bounds.log_partition_best, sampled.LOG_PARTITION, share=0.45, lower=True),
    Entry("gibbs_pac_bayes", gibbs_pac_bayes, sampled.WITHOUT_DRAWS, slack=0.4),
    Entry("dp_gibbs_pac_bayes", dp_gibbs_pac_bayes, sampled.WITHOUT_DRAWS_PRIVATE, slack=0.6),
    Entry("gibbs_catoni", gibbs_catoni, sampled.WITHOUT_DRAWS, slack=0.4),
    Entry("overall_certificate of maurer", partial(overall, bounds.maurer), sampled.OVERALL, slack=0.4),
    Entry("best_of, checkpoints", checkpoints_at_share, worlds.CHECKPOINTS, share=0.9),
    Entry("best of a paid prior grid", prior_grid_paid, worlds.PRIOR_GRID, share=0.1),
    Entry("empirical_bernstein_upper", bounds.empirical_bernstein_upper, catalogue.MEANS, slack=0.15),
    Entry("second_moment_upper", bounds.second_moment_upper, catalogue.MEANS, slack=0.2),
    Entry("betting_upper", bounds.betting_upper, catalogue.MEANS, share=0.25, slack=0.1),
    Entry("langford_seeger", bounds.langford_seeger, worlds.PAC_BAYES, slack=0.2),
    Entry("tolstikhin_seldin", bounds.tolstikhin_seldin, worlds.PAC_BAYES, slack=0.2),
    Entry("split_kl", split_kl, catalogue.LEVELS, share=0.15, slack=0.1),
    Entry("unexpected_bernstein", bounds.unexpected_bernstein, catalogue.LEVELS, slack=0.3),
    Entry("disintegrated", bounds.disintegrated, catalogue.ONE_DRAW, share=0.3),
    Entry("disintegrated_renyi", bounds.disintegrated_renyi, catalogue.ONE_DRAW, slack=0.2),
    Entry("recursive", recursive, catalogue.CHAINS, slack=0.35),
    Entry("prior_scale_grid, maurer", prior_scale, catalogue.PRIOR_SCALES, share=0.1),
    Entry("private_kl_chernoff, Gaussian", bounds.private_kl_chernoff, released.WEIGHTS, slack=0.2),
    Entry("private_kl_chernoff, pure", bounds.private_kl_chernoff, worlds.PRIVATE[:3], slack=0.2),
    Entry("private_pac_bayes, Gaussian", bounds.private_pac_bayes, released.PRIORS, slack=0.3),
    Entry("private_pac_bayes, pure", bounds.private_pac_bayes, worlds.PRIVATE, slack=0.2),
    Entry("private_catoni, Gaussian", private_catoni, released.PRIORS, slack=0.3),
    Entry("private_catoni, pure", private_catoni, worlds.PRIVATE, slack=0.3),
    Entry("hybrid_pac_bayes, Gaussian", bounds.hybrid_pac_bayes, released.HYBRID, slack=0.3),
    Entry("ece_hoeffding", bounds.ece_hoeffding, calibrated.HELD_OUT, share=0.05, slack=0.25),
    Entry("ece_second_moment", bounds.ece_second_moment, calibrated.HELD_OUT, slack=0.3),
    Entry("ece_pac_bayes", bounds.ece_pac_bayes, calibrated.CHOSEN, slack=0.4),
    Entry("dp_ece_pac_bayes", bounds.dp_ece_pac_bayes, calibrated.EXPONENTIAL, slack=0.4),
    Entry("private_ece_pac_bayes, Gaussian", bounds.private_ece_pac_bayes, calibrated.GAUSSIAN, slack=0.4),
    Entry("mce_hoeffding, all bins", partial(bins_together, bounds.mce_hoeffding), calibrated.BINS, slack=0.2),
    Entry("mce_clopper_pearson, all bins", partial(bins_together, bounds.mce_clopper_pearson), calibrated.BINS, 0.05),
    Entry("brier_risk of maurer", brier_risk, calibrated.BRIER, slack=0.4),
    Entry("markov_transfer_nats", markov_transfer, (released.WEIGHTS[0], worlds.PRIVATE[2]), slack=0.3),
]


def doubled(risk, kl_nats, n, failure_prob):
    return bounds.maurer(risk=risk, kl_nats=kl_nats, n=2 * n, failure_prob=failure_prob)


def doubled_draws(mean, draws, failure_prob):
    return bounds.gibbs_risk_upper(mean=mean, draws=2 * draws, failure_prob=failure_prob)


def examples_as_draws(mean, examples, failure_prob):
    return bounds.gibbs_risk_upper(mean=mean, draws=examples, failure_prob=failure_prob)


def monte_carlo_dropped(mean, kl_nats, n, failure_prob):
    return bounds.maurer(risk=mean, kl_nats=kl_nats, n=n, failure_prob=failure_prob)


def transfer_dropped(risk, kl_nats, n, failure_prob):
    return bounds.maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob)


def divergence_dropped(risk, n, failure_prob):
    return bounds.maurer(risk=risk, kl_nats=0.0, n=n, failure_prob=failure_prob)


def estimate_as_bound(log_mean_exp):
    return log_mean_exp


def best_test_set_unpaid(errors, n, failure_prob):
    return bounds.clopper_pearson_upper(int(errors.min()), n, failure_prob)


def taken_not_reached(share_1, share_2, kl_nats, n, failure_prob):
    """Shares of the losses equal to a level in place of those at least as large."""
    return split_kl(max(share_1 - share_2, share_2), share_2, kl_nats, n, failure_prob)


def divergence_for_density_ratio(risk, kl_nats, n, failure_prob):
    return bounds.disintegrated(risk=risk, log_density_ratio=kl_nats, n=n, failure_prob=failure_prob)


def weights_transfer_dropped(risk, n, failure_prob):
    return bounds.kl_chernoff_upper(risk, n, failure_prob)


def gaps_as_losses(calibration_error, n, failure_prob):
    """Gaps lie in [-1, 1]; here they are taken for losses in [0, 1]."""
    return bounds.hoeffding_upper(calibration_error, n, failure_prob)


def bins_one_by_one(counts, corrects, confidences, true_gaps, failure_prob):
    """Every bin at the whole failure probability."""
    rows = [row[:, None] for row in (counts, corrects, confidences, true_gaps)]
    each = partial(bins_together, bounds.mce_clopper_pearson, failure_prob=failure_prob)
    return min(each(*row) for row in zip(*rows, strict=True))


BROKEN = [
    Entry("n doubled", doubled, worlds.PAC_BAYES),
    Entry("Monte Carlo draws doubled", doubled_draws, worlds.TAILS),
    Entry("examples counted as draws", examples_as_draws, (sampled.shared_weights,)),
    Entry("Monte Carlo error dropped", monte_carlo_dropped, sampled.OVERALL),
    Entry("cost of the private prior dropped", transfer_dropped, worlds.PRIVATE),
    Entry("divergence dropped", divergence_dropped, worlds.PAC_BAYES),
    Entry("prior grid not paid", divergence_dropped, worlds.PRIOR_GRID),
    Entry("best of checkpoints without union", checkpoints_unpaid, worlds.CHECKPOINTS),
    Entry("best test set without union", best_test_set_unpaid, worlds.CHECKPOINTS),
    Entry("estimate of ln Z as its bound", estimate_as_bound, sampled.LOG_PARTITION, lower=True),
    Entry("levels counted as taken, not reached", taken_not_reached, catalogue.LEVELS),
    Entry("divergence for the drawn density ratio", divergence_for_density_ratio, catalogue.ONE_DRAW[:3]),
    Entry("excess measured on examples seen before", recursive, (catalogue.lucky_chain(seen=True),)),
    Entry("prior scale not paid", divergence_dropped, catalogue.PRIOR_SCALES),
    Entry("gaps in [-1, 1] taken for losses", gaps_as_losses, calibrated.HELD_OUT),
    Entry("calibration of the chosen as if held out", bounds.ece_hoeffding, calibrated.CHOSEN),
    Entry("bins without a union", bins_one_by_one, calibrated.BINS[:1]),
    Entry("cost of Gaussian privacy dropped", weights_transfer_dropped, released.WEIGHTS),
]
