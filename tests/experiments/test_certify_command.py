"""`pacdp certify`: what its report says, and that 50-digit arithmetic agrees."""

import json
import math
from dataclasses import replace

import certificates_by_mpmath as exact
import mpmath as mp
import numpy as np
import pytest
import torch
from cli_tools import QUICK, one_sentence, pacdp, read

from pacdp import load_checkpoint, load_trained
from pacdp.choices import Choices
from pacdp.cli.figures.names import ACCOUNTED, CHAIN_BOUNDS, CONVERGED, GIBBS_BOUNDS, NAMES
from pacdp.trained import _records as records_of
from tests.schema import validate

WITHOUT_DRAWS = "dp_gibbs_pac_bayes"
GIBBS = set(GIBBS_BOUNDS) - {WITHOUT_DRAWS}
TEST_SET = "test_set_clopper_pearson"
RIGOROUS = {
    "randomised_private_pac_bayes",
    "half_brier_private_pac_bayes",
    "one_draw_private_disintegrated",
    "one_draw_ece",
    "private_kl_chernoff",
    "poisson_sum_kl_chernoff",
    "test_set_ece",
    TEST_SET,
}
"""Of chains with clipped gradients."""
EXPECTED = {
    "sgd": {TEST_SET}, "sgld": CHAIN_BOUNDS.keys() - {*GIBBS_BOUNDS, *ACCOUNTED}, "entropy-sgd": {TEST_SET},
    "entropy-sgld": CHAIN_BOUNDS.keys() - set(ACCOUNTED),
}  # fmt: skip


def measured(report, of, on):
    """What was measured of a predictor's 0-1 loss."""
    (found,) = [m for m in report["measured"] if (m["of"], m["on"], m["loss"]) == (of, on, "zero-one")]
    return found


@pytest.fixture(scope="session")
def reports(trained, tmp_path_factory):
    root = tmp_path_factory.mktemp("reports")
    for algorithm, folder in trained.items():
        out = root / f"{algorithm}.json"
        assert pacdp("certify", folder, "--threads", 1, "--out", out) == 0
    return {algorithm: read(root / f"{algorithm}.json") for algorithm in trained}


@pytest.fixture
def certify(capsys):
    """A function that runs `certify PATH --json ...` and returns the object it printed."""

    def run(*arguments):
        capsys.readouterr()
        assert pacdp("certify", *arguments, "--json", "--threads", 1) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("algorithm", EXPECTED)
def test_one_object_with_the_documented_keys_beside_the_checkpoint(algorithm, copied, certify):
    folder = copied(algorithm)
    report = certify(folder)
    found = validate(report)
    assert report == read(folder / "certificates.json")
    assert {made.name for made in found} == EXPECTED[algorithm]
    for made in found:
        assert made.failure_prob == pytest.approx(0.05, rel=1e-15)
        assert made.hypothesis("settings fixed beforehand").standing == "declared", "no list was given"
    assert (report["n"], report["unit"], report["choices"]["count"]) == (1437, "example", 1)
    subject = report["subject"]
    assert subject["checkpoint"] == str(folder)
    assert subject["content_hash"] == load_checkpoint(folder).content_hash


@pytest.mark.parametrize("algorithm", EXPECTED)
def test_what_rests_on_stationarity_is_optimistic_and_the_rest_rigorous(algorithm, reports):
    for made in validate(reports[algorithm]):
        rests_on_nothing = made.name == TEST_SET
        assert made.status == ("rigorous" if rests_on_nothing else "optimistic")
        assert bool(made.unproved) is not rests_on_nothing
        if not rests_on_nothing:
            assert "has reached its target" in made.hypothesis("chain stationary").by
        if made.name in GIBBS:
            assert "Monte Carlo" in made.hypothesis("averages exact").by
    refusals = reports[algorithm]["not_applicable"]
    if algorithm in ("sgd", "entropy-sgd"):
        assert len(refusals) == (2 if algorithm == "entropy-sgd" else 1)
        assert all("adds no noise" in refusal["reason"] for refusal in refusals)
        assert reports[algorithm]["privacy"] is None
    else:
        assert refusals == []
        assert reports[algorithm]["privacy"]["status"] == "assumes stationarity"
        assert reports[algorithm]["privacy"]["adjacency"] == "replace-one"


@pytest.mark.parametrize("algorithm", ["sgld", "entropy-sgld"])
def test_every_number_again_at_50_digits(algorithm, reports):
    report = reports[algorithm]
    sampler, loss, gibbs = report["subject"]["sampler"], report["subject"]["loss"], report["gibbs"]
    tau = mp.mpf(sampler["tau"])
    assert float(tau) == math.sqrt(1437), "the private setting"
    assert sampler.get("beta", 1.0) == 1.0
    osc = exact.oscillation(4)
    assert 0 <= mp.mpf(loss["oscillation"]) - osc < mp.mpf("1e-14")
    assert abs(mp.mpf(loss["high"]) - mp.mpf(loss["low"]) - osc) < mp.mpf("1e-14")
    eps = exact.epsilon(tau=tau, beta=1, max_loss=4, n=1437)
    assert 0 <= mp.mpf(report["privacy"]["record"]["epsilon"]) - eps < mp.mpf("1e-14")
    if gibbs:
        raw = -tau * mp.mpf(gibbs["loss"]) - mp.mpf(gibbs["log_partition_nats"])
        assert abs(raw - mp.mpf(gibbs["kl_raw_nats"])) < mp.mpf("1e-9")
        assert gibbs["kl_nats"] == max(0.0, gibbs["kl_raw_nats"])
        assert measured(report, "Gibbs classifier", "bound")["mean"] == gibbs["error"]
        assert measured(report, "Gibbs classifier", "test")["mean"] == gibbs["test_error"]
    truth = exact.certificates(report, tau=tau, beta=1, max_loss=4)
    assert truth.keys() == EXPECTED[algorithm]
    for certificate in report["certificates"]:
        name, value, true = certificate["name"], mp.mpf(certificate["value"]), truth[certificate["name"]]
        assert abs(value - true) < mp.mpf("1e-9"), name
        # the KL estimate is rounded to nearest before any bound sees it; all that follows is rounded up
        assert value >= true * (1 - mp.mpf("1e-15")), name
        if "kl_nats" in certificate["inputs"]:
            assert certificate["inputs"]["kl_nats"] == gibbs["kl_nats"]
        if name == WITHOUT_DRAWS:
            continue
        assert certificate["terms"]["empirical_risk"] == (
            gibbs["error"] if name in GIBBS
            else measured(report, "weights", "test")["mean"] if name == TEST_SET
            else report["details"]["weights"]["train"]["ramp"]
        )  # fmt: skip


def test_the_50_digit_twin_would_notice_another_epsilon(reports):
    report = reports["entropy-sgld"]
    wrong = exact.certificates(
        report, tau=mp.mpf(report["subject"]["sampler"]["tau"]), beta=mp.mpf("1.001"), max_loss=4
    )
    for certificate in report["certificates"]:
        if certificate["name"] != TEST_SET and certificate["value"] < 1:
            assert abs(mp.mpf(certificate["value"]) - wrong[certificate["name"]]) > mp.mpf("1e-6")


def test_risks_are_counts_over_whole_data_sets(reports, trained):
    for algorithm, folder in trained.items():
        found, weights = load_trained(folder), reports[algorithm]["details"]["weights"]
        network = found.problem.model(found.problem.data()[0], generator=torch.Generator())
        network.load_state_dict(dict(found.checkpoint.model))
        for role, data in zip(("train", "test"), found.problem.data(), strict=True):
            with torch.no_grad():
                wrong = int(((network(torch.tensor(data.inputs))[:, 0] > 0).numpy() != data.labels).sum())
            risks = weights[role]
            assert (risks["errors"], risks["n"]) == (wrong, data.n)
            assert risks["ramp"] + 1e-12 >= wrong / data.n
            told = measured(reports[algorithm], "weights", "bound" if role == "train" else "test")
            assert (told["mean"], told["errors"], told["n"]) == (wrong / data.n, wrong, data.n)


def test_failure_probability_moves_every_bound_the_right_way(trained, certify, tmp_path):
    strict, loose = (certify(trained["entropy-sgld"], "--failure-prob", d, "--out", tmp_path / "c.json")
                     for d in (0.001, 0.3))  # fmt: skip
    for one, other in zip(strict["certificates"], loose["certificates"], strict=True):
        # max{ln(3/d), n epsilon²} does not move while the second is larger, and a vacuous bound stays so
        flat = one["name"].endswith("_2018") or other["value"] == 1.0
        assert one["value"] > other["value"] or (flat and one["value"] == other["value"])
        assert (one["failure_prob"], other["failure_prob"]) == pytest.approx((0.001, 0.3), rel=1e-15)


def test_the_same_seed_gives_the_same_report_and_effort_is_heeded(trained, certify, tmp_path):
    out, folder = ("--out", tmp_path / "new" / "report.json"), trained["entropy-sgld"]
    first, again, other = (certify(folder, "--seed", seed, *out) for seed in (3, 3, 4))
    for report in (first, again, other):
        report["provenance"].pop("time")
    assert first == again
    assert other["gibbs"]["kl_nats"] != first["gibbs"]["kl_nats"]
    assert other["details"] == first["details"]
    assert not (folder / "certificates.json").exists()
    effort = certify(folder, *out, "--epochs", 2, "--alpha", 0.1, "--burn-in", 0.5, "--prior-draws", 3)
    assert effort == read(tmp_path / "new" / "report.json")
    gibbs = effort["gibbs"]
    assert (gibbs["steps"], gibbs["draws"], gibbs["prior_draws"]) == (90, 45, 3)
    assert gibbs["effective_draws"] <= 19.0


def test_table_of_certificates_says_what_is_optimistic(trained, capsys, tmp_path):
    assert pacdp("certify", trained["entropy-sgld"] / "checkpoint.safetensors", "--out", tmp_path / "c.json") == 0
    said = capsys.readouterr().out
    assert all(label in said for name, label in CHAIN_BOUNDS.items() if name not in ACCOUNTED)
    assert said.count("optimistic ") >= 8
    assert "[1*] chain stationary: unproved" in said
    assert pacdp("certify", trained["sgd"], "--out", tmp_path / "c.json") == 0
    assert "not applicable" in capsys.readouterr().out


def test_threads_are_heeded(trained, certify, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    certify(trained["sgd"], "--out", tmp_path / "c.json")
    assert asked == [1]


@pytest.mark.parametrize("algorithm", ["entropy-sgd-clipped", "entropy-sgld-clipped"])
def test_clipped_chains_have_rigorous_certificates_and_say_what_they_spent(algorithm, capsys, tmp_path):
    assert pacdp("train", f"{algorithm}-digits2", "--out", tmp_path, *QUICK) == 0
    assert "(rigorous)" in capsys.readouterr().err
    assert pacdp("certify", tmp_path, "--threads", 1) == 0
    said = capsys.readouterr().out
    assert all(NAMES[name] in said for name in RIGOROUS)
    assert "privacy accounted for, converged or not" in said
    report = read(tmp_path / "certificates.json")
    found = {certificate["name"]: certificate for certificate in report["certificates"]}
    assert found.keys() == RIGOROUS | (CONVERGED.keys() if algorithm == "entropy-sgld-clipped" else set())
    for made in validate(report):
        rigorous = made.name in RIGOROUS
        assert made.status == ("rigorous" if rigorous else "optimistic")
        assert any("clipping changed no gradient" in one.by for one in made.unproved) is not rigorous
        if "private" in made.name:
            assert made.hypothesis("steps fixed beforehand").standing == "proved"
            assert made.hypothesis("privacy covers these rows").standing == "proved"
    subject = report["subject"]
    mechanisms = subject["step"] * subject["sampler"]["inner_steps"]
    assert report["details"]["accounted"]["mechanisms"] == mechanisms
    assert report["privacy"]["event"] is not None
    assert pacdp("plot", tmp_path) == 0


def listed(path, *settings):
    """A closed list of settings at a path."""
    choices = Choices.create(path)
    for one in settings:
        choices.add(one)
    choices.close()
    return choices


@pytest.mark.parametrize("recipe", ["sgld-digits2", "entropy-sgld-clipped-digits2"])
def test_a_list_of_settings_is_paid_for_by_every_certificate(recipe, certify, capsys, tmp_path):
    run, path = tmp_path / "run", tmp_path / "list.jsonl"
    vary = ("--vary", "seed=0,1,2", "--vary", "sampler.batch-size=32,48")
    assert pacdp("choices", "create", path, "--recipe", recipe, *vary, *QUICK[:-2]) == 0
    assert pacdp("choices", "close", path) == 0
    assert pacdp("train", recipe, "--out", run, "--choices", path, "--sampler.batch-size", 48, *QUICK) == 0

    def fixed(*options):
        report = certify(run, "--out", tmp_path / "report.json", *options)
        found = validate(report)
        assert [made.failure_prob for made in found] == pytest.approx([0.05 / 6] * len(found)), "paid in any case"
        assert report["choices"]["count"] == 6
        return {made.hypothesis("settings fixed beforehand").standing for made in found}

    assert fixed() == {"proved"}, "the list lies in the run's folder"
    (run / "choices.jsonl").unlink()
    assert fixed() == {"declared"}
    assert fixed("--choices", path) == {"proved"}
    other = listed(tmp_path / "other", *Choices.load(path).settings)
    assert pacdp("certify", run, "--choices", other.path) == 1
    assert "was changed or extended after the run's first step" in one_sentence(capsys.readouterr().err)


def test_a_list_that_a_run_did_not_take_along_is_paid_for_and_proves_nothing(copied, certify, capsys, tmp_path):
    folder = copied("sgld")
    run = load_checkpoint(folder).header["run"]
    choices = listed(tmp_path / "list", run, {**run, "seed": 7})
    report = certify(folder, "--choices", choices.path)
    assert [c["failure_prob"] for c in report["certificates"]] == pytest.approx([0.025] * len(report["certificates"]))
    for made in validate(report):
        assert made.hypothesis("settings fixed beforehand").standing == "declared"
        assert "nothing shows that it was closed before" in made.hypothesis("settings fixed beforehand").by
    without = listed(tmp_path / "without", {**run, "seed": 7})
    assert pacdp("certify", folder, "--choices", without.path) == 1
    assert "does not list this run" in one_sentence(capsys.readouterr().err)


def test_people_whom_a_chain_does_not_know_make_its_certificates_optimistic(trained):
    found = load_trained(trained["sgd"])
    assert {made.status for made in found.assess().certificates} == {"rigorous"}
    records = records_of(replace(found.problem.data()[0], people=np.arange(1437) // 3, unit="writer"), found.settings)
    for made in replace(found, records=records).assess().certificates:
        assert made.status == "optimistic"
        assert "count examples, not writers" in made.hypothesis("records independent").by


def test_an_earlier_report_is_kept_and_other_files_are_not_overwritten(copied, capsys):
    folder = copied("sgd")
    assert pacdp("certify", folder) == 0
    first = read(folder / "certificates.json")
    assert pacdp("certify", folder) == 0
    assert not (folder / "certificates.json.1").exists()
    assert pacdp("certify", folder, "--failure-prob", 0.01) == 0
    assert read(folder / "certificates.json.1")["certificates"] == first["certificates"]
    (folder / "certificates.json").write_text("mine")
    capsys.readouterr()
    assert pacdp("certify", folder) == 1
    assert "is no report of certificates" in one_sentence(capsys.readouterr().err)
    assert (folder / "certificates.json").read_text() == "mine"
