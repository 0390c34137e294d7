"""Knolle et al.'s studies: their runs, the tables made of them, and verdicts that follow the numbers."""

import json
import math
from dataclasses import replace

import polars as pl
import pytest

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon, sampled_gaussians
from experiments.claims import Measured, larger
from experiments.papers.knolle import BIN_COLUMNS, PRINTED, RUN_COLUMNS, STUDIES
from experiments.papers.runs.knolle import MNIST, PLAIN, XRAYS, PlainConfig, train_plain
from experiments.tables import pooled
from pacdp import Diverged, private
from pacdp.cli.config import Runtime
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.data import examples
from pacdp.cli.serial import from_dict, to_dict

RUNTIME = Runtime(threads=1)
BY_NAME = {study.name: study for study in STUDIES}
SCALES = ("smoke", "cpu", "paper")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", BY_NAME)
def test_jobs_have_distinct_keys_and_configurations_that_survive_json(name, scale):
    jobs = BY_NAME[name].jobs(scale, 3)
    assert len({job.key for job in jobs}) == len(jobs)
    for job in jobs:
        assert from_dict(type(job.config), json.loads(json.dumps(to_dict(job.config)))) == job.config
        assert job.key.replace("-", "").isalnum()
        assert job.config.seed >= 3


@pytest.mark.parametrize("scale", SCALES)
def test_a_run_that_two_studies_need_has_one_key_and_another_seed_another(scale):
    found = {name: {job.key: job.config for job in study.jobs(scale, 0)} for name, study in BY_NAME.items()}
    one, two, figure = (found[name] for name in BY_NAME)
    assert figure.keys() < one.keys() | two.keys()
    assert one.keys() < figure.keys()
    assert all((one | two)[key] == figure[key] for key in figure)
    assert not one.keys() & {job.key for job in BY_NAME["knolle-table-1"].jobs(scale, 100)}


@pytest.mark.parametrize("bench", [MNIST, XRAYS], ids=lambda bench: bench.name)
def test_the_temperatures_use_nearly_all_steps_of_the_budget_and_never_more(bench):
    run, steps = bench.run, bench.decaying
    sizes = [steps.step_size * (1.0 + t / steps.decay_offset) ** -steps.decay for t in range(run.sampling.steps)]
    noises = [math.sqrt(2.0 * size * steps.temperature) for size in sizes]
    plan = private.planned(lambda t: noises[t], sample_rate=run.sampling.sample_rate, steps=run.sampling.steps)
    most = math.ceil(0.9 * run.sampling.steps)
    assert (
        private.epsilon(private.first(plan, most), delta=run.budget.delta, adjacency="add-remove") <= run.budget.epsilon
    )
    whole = private.epsilon(plan, delta=run.budget.delta, adjacency="add-remove")
    assert whole >= 0.97 * run.budget.epsilon


def test_pre_noise_is_half_as_long_as_the_clip_norm():
    for bench, parameters in ((MNIST, 44_506), (XRAYS, 1281 * XRAYS.run.hidden[0] + 3 * (XRAYS.run.hidden[0] + 1))):
        length = bench.pre_noise * math.sqrt(parameters)
        assert 0.45 < length / bench.run.sampling.clip_norm < 0.55


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One seed of the second table at the small scale."""
    out = tmp_path_factory.mktemp("knolle")
    jobs = [job for job in BY_NAME["knolle-table-2"].jobs("smoke", 0) if job.config.seed == 0]
    for job in jobs:
        assert job.kind.carry_out([job.config], [out / job.key], RUNTIME) == [None]
    return out


@pytest.mark.parametrize("name", BY_NAME)
def test_tables_figures_and_verdicts_are_made_of_the_folders_that_are_there(name, finished, tmp_path):
    study = BY_NAME[name]
    table = study.table(study.jobs("smoke", 0), finished)
    if name == "knolle-table-1":
        assert table.is_empty()
    else:
        assert set(table["data"]) == {"X-rays"}
        assert set(table["stands_for"]) == {"digits"}
    paths = study.draw(table, tmp_path)
    assert [path.name for path in paths] == ["figure.png", "figure.pdf"]
    verdict = study.judge(table, "smoke")
    assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert all(claim.holds is not True or name == "knolle-figure-1" for claim in verdict.claims)
    if len(table):
        assert "digits" in verdict.notes[0]


def test_rows_say_what_was_spent_by_both_accountants_and_by_whom(finished):
    study = BY_NAME["knolle-table-2"]
    rows = {row["procedure"]: row for row in study.table(study.jobs("smoke", 0), finished).iter_rows(named=True)}
    assert list(rows) == ["SGD", "DP-SGD", "DP-SGLD", "DP-SGLD, averaged", "DP-SGD by patient"]
    assert rows["SGD"]["epsilon"] is None
    for name, row in rows.items():
        if name != "SGD":
            assert 0.9 * row["budget"] < row["epsilon"] <= row["budget"]
    last, mean = rows["DP-SGLD"], rows["DP-SGLD, averaged"]
    assert last["nll_nats"] != mean["nll_nats"]
    assert [last[k] for k in ("seed", "epsilon", "steps")] == [mean[k] for k in ("seed", "epsilon", "steps")]
    assert rows["DP-SGD by patient"]["unit"] == "made-up person"
    result = json.loads((finished / next(finished.glob("*dp-sgd-seed*")).name / "result.json").read_text())
    ((step, steps),) = private.runs_of(event_from_dict(result["privacy"]["event"]))
    noise, rate = step.event.noise_multiplier, step.sample_rate
    event = sampled_gaussians(sample_rate=rate, noise_multipliers=[noise] * steps)
    theirs = gaussian_epsilon(mu=clt_gdp(event=event).mu, delta=rows["DP-SGD"]["delta"])
    assert rows["DP-SGD"]["epsilon_central_limit"] == pytest.approx(theirs)


def test_bins_add_up_to_the_score(finished):
    study = BY_NAME["knolle-figure-1"]
    bins = study.table(study.jobs("smoke", 0), finished)
    filled = bins.filter(pl.col("count") > 0)
    gaps = ((filled["confidence"] - filled["accuracy"]).abs() * filled["count"]).alias("gap")
    for (procedure,), part in filled.with_columns(gaps).group_by(["procedure"]):
        assert part["gap"].sum() / part["n_test"][0] == pytest.approx(part["ece"][0]), procedure
    curves = pooled(bins)
    assert curves.height == bins["procedure"].n_unique() * bins["left"].n_unique()
    for total in curves.group_by("procedure").agg(pl.col("share").sum())["share"]:
        assert total == pytest.approx(1.0)


def test_the_baseline_learns_repeats_itself_and_says_when_it_diverged(tmp_path):
    config = PlainConfig(architecture="fc", hidden=(32,), epochs=8)
    one, two = train_plain(config, RUNTIME, tmp_path), train_plain(config, RUNTIME, tmp_path)
    assert one == two
    assert one["test"]["accuracy"] > 0.85
    assert one["steps"] == 8 * 12
    adam = train_plain(replace(config, optimizer="adam", learning_rate=0.003), RUNTIME, tmp_path)
    assert adam["algorithm"] == "Adam"
    assert adam["test"]["accuracy"] > 0.8
    with pytest.raises(Diverged):
        train_plain(replace(config, learning_rate=1e30), RUNTIME, tmp_path)
    (error,) = PLAIN.carry_out([replace(config, learning_rate=1e30)], [tmp_path / "run"], RUNTIME)
    assert isinstance(error, Diverged)
    for bad in ({"learning_rate": 0.0}, {"momentum": 1.0}, {"epochs": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="expected"):
            replace(config, **bad)
    with pytest.raises(ValueError, match="PlainConfig"):
        from_dict(PlainConfig, {"hidden": [3], "nothing": 1})


def test_private_runs_see_backbone_rows(monkeypatch):
    monkeypatch.setattr("pacdp.cli.private.data.embed", lambda images, progress: images.reshape(len(images), -1)[:, :9])
    found = examples("digits", features="backbone", by_person=False)
    assert found.train.inputs.shape == (1437, 9)
    assert found.train.name == "digits-backbone"
    assert examples("digits", features="backbone", by_person=False) is found
    examples.__globals__["_in_features"].cache_clear()
    config = PrivateConfig(features="backbone")
    assert from_dict(PrivateConfig, json.loads(json.dumps(to_dict(config)))) == config


def planted(scores: dict[str, list[float]], *, data: str = "MNIST", **more: object) -> pl.DataFrame:
    rows = [
        {"data": data, "stands_for": "mnist", "procedure": name, "seed": seed, "ece": ece, "sce": ece, "ace": ece,
         "accuracy": 0.9, "macro_auc": 0.95, "epsilon": None if name == "SGD" else 0.4999,
         "epsilon_central_limit": None if name == "SGD" else 0.45, **more}
        for name, found in scores.items() for seed, ece in enumerate(found)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=RUN_COLUMNS)


def held(verdict) -> dict[str, bool | None]:
    return {claim.sentence.split(": ", 1)[1]: claim.holds for claim in verdict.claims}


WORSE = "DP-SGD has a negative impact on model calibration compared to standard SGD"
ALIKE = "differences between ECE, SCE and ACE were negligible"


def test_claims_follow_the_numbers():
    theirs = {name: [scores[2], scores[2] * 1.01] for name, scores in PRINTED["MNIST"].items()}
    found = held(BY_NAME["knolle-table-1"].judge(planted(theirs), "cpu"))
    assert found == {WORSE: True, ALIKE: True}
    turned = {"SGD": [0.02, 0.021], "DP-SGD": [0.01, 0.0101], "DP-SGLD": [0.015, 0.0151]}
    assert held(BY_NAME["knolle-table-1"].judge(planted(turned), "cpu"))[WORSE] is False
    noisy = {"SGD": [0.01, 0.03], "DP-SGD": [0.012, 0.033], "DP-SGLD": [0.009, 0.03]}
    assert held(BY_NAME["knolle-table-1"].judge(planted(noisy), "cpu"))[WORSE] is None
    single = {name: values[:1] for name, values in theirs.items()}
    assert held(BY_NAME["knolle-table-1"].judge(planted(single), "cpu"))[WORSE] is None
    apart = planted(theirs).with_columns(pl.col("sce") / 5)
    assert held(BY_NAME["knolle-table-1"].judge(apart, "cpu"))[ALIKE] is False
    lungs = BY_NAME["knolle-table-2"].judge(planted(theirs, data="X-rays"), "cpu")
    assert list(held(lungs)) == [ALIKE], "SGD is undertrained there: private-calibration decides"


@pytest.mark.parametrize("error", ["ece", "sce", "ace"])
def test_calibration_is_harmed_only_where_every_error_says_so(error):
    theirs = planted({name: [scores[2], scores[2] * 1.01] for name, scores in PRINTED["MNIST"].items()})
    plain = pl.col("procedure") == "SGD"
    for factor, holds in ((20.0, False), (10.5, None)):
        turned = theirs.with_columns(pl.when(plain).then(pl.col(error) * factor).otherwise(error).alias(error))
        assert held(BY_NAME["knolle-table-1"].judge(turned, "cpu"))[WORSE] is holds


def test_comparisons_are_the_papers_numbers_and_ours():
    verdict = BY_NAME["knolle-table-1"].judge(planted({"SGD": [0.01, 0.03], "DP-SGD": [0.02]}), "cpu")
    assert len(verdict.comparisons) == 11
    ours = {one.what: one.ours for one in verdict.comparisons}
    assert ours["MNIST, SGD: ECE"] == 0.02
    assert ours["MNIST, DP-SGLD: ECE"] is None
    assert ours["MNIST, DP-SGD: epsilon"] == 0.4999
    assert ours["MNIST, DP-SGLD: epsilon"] is None
    why = next(one.why for one in verdict.comparisons if one.what == "MNIST, DP-SGD: accuracy")
    assert "0.500" in why
    assert "0.450" in why
    assert any("Cut for two cores" in note for note in verdict.notes)


def curve(name: str, accuracy: list[float], counts: list[int], data: str = "X-rays") -> pl.DataFrame:
    rows = [
        {"data": data, "stands_for": "xrays224", "procedure": name, "seed": seed, "ece": 0.1, "n_test": sum(counts),
         "left": k / 3, "right": (k + 1) / 3, "count": counts[k], "confidence": (k + 0.5) / 3, "accuracy": accuracy[k]}
        for seed in range(3) for k in range(3)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=BIN_COLUMNS)


def test_the_figure_s_sentences_follow_the_bins(tmp_path):
    private_, plain = curve("DP-SGD", [0.0, 0.3, 0.6], [10, 10, 80]), curve("SGD", [0.1, 0.5, 0.8], [20, 50, 30])
    ours = curve("DP-SGLD", [0.1, 0.4, 0.8], [30, 40, 30])
    across, *extremes = BY_NAME["knolle-figure-1"].judge(pl.concat([private_, plain, ours]), "cpu").claims
    assert across.holds
    assert "of 3 bins" in across.evidence
    # equal counts in all seeds: any difference is beyond two standard errors
    assert [claim.holds for claim in extremes] == [True, True]
    worse = curve("DP-SGLD", [0.1, 0.2, 0.8], [5, 35, 60])  # less than DP-SGD's 80, and no contrast
    across, *extremes = BY_NAME["knolle-figure-1"].judge(pl.concat([private_, plain, worse]), "cpu").claims
    assert across.holds is False
    assert [claim.holds for claim in extremes] == [True, False]
    moved = pl.when((pl.col("seed") == 1) & (pl.col("left") == 0.0)).then(0.0).otherwise("accuracy")
    unsure = pl.concat([private_, plain, ours.with_columns(accuracy=moved)])
    assert BY_NAME["knolle-figure-1"].judge(unsure, "cpu").claims[0].holds is None, "one seed has no gain in a bin"
    paths = BY_NAME["knolle-figure-1"].draw(pl.concat([private_, plain, ours]), tmp_path)
    assert all(path.stat().st_size > 5000 for path in paths)


def test_differences_within_noise_decide_nothing():
    def over(one, its_variance, other, seeds=4):
        pair = [
            Measured(mean, 2.0 * (its_variance / seeds) ** 0.5 if seeds > 1 else None, seeds) for mean in (one, other)
        ]
        return larger("x", *pair)

    assert over(0.2, 0.0001, 0.1).holds is True
    assert over(0.1, 0.0001, 0.2).holds is False
    assert over(0.2, 0.04, 0.1).holds is None
    assert over(0.2, 0.0, 0.1, seeds=1).holds is None
    assert larger("x", None, Measured(0.1, None)).holds is None
    assert "s.d. 0.0100, 4 seeds" in over(0.2, 0.0001, 0.1).evidence
