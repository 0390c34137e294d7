"""`pacdp certify`: what its report says, and that 50-digit arithmetic agrees."""

import json
import math

import certificates_by_mpmath as exact
import mpmath as mp
import pytest
import torch
from cli_tools import QUICK, pacdp, read

from bounds import Certificate
from experiments.figures.style import ACCOUNTED, CHAIN_BOUNDS, GIBBS_BOUNDS
from pacdp import load_trained

KEYS = {
    "format",
    "checkpoint",
    "n",
    "failure_prob",
    "empirical_risk",
    "test_risk",
    "kl_nats",
    "privacy",
    "certificates",
}
WITHOUT_DRAWS = "dp_gibbs_pac_bayes"
GIBBS = set(GIBBS_BOUNDS) - {WITHOUT_DRAWS}
TEST_SET = "test_set_clopper_pearson"
EXPECTED = {
    "sgd": {TEST_SET}, "sgld": CHAIN_BOUNDS.keys() - {*GIBBS_BOUNDS, *ACCOUNTED}, "entropy-sgd": {TEST_SET},
    "entropy-sgld": CHAIN_BOUNDS.keys() - set(ACCOUNTED),
}  # fmt: skip


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
    assert report["format"] == "pacdp-certificates/1"
    assert report.keys() >= KEYS
    assert report == read(folder / "certificates.json")
    assert {c["name"] for c in report["certificates"]} == EXPECTED[algorithm]
    for record in report["certificates"]:
        assert Certificate.from_dict(record).to_dict() == record
        assert record["failure_prob"] == pytest.approx(0.05, rel=1e-15)
    assert report["n"] == 1437
    assert report["checkpoint"] == str(folder)


@pytest.mark.parametrize("algorithm", EXPECTED)
def test_what_rests_on_stationarity_is_optimistic_and_the_rest_rigorous(algorithm, reports):
    for certificate in reports[algorithm]["certificates"]:
        rests_on_nothing = certificate["name"] == TEST_SET
        assert certificate["status"] == ("rigorous" if rests_on_nothing else "optimistic")
        assert bool(certificate["assumptions"]) is not rests_on_nothing
        if not rests_on_nothing:
            assert any("converged" in sentence for sentence in certificate["assumptions"])
        if certificate["name"] in GIBBS:
            assert any("Monte Carlo" in sentence for sentence in certificate["assumptions"])
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
    tau, loss, gibbs = mp.mpf(report["sampler"]["tau"]), report["loss"], report["gibbs_classifier"]
    assert float(tau) == math.sqrt(1437), "the private setting"
    assert report["sampler"].get("beta", 1.0) == 1.0
    osc = exact.oscillation(4)
    assert 0 <= mp.mpf(loss["oscillation"]) - osc < mp.mpf("1e-14")
    assert abs(mp.mpf(loss["high"]) - mp.mpf(loss["low"]) - osc) < mp.mpf("1e-14")
    eps = exact.epsilon(tau=tau, beta=1, max_loss=4, n=1437)
    assert 0 <= mp.mpf(report["privacy"]["epsilon"]) - eps < mp.mpf("1e-14")
    if gibbs:
        raw = -tau * mp.mpf(gibbs["loss"]) - mp.mpf(gibbs["log_partition_nats"])
        assert abs(raw - mp.mpf(gibbs["kl_raw_nats"])) < mp.mpf("1e-9")
        assert report["kl_nats"] == gibbs["kl_nats"] == max(0.0, gibbs["kl_raw_nats"])
        assert (report["empirical_risk"], report["test_risk"]) == (gibbs["error"], gibbs["test_error"])
    truth = exact.certificates(report, tau=tau, beta=1, max_loss=4)
    assert truth.keys() == EXPECTED[algorithm]
    for certificate in report["certificates"]:
        name, value, true = certificate["name"], mp.mpf(certificate["value"]), truth[certificate["name"]]
        assert abs(value - true) < mp.mpf("1e-9"), name
        # the KL estimate is rounded to nearest before any bound sees it; all that follows is rounded up
        assert value >= true * (1 - mp.mpf("1e-15")), name
        if "kl_nats" in certificate["inputs"]:
            assert certificate["inputs"]["kl_nats"] == report["kl_nats"]
        if name == WITHOUT_DRAWS:
            continue
        assert certificate["terms"]["empirical_risk"] == (
            report["empirical_risk"] if name in GIBBS
            else report["mean_classifier"]["test"]["error"] if name == TEST_SET
            else report["mean_classifier"]["train"]["ramp"]
        )  # fmt: skip


def test_the_50_digit_twin_would_notice_another_epsilon(reports):
    report = reports["entropy-sgld"]
    wrong = exact.certificates(report, tau=mp.mpf(report["sampler"]["tau"]), beta=mp.mpf("1.001"), max_loss=4)
    for certificate in report["certificates"]:
        if certificate["name"] != TEST_SET and certificate["value"] < 1:
            assert abs(mp.mpf(certificate["value"]) - wrong[certificate["name"]]) > mp.mpf("1e-6")


def test_risks_are_counts_over_whole_data_sets(reports, trained):
    for algorithm, folder in trained.items():
        found, mean = load_trained(folder), reports[algorithm]["mean_classifier"]
        network = found.problem.model(found.problem.data()[0], generator=torch.Generator())
        network.load_state_dict(dict(found.checkpoint.model))
        for role, data in zip(("train", "test"), found.problem.data(), strict=True):
            with torch.no_grad():
                wrong = int(((network(torch.tensor(data.inputs))[:, 0] > 0).numpy() != data.labels).sum())
            assert (mean[role]["errors"], mean[role]["n"]) == (wrong, data.n)
            assert mean[role]["error"] == wrong / data.n <= mean[role]["ramp"] + 1e-12


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
    assert other["kl_nats"] != first["kl_nats"]
    assert other["mean_classifier"] == first["mean_classifier"]
    assert not (folder / "certificates.json").exists()
    effort = certify(folder, *out, "--epochs", 2, "--alpha", 0.1, "--burn-in", 0.5, "--prior-draws", 3)
    assert effort == read(tmp_path / "new" / "report.json")
    gibbs = effort["gibbs_classifier"]
    assert (gibbs["steps"], gibbs["draws"], gibbs["prior_draws"]) == (90, 45, 3)
    assert gibbs["effective_draws"] <= 19.0


def test_table_of_certificates_says_what_is_optimistic(trained, capsys, tmp_path):
    assert pacdp("certify", trained["entropy-sgld"] / "checkpoint.safetensors", "--out", tmp_path / "c.json") == 0
    said = capsys.readouterr().out
    assert all(label in said for name, label in CHAIN_BOUNDS.items() if name not in ACCOUNTED)
    assert said.count("optimistic ") >= 8
    assert "optimistic means: SGLD has converged" in said
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
    assert all(CHAIN_BOUNDS[name] in said for name in ACCOUNTED)
    assert "privacy accounted for, converged or not" in said
    report = read(tmp_path / "certificates.json")
    found = {certificate["name"]: certificate for certificate in report["certificates"]}
    assert found.keys() == {*ACCOUNTED, TEST_SET} | (
        CHAIN_BOUNDS.keys() if algorithm == "entropy-sgld-clipped" else set()
    )
    for name, certificate in found.items():
        rigorous = name in (*ACCOUNTED, TEST_SET)
        assert certificate["status"] == ("rigorous" if rigorous else "optimistic")
        assert any("clipping changed no gradient" in one for one in certificate["assumptions"]) is not rigorous
    mechanisms = report["step"] * report["sampler"]["inner_steps"]
    assert report["accounted_privacy"]["mechanisms"] == mechanisms
    assert pacdp("plot", tmp_path) == 0
