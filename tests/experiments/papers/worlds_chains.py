"""Planted tables of the studies of chains: the Entropy-SGLD paper's figures, random labels, corrupted labels."""

from typing import Any

from planted import World, planted

from experiments.papers import entropy_sgld, entropy_sgld_cifar
from experiments.papers.chains import BOUNDS, COLUMNS
from experiments.papers.corruption import ACCOUNTED, CORRUPTION, PRIVATE, SHARES
from experiments.papers.corruption import COLUMNS as CORRUPTED
from experiments.papers.gaps import LETTERS
from experiments.papers.laws import COLUMNS as LAW_COLUMNS
from experiments.papers.laws import LAWS
from experiments.papers.random_labels import RANDOM_LABELS

Row = dict[str, Any]
ROOT = 60_000**0.5
USUAL = 2**0.5 * 60_000**-0.25
FIGURES = {study.name[-1]: study for study in (*entropy_sgld.STUDIES, *entropy_sgld_cifar.STUDIES)}


def _row(algorithm, labels, train, test, *, noise=0.0, **values):
    own = {"algorithm": algorithm, "labels": labels, "thermal_noise": noise, "tau": 2.0 / noise**2 if noise else None}
    return {"network": "CONV", **own, "train_error": train, "test_error": test, **values}


def _private(labels, train, test, *, margin=0.03, **values):
    """Entropy-SGLD with every bound ``margin`` above its test error, the 2018 PAC-Bayes bound lowest of its year."""
    usual = {"algorithm": "Entropy-SGLD", "noise": USUAL, "epsilon": 0.0325, "beta": 1.0, "gamma": 1.0}
    bounds = {name: test + margin + 0.02 * ("chernoff" in name or "hoeffding" in name) for name in BOUNDS}
    errors = {"gibbs_train_error": train, "gibbs_test_error": test}
    return _row(labels=labels, train=train, test=test, **bounds | errors | usual | values)


FIGURE_1 = [
    _row("SGD", "true", 0.001, 0.015), _row("SGD", "random", 0.05, 0.5),
    _private("true", 0.02, 0.02), _private("random", 0.5, 0.5),
    _row("SGLD", "true", 0.01, 0.02, noise=0.001), _row("SGLD", "true", 0.09, 0.09, noise=0.05),
    _row("SGLD", "random", 0.1, 0.5, noise=0.001), _row("SGLD", "random", 0.3, 0.5, noise=0.01),
    _row("SGLD", "random", 0.5, 0.5, noise=0.05), _row("SGLD", "true", 0.03, 0.04, noise=0.01),
    _row("Entropy-SGD", "true", 0.01, 0.02, noise=0.01), _row("Entropy-SGD", "random", 0.49, 0.5, noise=0.01),
    _row("Entropy-SGD", "random", 0.1, 0.5, noise=0.0001), _row("Entropy-SGD", "random", 0.3, 0.5, noise=0.005),
    _row("Entropy-SGD", "true", 0.01, 0.02, noise=0.005),
]  # fmt: skip
FIGURE_3 = [
    _private("true", 0.02, 0.02), _private("true", 0.05, 0.05, algorithm="SGLD"),
    _private("random", 0.5, 0.5, algorithm="SGLD"),
]  # fmt: skip
FIGURE_4 = [
    _private("true", 0.05, 0.05, network="FC1024"), _private("true", 0.03, 0.03),
    _private("random", 0.885, 0.9, network="FC1024"), _private("random", 0.895, 0.9),
]  # fmt: skip


def _sweep():
    for gamma, onset in ((0.03, 1e5), (3.0, 1e3)):
        for tau in (1e2, 1e3, 1e4, 1e5, 1e6):
            own = {"noise": 1e-3 * tau, "gamma": gamma, "tau": tau}
            yield _private("random", 0.9 if tau < onset else 0.45 * (onset / tau) ** 0.5, 0.9, margin=0.1, **own)
            good = tau >= 1e5
            errors = (0.2, 0.25) if good else (0.4, 0.4)
            yield _private("true", *errors, margin=0.75 if good else 0.3, **own)


FIGURE_6 = [
    _private("true", best + more, best + more, gamma=gamma, beta=beta, tau=2000.0 / beta, n=50_000, epsilon=0.3056,
             margin=0.2)
    for beta, best in ((1.0, 0.4), (0.004, 0.19))
    for gamma, more in ((0.003, 0.3), (0.03, 0.04), (0.3, 0.03), (3.0, 0.0), (30.0, 0.05))
]  # fmt: skip
TRUE, RANDOM = ({"algorithm": "Entropy-SGLD", "labels": labels} for labels in ("true", "random"))
PLAIN, COLD = ({"algorithm": "SGD", "labels": labels} for labels in ("true", "random"))
HEATED = {"algorithm": "SGLD", "labels": "random", "thermal_noise": 0.05}
CONV, FC = {"labels": "true", "network": "CONV"}, {"network": "FC600"}
OF_1 = [
    ("", {}, {}, True),
    ("SGD achieves the smallest", PLAIN, {"test_error": 0.03}, False),
    ("SGD achieves the smallest", PLAIN, {"test_error": 0.019}, None),
    ("On random labels SGD overfits", COLD, {"train_error": 0.48}, False),
    ("thermal noise values 0.01 and below", {**HEATED, "thermal_noise": 0.01}, {"train_error": 0.49}, False),
    ("almost zero", HEATED, {"train_error": 0.4}, False),
    ("values 0.005 and below", {"thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.49}, False),
    ("At 0.01", {"algorithm": "Entropy-SGD", "thermal_noise": 0.01, "labels": "random"}, {"train_error": 0.4}, False),
    ("Entropy-SGLD does not overfit", RANDOM, {"train_error": 0.4}, False),
    ("Entropy-SGLD does not overfit", RANDOM, {"gibbs_train_error": 0.475}, None),
    ("Entropy-SGLD does not overfit", TRUE, {"train_error": 0.375}, None),  # little was learnt
    ("tau = sqrt(n) does not", COLD, {"train_error": 0.48}, False),
    ("tau = sqrt(n) does not", RANDOM, {"gibbs_train_error": 0.46}, False),
    ("close to zero", TRUE, {"train_error": 0.0, "test_error": 0.05}, False),
    ("nonvacuous", TRUE, {"dp_chernoff_2018": 1.0}, False),
    ("generally tighter", TRUE, {"dp_pac_bayes_2018": 0.2}, False),
    ("violations", RANDOM, {"dp_pac_bayes": 0.4, "dp_chernoff": 0.4}, False),
    ("violations", {"algorithm": "Entropy-SGLD"}, dict.fromkeys(BOUNDS, 1.0), None),  # a bound of one cannot fail
]
OF_2 = [
    ("", {}, {}, True),
    ("similar for both", FC, {"train_error": 0.2, "test_error": 0.2}, False),
    ("nonvacuous", FC, {"dp_hoeffding_2018": 1.0}, False),
    ("gap is close to zero", FC, {"train_error": 0.0}, False),
    ("gap is close to zero", FC, {"train_error": 0.375, "test_error": 0.38}, None),
    ("more frequently", FC, {"dp_gibbs_pac_bayes": 0.03}, False),
]
OF_3 = [
    ("", {}, {}, True),
    ("higher training and test error", {"algorithm": "SGLD", "labels": "true"}, {"train_error": 0.01}, False),
    ("does not overfit", {"algorithm": "SGLD", "labels": "random"}, {"train_error": 0.4}, False),
    ("worse than", {"algorithm": "SGLD", "labels": "true"}, {"dp_chernoff_2018": 0.055}, False),
    ("more frequently", {"labels": "random"}, {"dp_hoeffding": 0.4, "dp_chernoff": 0.4}, False),
]
OF_4 = [
    ("", {}, {}, True),
    ("CONV has lower", CONV, {"test_error": 0.065}, False),
    ("CONV has lower", CONV, {"test_error": 0.049}, None),
    ("guessing rate", {**CONV, "labels": "random"}, {"train_error": 0.8}, False),
    ("guessing rate", {"network": "FC1024", "labels": "random"}, {"train_error": 0.8}, True),  # it speaks of CONV
    ("gap is close to zero", CONV, {"train_error": 0.0, "test_error": 0.04}, False),
    ("about 2% at most", {**CONV, "labels": "random"}, {"train_error": 0.86}, False),
    ("nonvacuous", CONV, {"dp_pac_bayes_2018": 1.0}, False),
    ("more frequently", {"labels": "true"}, {"dp_hoeffding": 0.01}, False),
]
SLOW = {"gamma": 0.03, "labels": "true"}
OF_5 = [
    ("", {}, {}, True),
    ("only at the values", {**SLOW, "tau": 1e5}, {"dp_chernoff_2018": 0.9}, False),
    ("Very little overfitting", {**SLOW, "tau": 1e2}, {"train_error": 0.3}, False),
    ("the largest tau", {"labels": "random", "gamma": 0.03, "tau": 1e6}, {"train_error": 0.85}, False),
    ("increases with tau", {"labels": "random", "gamma": 0.03, "tau": 1e5}, {"train_error": 0.01}, False),
    ("at a lower tau", {"labels": "random", "gamma": 0.03, "tau": 1e2}, {"train_error": 0.3}, False),
    ("No generalization bounds", {"labels": "random", "gamma": 3.0, "tau": 1e6}, {"dp_kl_chernoff": 0.5}, False),
]
OF_6 = [
    ("", {}, {}, True),
    ("same privacy", {"beta": 1.0, "gamma": 30.0}, {"epsilon": 0.31}, False),
    ("tighter than the C-gen", {"beta": 0.004, "gamma": 30.0}, {"dp_pac_bayes_2018": 0.9}, False),
    ("tighter than the C-gen", {}, {"gibbs_train_error": 0.5}, None),
    ("are similar", {"beta": 1.0, "gamma": 0.03}, {"dp_pac_bayes_2018": 0.7}, False),
    ("gamma in [1, 3]", {"beta": 1.0, "gamma": 0.03}, {"train_error": 0.36, "test_error": 0.36}, False),
    ("At gamma 0.003", {"beta": 1.0, "gamma": 0.003}, {"test_error": 0.45}, False),
    ("With beta 0.004", {"beta": 1.0, "gamma": 3.0}, {"train_error": 0.1}, False),
    ("No generalization bounds", {"beta": 1.0, "gamma": 3.0}, {"dp_kl_chernoff": 0.3}, False),
]
TABLES = {
    "1": FIGURE_1, "2": [_private("true", 0.04, 0.041, network=name) for name in ("FC600", "FC1200")], "3": FIGURE_3,
    "4": FIGURE_4, "5": list(_sweep()), "6": FIGURE_6,
}  # fmt: skip

# Table of random-labels: Figure 1, and SGLD at the privacy of Entropy-SGLD.
SAME = {"algorithm": "SGLD", "labels": "true", "thermal_noise": USUAL}
OF_RANDOM = [
    ("", {}, {}, True),
    ("SGD overfits random", COLD, {"train_error": 0.48}, False),
    ("high generalization error", {**HEATED, "thermal_noise": 0.01}, {"train_error": 0.49}, False),
    ("overfits for thermal noise 0.005", {"thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.48}, False),
    ("At 0.01", {"algorithm": "Entropy-SGD", "thermal_noise": 0.01, "labels": "random"}, {"train_error": 0.4}, False),
    ("close to zero", TRUE, {"train_error": 0.0, "test_error": 0.05}, False),
    ("Entropy-SGLD does not", RANDOM, {"train_error": 0.4}, False),
    ("SGLD at the same privacy does not", {**SAME, "labels": "random"}, {"train_error": 0.4}, False),
    ("tau = sqrt(n) does not", TRUE, {"train_error": 0.3}, None),
    ("same privacy has higher", SAME, {"test_error": 0.01}, False),
    ("same privacy has higher", SAME, {"train_error": 0.52, "test_error": 0.52}, None),  # it has learnt nothing
    ("nonvacuous", TRUE, {"dp_hoeffding_2018": 1.0}, False),
    ("tighter (bound minus", TRUE, {"dp_pac_bayes_2018": 0.2}, False),
    ("violated", TRUE, dict.fromkeys(("dp_kl_chernoff", "dp_chernoff"), 0.005), False),
    ("violated", TRUE, {"dp_kl_chernoff": 0.0199}, True),  # within the test error's own noise
]


def _corrupted():
    for share in SHARES:
        common = {"network": "CONV", "random_share": share, "least_error": share / 2}
        yield {**common, "algorithm": "SGD", "train_error": 0.1 * share, "test_error": 0.02 + 0.48 * share}
        for name in PRIVATE:
            error = 0.05 + 0.45 * share
            bounds = dict.fromkeys(BOUNDS if name == "Entropy-SGLD" else (ACCOUNTED,), error + 0.1)
            errors = dict.fromkeys(("train_error", "test_error", "gibbs_train_error", "gibbs_test_error"), error)
            yield {**common, **bounds, **errors, "algorithm": name, "epsilon": 1.0}


OF_CORRUPTION = [
    ("", {}, {}, True),
    ("SGD memorises", {"algorithm": "SGD", "random_share": 0.25}, {"train_error": 0.07}, False),
    ("grows steadily", {"algorithm": "SGD", "random_share": 1.0}, {"test_error": 0.2}, False),
    *((f"{name} does not fit", {"algorithm": name, "random_share": 0.75}, {"train_error": 0.1}, False)
      for name in PRIVATE),
    *((f"smallest bound of {name} is", {"algorithm": name, "random_share": 0.0},
       dict.fromkeys((*BOUNDS, ACCOUNTED), 0.6), False) for name in PRIVATE),
    ("No bound lies below", {"algorithm": "DP-SGD", "random_share": 1.0}, {ACCOUNTED: 0.45}, False),
    ("No bound lies below", {"algorithm": "Entropy-SGLD", "random_share": 1.0}, {"dp_kl_chernoff": 0.45}, False),
]  # fmt: skip


def _chains(run, train, labels, count=2):
    """Rows of several chains that stay where they are, the later ones a little worse."""
    ten = "-ten-" in run
    conv, plain = run.startswith("conv"), run.startswith("conv-ten")
    known = {
        "run": run, "labels": labels, "dataset": "mnist" if ten else "mnist2", "start": "sgd", "r_hat": 1.0,
        "network": "CONV" if conv else run.split("-")[0].upper(), "norm": "group" if conv and not plain else "none",
        "algorithm": "Entropy-SGLD" if "entropy" in run or ten else "SGLD", "tau": ROOT, "thermal_noise": 0.0904,
    }  # fmt: skip
    for chain in range(count):
        error = train + 0.001 * chain
        own = {"chain": chain, "train_error": error, "test_error": error, **dict.fromkeys(LETTERS, error + 0.05)}
        own["dp_pac_bayes_2018"] = error + 0.02
        if known["algorithm"] == "Entropy-SGLD":
            own |= {"gibbs_train_error": error, "gibbs_test_error": error}
        yield {**known, **own}


def _laws():
    for k, seed in enumerate(("", "-1", "-2", "-3")):
        for name, train in (("fc600", 0.2), ("fc1200", 0.205)):
            yield from _chains(f"{name}-entropy-true{seed}", train + 0.001 * (k > 0), "true", 4)
    for name, train in (("conv-entropy", 0.1), ("conv-sgld", 0.15), ("conv-hot", 0.05), ("fc1024-ten", 0.3),
                        ("conv-ten", 0.5), ("conv-group-ten", 0.25)):  # fmt: skip
        yield from _chains(f"{name}-true", train, "true")
        yield from _chains(f"{name}-random", 0.895 if "ten" in name else 0.495, "random")
    for seed in range(8):
        for algorithm, test in (("SGD", 0.03), ("SGLD", 0.033)):
            yield {"run": f"{algorithm}{seed}", "n": 2000, "labels": "true", "network": "CONV", "dataset": "mnist2",
                   "algorithm": algorithm, "seed": seed, "train_error": 0.0,
                   "test_error": test + 1e-4 * seed}  # fmt: skip


def _of(run, error, *parts):
    """The chains of a run, and their error of these parts of the data."""
    return {"run": run}, {f"{gibbs}{part}_error": error for part in parts for gibbs in ("", "gibbs_")}


OF_LAWS = [
    ("", {}, {}, True),
    ("smallest training and test", {"algorithm": "SGLD", "n": 2000}, {"test_error": 0.027}, False),
    ("on random labels, Entropy-SGLD does not", *_of("conv-entropy-random", 0.45, "train"), False),
    ("on true labels the generalization error of", *_of("conv-entropy-true", 0.15, "test"), False),
    ("0.05 thermal noise", *_of("conv-hot-random", 0.6, "test"), False),
    ("SGLD does not overfit on random", *_of("conv-sgld-random", 0.6, "test"), False),
    ("SGLD does not overfit on random", *_of("conv-sgld-true", 0.49, "train"), None),  # nothing was learnt
    ("SGLD has a higher training", *_of("conv-sgld-true", 0.05, "train"), False),
    ("C-bound of SGLD's", {"run": "conv-sgld-true"}, {"dp_chernoff_2018": 0.1}, False),
    ("generally tighter", {"run": "conv-entropy-true"}, {"dp_pac_bayes_2018": 0.3}, False),
    ("similar for both", {"network": "FC1200"}, {"train_error": 0.3}, False),
    ("CONV: on random labels Entropy-SGLD overfits", *_of("conv-group-ten-random", 0.955, "test"), False),
    ("CONV: on true labels the generalization gap", *_of("conv-group-ten-true", 0.31, "test"), False),
    ("FC1024: on random labels Entropy-SGLD overfits", *_of("fc1024-ten-random", 0.955, "test"), False),
    ("FC1024: on random labels Entropy-SGLD overfits", *_of("fc1024-ten-true", 0.5, "train", "test"), None),
    ("FC1024: on true labels the generalization gap", *_of("fc1024-ten-true", 0.36, "test"), False),
    ("CONV has lower", *_of("conv-group-ten-true", 0.35, "train", "test"), False),
    ("guessing rate", *_of("conv-group-ten-random", 0.8, "train", "test"), False),
    ("bounds are nonvacuous", {"run": "conv-ten-true"}, {"dp_chernoff_2018": 1.0}, False),
]
WORLDS = [
    *(World(FIGURES[name], planted(COLUMNS, TABLES[name]), turns)
      for name, turns in zip("123456", (OF_1, OF_2, OF_3, OF_4, OF_5, OF_6), strict=True)),
    World(RANDOM_LABELS, planted(COLUMNS, [*FIGURE_1, _private("true", 0.15, 0.15, algorithm="SGLD"),
                                           _private("random", 0.5, 0.5, algorithm="SGLD")]), OF_RANDOM),
    World(CORRUPTION, planted(CORRUPTED, list(_corrupted())), OF_CORRUPTION),
    World(LAWS, planted(LAW_COLUMNS, list(_laws())), OF_LAWS),
]  # fmt: skip
