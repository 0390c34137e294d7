"""Chains that stay where they are: verdicts on Figures 1 to 4 follow their errors, and every sentence can fail."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from planted import claims

from experiments.papers.gaps import LETTERS
from experiments.papers.laws import COLUMNS, LAWS
from experiments.papers.laws_verdict import laws

ROOT = 60_000**0.5


def chains(
    run: str, train: float, *, gap: float = 0.0, labels: str = "true", count: int = 2, **other: Any
) -> Iterator[dict[str, Any]]:
    """Rows of several chains, the later ones a little worse."""
    ten = "-ten-" in run
    conv, plain = run.startswith("conv"), run.startswith("conv-ten")
    known = {
        "run": run, "labels": labels, "dataset": "mnist" if ten else "mnist2", "start": "sgd", "r_hat": 1.0,
        "network": "CONV" if conv else run.split("-")[0].upper(), "norm": "group" if conv and not plain else "none",
        "algorithm": "Entropy-SGLD" if "entropy" in run or ten else "SGLD", "tau": ROOT, "thermal_noise": 0.0904,
    }  # fmt: skip
    for chain in range(count):
        error = train + 0.001 * chain
        own = {"chain": chain, "train_error": error, "test_error": error + gap, **dict.fromkeys(LETTERS, error + 0.05)}
        own["dp_pac_bayes_2018"] = error + 0.02
        if known["algorithm"] == "Entropy-SGLD":
            own |= {"gibbs_train_error": error, "gibbs_test_error": error + gap}
        yield {**known, **own, **other}


def ends(algorithm: str, seed: int, train: float, test: float) -> dict[str, Any]:
    """The last record of a run of Figure 1."""
    own = {"run": f"{algorithm}{seed}", "n": 2000, "labels": "true", "network": "CONV", "dataset": "mnist2"}
    return {"algorithm": algorithm, "seed": seed, "train_error": train, "test_error": test, **own}


def table(**changes: dict[str, Any]) -> pl.DataFrame:
    """What agrees with the paper, but for ``changes`` of the chains whose names begin so."""
    plan: list[tuple[str, float, dict[str, Any]]] = [
        *((f"{name}-entropy-true{seed}", train + 0.001 * len(seed), {"count": 4})
          for name, train in (("fc600", 0.2), ("fc1200", 0.205)) for seed in ("", "-1", "-2", "-3")),
        ("conv-entropy-true", 0.1, {}), ("conv-sgld-true", 0.15, {}), ("conv-hot-true", 0.05, {}),
        ("fc1024-ten-true", 0.3, {}), ("conv-ten-true", 0.5, {}),
        ("conv-group-ten-true", 0.25, {}), ("conv-group-ten-random", 0.895, {"labels": "random"}),
        ("conv-entropy-random", 0.495, {"labels": "random"}), ("conv-sgld-random", 0.495, {"labels": "random"}),
        ("conv-hot-random", 0.49, {"labels": "random"}), ("fc1024-ten-random", 0.895, {"labels": "random"}),
        ("conv-ten-random", 0.895, {"labels": "random"}),
    ]  # fmt: skip
    found = []
    for run, train, own in plan:
        of = run.rstrip("-0123456789").replace("-", "_")
        found += chains(run, **{"train": train, **own, **changes.get(of, {})})
    for seed in range(8):
        found.append(ends("SGD", seed, 0.0, 0.03 + 1e-4 * seed))
        found.append(ends("SGLD", seed, 0.0, changes.get("sgld", {}).get("test", 0.033) + 1e-4 * seed))
    numbers = {"n": 60_000, "n_test": 10_000}
    made = [{name: {**numbers, **row}.get(name) for name in COLUMNS} for row in found]
    return pl.DataFrame(made, schema=dict(COLUMNS))


def held(**changes: dict[str, Any]) -> dict[str, bool | None]:
    return {sentence: claim.holds for sentence, claim in claims(LAWS.judge(table(**changes), "cpu")).items()}


def test_chains_that_agree_with_the_paper_confirm_every_sentence() -> None:
    assert set(held().values()) == {True}


@pytest.mark.parametrize(
    ("words", "changes", "holds"),
    [
        ("smallest training and test", {"sgld": {"test": 0.027}}, False),
        ("on random labels, Entropy-SGLD does not", {"conv_entropy_random": {"train": 0.45, "gap": 0.05}}, False),
        ("on true labels the generalization error of", {"conv_entropy_true": {"gap": 0.05}}, False),
        ("0.05 thermal noise", {"conv_hot_random": {"gap": 0.1}}, False),
        ("SGLD does not overfit on random", {"conv_sgld_random": {"gap": 0.1}}, False),
        ("SGLD has a higher training", {"conv_sgld_true": {"train": 0.05}}, False),
        ("C-bound of SGLD's", {"conv_sgld_true": {"dp_chernoff_2018": 0.1}}, False),
        ("generally tighter", {"conv_entropy_true": {"dp_pac_bayes_2018": 0.3}}, False),
        ("generally tighter", {"conv_entropy_true": {"dp_pac_bayes_2018": 0.146}}, None),
        ("similar for both", {"fc1200_entropy_true": {"train": 0.3}}, False),
        ("CONV: on random labels Entropy-SGLD overfits", {"conv_group_ten_random": {"gap": 0.06}}, False),
        ("CONV: on true labels the generalization gap", {"conv_group_ten_true": {"gap": 0.06}}, False),
        ("FC1024: on random labels Entropy-SGLD overfits", {"fc1024_ten_random": {"gap": 0.06}}, False),
        ("FC1024: on random labels Entropy-SGLD overfits", {"fc1024_ten_true": {"train": 0.5}}, None),
        ("CONV has lower", {"conv_group_ten_true": {"train": 0.35}}, False),
        ("remain close to the guessing rate", {"conv_group_ten_random": {"train": 0.8}}, False),
        ("bounds are nonvacuous", {"conv_ten_true": {"dp_chernoff_2018": 1.0}}, False),
        ("SGLD does not overfit on random", {"conv_sgld_true": {"train": 0.49}}, None),  # nothing was learnt
    ],
)
def test_every_sentence_can_fail(words: str, changes: dict[str, dict[str, Any]], holds: bool | None) -> None:
    found = [value for sentence, value in held(**changes).items() if words in sentence]
    assert found == [holds]


def test_a_kind_of_chain_has_the_mean_of_its_chains() -> None:
    (row,) = laws(table(), run="conv-entropy-true")
    assert row["train_error"] == pytest.approx(0.1005)
    assert row["network"] == "CONV with GroupNorm"


def test_chains_that_disagree_are_named() -> None:
    notes = LAWS.judge(table(conv_entropy_true={"r_hat": 1.4}), "cpu").notes
    assert any("conv-entropy-true 1.40" in note for note in notes)


def test_every_scale_has_jobs_of_its_own() -> None:
    for scale in ("smoke", "cpu", "paper"):
        keys = [job.key for job in LAWS.jobs(scale, 0)]
        assert len(set(keys)) == len(keys) == 36
