"""The bounds under test. A new bound joins by a line in ENTRIES; broken ones are in ``broken``."""

from dataclasses import replace
from functools import partial
from math import log, sqrt

import numpy as np

import bounds
from bounds import (
    betting_upper,
    catoni,
    clopper_pearson_upper,
    disintegrated,
    disintegrated_renyi,
    ece_hoeffding,
    ece_pac_bayes,
    ece_second_moment,
    gibbs_risk_upper,
    hoeffding_upper,
    kl_chernoff_upper,
    langford_seeger,
    log_xi,
    maurer,
    mcallester,
    quadratic,
    thiemann,
    tolstikhin_seldin,
    unexpected_bernstein,
    weighted_risk_upper,
)
from bounds.partition import log_partition_chernoff, log_partition_jensen, log_partition_lower
from bounds.printed import (
    dp_chernoff,
    dp_chernoff_2018,
    dp_ece_pac_bayes,
    dp_hoeffding,
    dp_hoeffding_2018,
    dp_kl_chernoff,
    dp_pac_bayes,
    dp_pac_bayes_2018,
    dp_pac_bayes_max_information,
    hybrid_pac_bayes,
    private_ece_pac_bayes,
    private_kl_chernoff,
    private_pac_bayes,
)
from tests.coverage import adapters as by
from tests.coverage import (
    calibrated,
    catalogue,
    compressed,
    controlled,
    crowds,
    mechanisms,
    noisy,
    people,
    released,
    sampled,
    tight,
    worlds,
)
from tests.coverage.harness import FRACTIONS, Entry
from tests.coverage.worlds import DELTA

MOST, HALF, THIRD, FIFTH, TENTH = FRACTIONS
_NATS = MOST * log(1 / DELTA)
LUCKY = (tight.lucky(10**6, 60.0, 0.05),)
PLAIN = (worlds.point(1, log_xi(1), fraction=MOST),)
FREE = (worlds.point(30, 0.0, fraction=MOST),)
EVEN = (tight.lucky(2000, 60.0, 0.5),)
NO_ERROR = (worlds.tail(40, rate=tight.none_at(40, _NATS)),)
TWO_DRAWS = sqrt(_NATS / 4) * (1 + 1e-9)  # Hoeffding's bound of two draws without an error
TWO = (worlds.tail(2, rate=TWO_DRAWS),)
WEIGHTED = (sampled.unequal_batches(alike=True, fraction=MOST),)
CHECKPOINTS = (worlds.checkpoints(n=40, count=10, at=(DELTA / 10) ** MOST),)
SCALES = (catalogue.prior_scales(2, 60, paid=True, fraction=MOST),)
WARM = sampled.log_partition(MOST)
BY_HEART = (tight.by_heart(32, 0.5, 32 * 4.0, 10**12),)
RESPONSE = (mechanisms.randomised_response(4000, 6 * sqrt(8 / 4000)),)
COARSE = (mechanisms.shared_noise(10**6, 0.03, share=0.09), mechanisms.shared_noise(10**6, 0.03, share=0.025))
STEPS = (mechanisms.randomised_response(4000, 8 * sqrt(8 / 4000), step=25),)
SHARED = (mechanisms.shared_noise(60_000, 0.1), *COARSE)
RESPONSE_GAPS = (mechanisms.randomised_gaps(10**6, 8 * sqrt(8 / 10**6)),)
SHARED_GAPS = (mechanisms.shared_gaps(10**7, 0.01, share=0.085),)
ONE_BIN = (
    tight.one_bin(2, TWO_DRAWS * 1.005, "Hoeffding's bound of no correct one"),
    tight.one_bin(40, tight.none_at(40, MOST * log(2 / DELTA)) + 0.005, "the exact bound of no correct one"),
)
SINGLE = (worlds.private_release(1, 1, tight.none_at(1, HALF * 4.4), 1e-9),)
RARE = (worlds.private_release(1, 1, tight.none_at(1, FIFTH * 13.5), 1e-9),)
BETS = (catalogue.coins(3, betting_upper(np.zeros(3), DELTA**MOST) * (1 + 1e-9), "the bound at no error"),)

RARE_ARC = (mechanisms.randomised_response(10**6, 20 * sqrt(8 / 10**6), rate=1 / 3),)
FIVE = (mechanisms.randomised_response(5, 0.9),)
FOUR = (mechanisms.randomised_response(4, 1.0, rate=0.7),)
SIXTEEN = (mechanisms.randomised_response(16, 0.5, rate=0.2),)
FEWER_COINS = (tight.coins(10**4, 0.05),)
FAIR, COINS = (tight.coins(500, 0.5),), (tight.coins(10**5, 0.05),)
ANNEALED = (*sampled.LOG_PARTITION, sampled.annealed)

_GRID = "a union over 20 values of eta costs as much again as the failure probability"
_ESTIMATED = "ln(2/failure_prob), and 7/3 for a variance that is estimated"
_PRINTED = "printed constants: epsilon in place of epsilon/4, and 1/√n besides"
LOOSE = {
    "dp_pac_bayes_max_information": (HALF, "ln(2/failure_prob), and a part for privacy four times the sharp one"),
    "dp_pac_bayes_2018": (THIRD, "2 max{ln(3/failure_prob), n epsilon²}: sixteen times the sharp part for privacy"),
    "dp_chernoff": (HALF, "(p-q)²/(2p) in place of kl, under privacy at most 0.59 of what is paid for"),
    "dp_hoeffding_2018": (FIFTH, _PRINTED),
    "dp_chernoff_2018": (TENTH, _PRINTED),
    "empirical_bernstein_upper": (FIFTH, _ESTIMATED),
    "new_person_bernstein": (FIFTH, _ESTIMATED),
    "new_person_second_moment": (TENTH, _GRID),
    "second_moment_upper": (TENTH, _GRID),
    "ece_hoeffding": (THIRD, "gaps have a range of 2, and a folded mean cannot be small by a lattice's last point"),
    "ece_second_moment": (TENTH, _GRID),
}
PERSON = {
    name: partial(people.person, getattr(bounds, f"new_person_{name}")) for name in ("kl", "hoeffding", "betting")
}
PEOPLE = [
    Entry("new_person_clopper_pearson", people.person_clopper_pearson, worlds.TAILS, NO_ERROR, 0.9),
    Entry("new_person_kl", PERSON["kl"], worlds.TAILS, NO_ERROR, 0.9),
    Entry("new_person_hoeffding", PERSON["hoeffding"], worlds.TAILS, TWO),
    Entry("new_person_bernstein", people.person_bernstein, (), FAIR),
    Entry("new_person_second_moment", people.person_second_moment, (), FEWER_COINS),
    Entry("new_person_betting", PERSON["betting"], (), BETS),
    Entry("for_a_new_person of maurer", people.person_maurer, worlds.PAC_BAYES[:2], LUCKY),
    Entry("new_person_monte_carlo", people.person_monte_carlo, people.FRESH_PEOPLE, NO_ERROR),
    Entry("new_example_monte_carlo", people.example_monte_carlo, people.FRESH_EXAMPLES, NO_ERROR),
    Entry("new_example_kl", people.example_kl, (*worlds.TAILS, *people.UNEVEN), NO_ERROR, 0.9),
    Entry("new_example_pac_bayes", people.example_pac_bayes, (*worlds.PAC_BAYES[:2], *people.UNEVEN), LUCKY),
    Entry("new_example_betting", people.example_betting, people.UNEVEN, BETS),
]
_ENTRIES = [
    Entry("clopper_pearson_upper", clopper_pearson_upper, worlds.TAILS, NO_ERROR, share=0.9),
    Entry("kl_chernoff_upper", kl_chernoff_upper, worlds.TAILS, NO_ERROR, share=0.9),
    Entry("hoeffding_upper", hoeffding_upper, worlds.TAILS, TWO),
    Entry("gibbs_risk_upper", gibbs_risk_upper, (*worlds.TAILS, *sampled.MONTE_CARLO), NO_ERROR, share=0.9),
    Entry("weighted_risk_upper", weighted_risk_upper, sampled.WEIGHTED, WEIGHTED, share=0.7),
    Entry("maurer", maurer, worlds.PAC_BAYES, LUCKY, share=0.3),
    Entry("maurer, no divergence", maurer, worlds.PAC_BAYES[:1], PLAIN),
    Entry("langford_seeger", langford_seeger, worlds.PAC_BAYES, LUCKY),
    Entry("mcallester", mcallester, worlds.PAC_BAYES, EVEN),
    Entry("quadratic", quadratic, worlds.PAC_BAYES, LUCKY),
    Entry("thiemann", thiemann, worlds.PAC_BAYES, LUCKY),
    Entry("tolstikhin_seldin", tolstikhin_seldin, worlds.PAC_BAYES, LUCKY),
    Entry("catoni, C = 600", partial(catoni, inverse_temperature=600.0), worlds.PAC_BAYES, LUCKY, share=0.9),
    Entry("catoni, no divergence", partial(catoni, inverse_temperature=600.0), worlds.PAC_BAYES[1:2], FREE),
    Entry("catoni, best_of a paid grid", by.best_of_catoni, worlds.PAC_BAYES[:5], LUCKY, share=0.08),
    Entry("catoni_grid", by.catoni_grid, worlds.PAC_BAYES, LUCKY, share=0.08),
    Entry("linear, lam = 1", by.linear, worlds.PAC_BAYES, LUCKY),
    Entry("split_kl", by.split_kl, catalogue.LEVELS, LUCKY, share=0.15),
    Entry("unexpected_bernstein", unexpected_bernstein, catalogue.LEVELS, LUCKY),
    Entry("disintegrated", disintegrated, catalogue.ONE_DRAW, LUCKY, share=0.3),
    Entry("disintegrated_renyi", disintegrated_renyi, catalogue.ONE_DRAW, LUCKY),
    Entry("recursive", by.recursive, catalogue.CHAINS, (tight.lucky_step(2000, 60.0, 0.5, gamma=0.05),)),
    Entry("best of a paid prior grid", by.prior_grid_paid, worlds.PRIOR_GRID, LUCKY, share=0.1),
    Entry("prior_scale_grid, maurer", by.prior_scale, catalogue.PRIOR_SCALES, SCALES, share=0.1),
    Entry("best_of, checkpoints", by.checkpoints_at_share, worlds.CHECKPOINTS, CHECKPOINTS, share=0.9),
    Entry("overall_certificate of maurer", partial(by.overall, maurer), sampled.OVERALL, LUCKY),
    Entry("log_partition_lower", log_partition_lower, ANNEALED, WARM, 0.9, True),
    Entry("log_partition_chernoff", log_partition_chernoff, sampled.LOG_PARTITION, WARM, 0.9, True),
    Entry("log_partition_jensen", log_partition_jensen, sampled.LOG_PARTITION, WARM, 0.8, True),
    Entry("log_partition_best", by.log_partition_best, sampled.LOG_PARTITION, WARM, 0.45, True),
    Entry("gibbs_pac_bayes", by.gibbs_pac_bayes, sampled.WITHOUT_DRAWS, BY_HEART),
    Entry("gibbs_catoni", by.gibbs_catoni, sampled.WITHOUT_DRAWS, BY_HEART),
    Entry("dp_gibbs_pac_bayes", by.dp_gibbs_pac_bayes, sampled.WITHOUT_DRAWS_PRIVATE, STEPS),
    Entry("dp_pac_bayes", dp_pac_bayes, worlds.PRIVATE, RESPONSE),
    Entry("dp_pac_bayes_max_information", dp_pac_bayes_max_information, worlds.PRIVATE, SINGLE),
    Entry("dp_pac_bayes_2018", dp_pac_bayes_2018, worlds.PRIVATE, FIVE),
    Entry("dp_kl_chernoff", dp_kl_chernoff, worlds.PRIVATE[:3], RESPONSE),
    Entry("dp_chernoff", dp_chernoff, worlds.PRIVATE[:3], RARE_ARC),
    Entry("dp_hoeffding", dp_hoeffding, worlds.PRIVATE[:3], RESPONSE),
    Entry("dp_hoeffding_2018", dp_hoeffding_2018, worlds.PRIVATE[:3], FOUR),
    Entry("dp_chernoff_2018", dp_chernoff_2018, worlds.PRIVATE[:3], SIXTEEN),
    Entry("private_kl_chernoff, Gaussian", private_kl_chernoff, released.WEIGHTS, SHARED, share=0.4),
    Entry("private_kl_chernoff, pure", private_kl_chernoff, worlds.PRIVATE[:3], RESPONSE),
    Entry("private_pac_bayes, Gaussian", private_pac_bayes, released.PRIORS, COARSE, share=0.4),
    Entry("private_pac_bayes, pure", private_pac_bayes, worlds.PRIVATE, RESPONSE),
    Entry("private_catoni, Gaussian", by.private_catoni, released.PRIORS, COARSE, share=0.4),
    Entry("private_catoni, pure", by.private_catoni, worlds.PRIVATE, RESPONSE),
    Entry("hybrid_pac_bayes, Gaussian", hybrid_pac_bayes, released.HYBRID, COARSE, share=0.4),
    Entry("noisy_sum_worst_case", noisy.worst_case, noisy.WORST, noisy.WORST_AT),
    Entry("noisy_sum_realised", noisy.realised, noisy.REALISED, noisy.REALISED_AT),
    Entry("poisson_sum", noisy.poisson, (noisy.SECRET,), (noisy.SECRET_AT,)),
    Entry("poisson_sum_realised", noisy.realised_poisson, (noisy.SECRET_REALISED,), (noisy.SECRET_REALISED_AT,)),
    Entry("empirical_bernstein_upper", by.empirical_bernstein, catalogue.MEANS, FAIR),
    Entry("second_moment_upper", by.second_moment, catalogue.MEANS, COINS),
    Entry("betting_upper", betting_upper, catalogue.MEANS[1::2], BETS, share=0.25),
    Entry("ece_hoeffding", ece_hoeffding, calibrated.HELD_OUT, (tight.gaps(2000, 0.6),), share=0.05),
    Entry("ece_second_moment", ece_second_moment, calibrated.HELD_OUT, COINS),
    Entry("ece_pac_bayes", ece_pac_bayes, calibrated.CHOSEN, LUCKY),
    Entry("dp_ece_pac_bayes", dp_ece_pac_bayes, calibrated.EXPONENTIAL, RESPONSE_GAPS),
    Entry("private_ece_pac_bayes, Gaussian", private_ece_pac_bayes, calibrated.GAUSSIAN, SHARED_GAPS),
    Entry("mce_hoeffding, all bins", by.mce_hoeffding, calibrated.BINS, ONE_BIN[:1]),
    Entry("mce_clopper_pearson, all bins", by.mce_clopper_pearson, calibrated.BINS[:2], ONE_BIN, share=0.05),
    *PEOPLE,
    *crowds.ENTRIES,
    *compressed.ENTRIES,
    *controlled.ENTRIES,
    Entry("maurer of half the Brier loss", by.half_brier, calibrated.BRIER, (tight.lucky_brier,)),
]
ENTRIES = [
    replace(entry, caught=LOOSE[entry.name][0], why=LOOSE[entry.name][1]) if entry.name in LOOSE else entry
    for entry in _ENTRIES
]
