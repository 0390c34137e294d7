"""`pacdp report`: one page that stands alone, says what is known, rounds to the safe side and is fooled by nothing."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
import torch
from cli_tools import one_sentence, pacdp, read
from report_pages import Page, page_of, write
from secret_runs import KINDS
from torch import nn

import bounds
from pacdp import BoundSet, DataFree, GaussianPosterior, MonteCarlo, Prior, certify
from pacdp.cli.config import Runtime
from pacdp.cli.private import PRIVATE
from pacdp.cli.private.recipes import private_recipe
from pacdp.cli.private.run import train_private
from pacdp.cli.reading import certificates_of
from pacdp.cli.run import train
from tests.schema import validate

RESULTS = Path(__file__).parents[2] / "experiments" / "results" / "private"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$\\frac{</svg>&lt;"


@pytest.fixture(autouse=True)
def _style_of_the_session():
    with mpl.rc_context():
        yield


@pytest.fixture(scope="module")
def certified(trained, tmp_path_factory):
    folder = shutil.copytree(trained["entropy-sgld"], tmp_path_factory.mktemp("certified") / "run")
    assert pacdp("certify", folder, "--threads", 1) == 0
    return folder


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private") / "run"
    config = private_recipe("dp-sgd-mnist", scale="smoke")
    config = replace(config, sampling=replace(config.sampling, steps=6), records=3)
    train_private(config, folder, Runtime(threads=1))
    return folder


def report(folder, *, out) -> Page:
    assert pacdp("report", folder, "--out", out) == 0
    return page_of(out)


@pytest.fixture(params=["run", "private", "certificates"])
def kind(request, certified, private, tmp_path):
    if request.param == "certificates":
        shutil.copy(certified / "certificates.json", tmp_path)
        return tmp_path
    return certified if request.param == "run" else private


def test_a_page_stands_alone_whatever_the_folder_holds(kind, tmp_path):
    page = report(kind, out=tmp_path / "page.html")
    assert all(reference.startswith("#") for reference in page.references), "references stay within the page"
    assert {reference.removeprefix("#") for reference in page.references} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page.source)) <= set(page.ids)
    assert not re.search(r"url\((?!#)|@import|https?:", page.source)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert len(set(page.ids)) == len(page.ids)
    assert "default-src 'none'" in page.source
    assert (tmp_path / "page.html").stat().st_size < 1_000_000
    figures = [values for tag, values in page.attributes if tag == "svg"]
    assert figures
    assert all(values["role"] == "img" and values["aria-label"] for values in figures)
    headers = [values for tag, values in page.attributes if tag == "th"]
    assert all(values.get("scope") for values in headers)
    assert page.tags.count("table") == page.tags.count("caption") > 0


def test_pages_of_a_folder_are_equal_byte_for_byte(certified, tmp_path):
    first = report(certified, out=tmp_path / "a.html").source
    assert report(certified, out=tmp_path / "b.html").source == first


def test_every_certificate_with_its_status_in_words_and_no_value_below_its_own(certified, tmp_path):
    page, found = report(certified, out=tmp_path / "page.html"), read(certified / "certificates.json")["certificates"]
    rows = next(table for table in page.tables if "at most" in table[0])[1:]
    assert len(rows) == len(found) == 10
    for (name, _, status, value, failure_prob, *_), certificate in zip(rows, found, strict=True):
        assert status == certificate["status"]
        assert name.endswith(" *") == (status == "optimistic")
        assert float(failure_prob) == 0.05
        if certificate["value"] >= 1.0:
            assert value == "1 (vacuous)"
        else:
            assert certificate["value"] <= float(value) < certificate["value"] + 1e-4
    for table in page.tables:
        if "pays for" in table[0] or "sum" in table[0]:
            assert "status" in table[0]
    header, *lines = next(table for table in page.tables if "standing" in table[0])
    shown = {tuple(line[header.index(name)] for name in ("standing", "by")) for line in lines}
    needed = {(one["standing"], one["by"]) for certificate in found for one in certificate["hypotheses"]}
    assert shown == needed
    assert {standing for standing, _ in shown} >= {"declared", "unproved"}


def test_the_ledger_holds_every_entry_of_every_budget(certified, tmp_path):
    page = report(certified, out=tmp_path / "page.html")
    rows = next(table for table in page.tables if "pays for" in table[0])[1:]
    budgets = [entry for c in read(certified / "certificates.json")["certificates"] for entry in c["budget"].items()]
    assert len(rows) == len(budgets)
    for row, (name, paid) in zip(rows, budgets, strict=True):
        cells = row[2:] if len(row) == 5 else row
        assert cells[0] == name
        assert float(cells[1]) == pytest.approx(paid, rel=1e-12)


def test_costs_add_up_to_the_certificates_own_totals(certified, tmp_path):
    page = report(certified, out=tmp_path / "page.html")
    header, *rows = next(table for table in page.tables if "sum" in table[0])
    paying = [made for made in certificates_of(read(certified / "certificates.json")) if made.costs]
    assert len(rows) == len(paying) == 7
    for row, made in zip(rows, paying, strict=True):
        total = float(row[header.index("sum")])
        assert made.total_nats <= total <= made.total_nats * 1.001
        parts = [float(cell) for cell in row[2 : header.index("sum")] if cell != "–"]
        assert len(parts) == len(made.costs)
        assert math.fsum(parts) == pytest.approx(total, rel=2e-3)


def test_a_private_run_says_what_it_spent_and_keeps_its_training_scores_to_itself(private, tmp_path):
    page, result = report(private, out=tmp_path / "page.html"), read(private / "result.json")
    shown = float(re.search(r"epsilon at most ([\d.]+)", page.text).group(1))  # type: ignore[union-attr]
    assert result["privacy"]["upper"] <= shown < result["privacy"]["upper"] * 1.0001
    assert "add-remove neighbours (one example among 1437)" in page.text
    assert "The folder holds no certificates" in page.text
    assert "Noise: secret" in page.text
    assert f"{result['private_train']['accuracy']:.4f}" not in page.text
    curve = result["test"]["reliability"]
    (bins,) = (table for table in page.tables if "mean confidence" in table[0])
    assert len(bins) == 1 + len(curve["count"]) == 16
    assert sum(int(row[2]) for row in bins[1:]) == result["n_test"]
    assert all(float(row[5]) <= low and high <= float(row[6])
               for row, low, high in zip(bins[1:], curve["lower"], curve["upper"], strict=True))  # fmt: skip
    assert json.dumps(result, allow_nan=False)


def test_certificates_of_a_private_run_say_that_they_tell_of_its_examples(private, tmp_path):
    folder = shutil.copytree(private, tmp_path / "run")
    assert pacdp("certify", folder, "--threads", 1) == 0
    page, found = report(folder, out=tmp_path / "page.html"), read(folder / "certificates.json")
    assert "empirical risks and certificates on this page are among them" in page.text
    assert "not on this page" not in page.text
    header, *rows = next(table for table in page.tables if "at most" in table[0])
    assert rows[0][header.index("bounds")] == "0-1 risk, predictor"
    (tested,) = (one["mean"] for one in found["measured"] if (one["of"], one["on"]) == ("predictor", "test"))
    assert rows[0][header.index("test error")] == f"{tested:.4f}"
    assert validate(found)


@pytest.mark.parametrize("folder", sorted(RESULTS.glob("*/*")), ids=lambda path: path.parent.name)
def test_every_published_private_result_has_a_page(folder, tmp_path):
    page, result = report(folder, out=tmp_path / "page.html"), read(folder / "result.json")
    assert result["algorithm"] in page.text
    shown = float(re.search(r"epsilon at most ([\d.]+)", page.text).group(1))  # type: ignore[union-attr]
    assert result["privacy"]["upper"] <= shown
    if "published_accounting" in result["privacy"]:
        assert "(optimistic: not proved for what was run)" in page.text
    assert ("The noise is not secret" in page.text) == (result["privacy"]["noise"] != "secret")


@pytest.mark.parametrize("kept", ["a run under way", "a finished one"])
@pytest.mark.parametrize("secret", [True, False])
def test_a_chain_with_secret_noise_is_not_to_be_published_finished_or_not(secret, kept, tmp_path):
    train(replace(KINDS["SGLD"], reproducible=not secret), tmp_path / "run", Runtime(threads=1))
    if kept == "a run under way":
        (tmp_path / "run" / "result.json").unlink()
    page = report(tmp_path / "run", out=tmp_path / "page.html")
    assert ("not finished" in page.text) == (kept == "a run under way")
    assert (PRIVATE in page.text) == secret


def test_seeded_noise_is_warned_of_and_an_older_result_has_no_curve(private, tmp_path):
    shutil.copytree(private, tmp_path, dirs_exist_ok=True)
    result = read(tmp_path / "result.json")
    result["privacy"]["noise"] = "seeded: can be repeated and subtracted"
    del result["test"]["reliability"]
    write(tmp_path / "result.json", result)
    page = report(tmp_path, out=tmp_path / "page.html")
    assert "The noise is not secret" in page.text
    assert "did not record its reliability curve" in page.text


def test_what_is_missing_is_said_in_a_sentence(copied, tmp_path):
    folder = copied("sgd")
    for name in ("result.json", "metrics.jsonl", "provenance.json"):
        (folder / name).unlink()
    assert pacdp("report", folder) == 0
    text = page_of(folder / "report.html").text
    for sentence in ("not finished", "The folder holds no certificates", "privacy claims", "predictive probabilities",
                     "recorded rows of a training", "and provenance."):  # fmt: skip
        assert sentence in text
    for heading in ("Privacy", "Calibration", "Training", "Certificates", "Costs"):
        assert heading not in text, "no section stands empty"
    assert pacdp("train", "sgd-digits2", "--out", folder, "--force", "--epochs", 1, "--records", 1) == 0
    assert not (folder / "report.html").exists(), "a new run removes the page of the old one"


def test_hostile_strings_are_text(certified, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(certified, folder)
    config, source, found = (read(folder / name) for name in ("config.json", "provenance.json", "certificates.json"))
    config["problem"]["dataset"] = HOSTILE
    source["argv"], source["versions"][HOSTILE], source["commit"] = [HOSTILE], HOSTILE, HOSTILE
    made = found["certificates"][0]
    made |= {"name": HOSTILE, "of": HOSTILE, "measures": HOSTILE, "reference": HOSTILE, "budget": {HOSTILE: 0.05}}
    made["hypotheses"][0]["by"] = made["costs"][0]["name"] = HOSTILE
    found["not_applicable"] = [{"name": HOSTILE, "reason": HOSTILE}]
    for name, values in (("config.json", config), ("provenance.json", source), ("certificates.json", found)):
        write(folder / name, values)
    before = report(certified, out=tmp_path / "before.html")
    page = report(folder, out=tmp_path / "page.html")
    assert not {"script", "img"} & set(page.tags)
    assert not any(name.startswith("on") for _, values in page.attributes for name in values)
    assert page.tags.count("svg") == before.tags.count("svg")
    assert page.text.count("<script>alert(1)</script>") >= 8
    assert page.text.count(HOSTILE) >= 5


def test_a_certificate_that_claims_what_it_may_not_is_refused(certified, tmp_path, capsys):
    found = read(certified / "certificates.json")
    found["certificates"][0]["status"] = "rigorous"
    write(tmp_path / "certificates.json", found)
    assert pacdp("report", tmp_path) == 1
    assert "status must be 'optimistic', as the hypotheses say, got 'rigorous'" in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "report.html").exists()


def test_a_bound_of_any_name_is_shown_with_what_its_draws_cost(certified, tmp_path):
    budget = bounds.FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.03)
    risk = bounds.gibbs_risk_upper(mean=0.2, draws=1000, failure_prob=0.01)
    made = bounds.overall_certificate(
        risk=risk, budget=budget,
        bound=lambda *, risk, failure_prob: bounds.maurer(risk=risk, kl_nats=30.0, n=1437, failure_prob=failure_prob),
    )  # fmt: skip
    found = read(certified / "certificates.json")
    found["certificates"] = [made.to_dict()]
    write(tmp_path / "certificates.json", found)
    page = report(tmp_path, out=tmp_path / "page.html")
    header, (row,) = next((table[0], table[1:]) for table in page.tables if "sum" in table[0])
    assert row[:2] == ["overall_certificate: risk, randomised", "rigorous"]
    per_draw = made.terms["monte_carlo_nats_per_draw"]
    assert per_draw <= float(row[header.index("Monte Carlo")]) < per_draw * 1.001
    assert made.total_per_example <= float(row[header.index("sum per record")])
    assert "1 rigorous, 0 optimistic" in page.text


def test_gaussian_certificates_say_what_they_bound_and_of_which_classifier(tmp_path):
    generator = torch.Generator().manual_seed(0)
    inputs, module = torch.randn(200, 3, generator=generator), nn.Linear(3, 1, bias=False).eval()
    law = GaussianPosterior.around(module, std=0.1)
    data = BoundSet(inputs=inputs, labels=(inputs[:, 0] > 0).long())
    test = BoundSet(inputs=-inputs, labels=(inputs[:, 0] <= 0).long())
    prior = Prior(law=law, source=DataFree())
    made = certify(law, data, prior=prior, network=module, test=test, monte_carlo=MonteCarlo(passes=2))
    found = made.to_dict()
    write(tmp_path / "certificates.json", found)
    page = report(tmp_path, out=tmp_path / "page.html")
    header, *rows = next(table for table in page.tables if "at most" in table[0])
    bounded, test = header.index("bounds"), header.index("test error")
    assert [row[bounded] for row in rows] == [f"{c['measures']}, {c['of']}" for c in found["certificates"]]
    for row, certificate in zip(rows, found["certificates"], strict=True):
        assert row[2] == certificate["status"]
        if certificate["measures"] != "0-1 risk":
            assert row[test] == "–", "a test error is beside bounds on errors alone"
    assert "randomised: mean zero-one loss" in page.text
    assert made.headline() in page.text
    costs = next(table for table in page.tables if "Monte Carlo" in table[0])
    assert any(row[-1] != "–" for row in costs[1:])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no run and no certificates.json"),
        ({"config.json": {"scale": "cpu", "runs": {}}, "table.csv": {}}, "holds an experiment's table"),
        ({"chain-00/config.json": {}, "chain-01/config.json": {}}, "holds 2 chains: report one of them"),
        ({"certificates.json": {"format": "other/1"}}, "has format 'other/1'"),
        ({"certificates.json": {"format": "pacdp-certificates/1"}}, "has format 'pacdp-certificates/1'"),
        ({"certificates.json": {"format": "pacdp-certificates/2"}}, "does not read (KeyError"),
        ({"config.json": {"sampler": 3}, "result.json": {"format": "pacdp-result/1"}}, "does not read"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(files, said, tmp_path, capsys):
    for name, values in files.items():
        write(tmp_path / name, values)
    assert pacdp("report", tmp_path) == 1
    assert said in one_sentence(capsys.readouterr().err)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("folder", "out", "said"), [("none", "p.html", "is no folder"), (".", ".", "is a folder: give")]
)
def test_wrong_paths_are_one_sentence(folder, out, said, certified, tmp_path, capsys):
    assert pacdp("report", certified / folder, "--out", tmp_path / out) == 1
    assert said in one_sentence(capsys.readouterr().err)
