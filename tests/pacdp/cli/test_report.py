"""`pacdp report`: one page that stands alone, says what is known, rounds to the safe side and is fooled by nothing."""

import math
import re
import shutil
from dataclasses import replace
from shutil import copytree

import matplotlib as mpl
import pytest
from cli_tools import read, succeed
from report_pages import changed, page_of, write
from secret_runs import KINDS
from tiny_runs import RUNTIME, interrupted, tiny

from pacdp.cli.figures.run import draw
from pacdp.cli.folder import PRIVATE, Folder
from pacdp.cli.reading import certificates_of
from pacdp.cli.run import train
from tests.marks import at_most, every_case, made_once, near, parametrize

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$\\frac{</svg>&lt;"


@made_once
def certified(trained, few_passes, tmp_path_factory):
    folder = copytree(trained["entropy-sgld"], tmp_path_factory.mktemp("certified") / "run")
    succeed("certify", folder, "--threads", 1)
    return folder


@made_once
def private(exported):
    return exported / "run"


def table_of(page, title):
    """The one table with a column of this title."""
    (found,) = (table for table in page.tables if title in table[0])
    return found


def report(folder, *, out):
    succeed("report", folder, "--out", out)
    return page_of(out)


@made_once
def page(certified, tmp_path_factory):
    """The page of the run with certificates."""
    with mpl.rc_context():
        return report(certified, out=tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(params=["run", "private", "certificates"])
def kind(request, certified, private, tmp_path):
    if request.param == "certificates":
        shutil.copy(certified / "certificates.json", tmp_path)
        return tmp_path
    return certified if request.param == "run" else private


def test_a_page_stands_alone_whatever_the_folder_holds(kind, tmp_path):
    page = report(kind, out=tmp_path / "page.html")
    assert all(one.startswith("data:image/png;base64,") for one in page.references), "references stay within the page"
    assert not re.search(r"url\(|@import|https?:", page.source)
    assert not {"script", "link", "iframe", "object", "embed"} & set(page.tags)
    assert len(set(page.ids)) == len(page.ids)
    assert "default-src 'none'" in page.source
    assert (tmp_path / "page.html").stat().st_size < 1_000_000
    figures = [values for tag, values in page.attributes if tag == "img"]
    assert bool(figures) == (kind / "certificates.json").is_file()
    assert all(values["alt"] for values in figures)
    headers = [values for tag, values in page.attributes if tag == "th"]
    assert all(values.get("scope") for values in headers)
    assert page.tags.count("table") == page.tags.count("caption") > 0


def test_every_certificate_with_its_status_in_words(certified, page):
    found, rows = (read(certified / "certificates.json")["certificates"], table_of(page, "at most")[1:])
    assert len(found) == 10
    for (name, _, status, _, failure_prob, *_), certificate in zip(rows, found, strict=True):
        assert status == certificate["status"]
        assert name.endswith(" *") == (status == "optimistic")
        assert float(failure_prob) == 0.05


def test_costs_add_up_to_the_certificates_own_totals(certified, page):
    header, *rows = table_of(page, "sum")
    paying = [made for made in certificates_of(read(certified / "certificates.json")) if made.costs]
    assert len(paying) == 7
    for row, made in zip(rows, paying, strict=True):
        total = float(row[header.index("sum")])
        assert made.total_nats <= total <= made.total_nats * 1.001
        parts = [float(cell) for cell in row[2 : header.index("sum")] if cell != "–"]
        assert len(parts) == len(made.costs)
        assert math.fsum(parts) == near(total, rel=2e-3)


def test_a_private_run_says_what_it_spent(private, tmp_path):
    page, result = report(private, out=tmp_path / "page.html"), read(private / "result.json")
    shown = float(re.search(r"epsilon at most ([\d.]+)", page.text).group(1))  # type: ignore[union-attr]
    assert result["privacy"]["upper"] <= shown < result["privacy"]["upper"] * 1.0001
    for words in (
        "replace-one neighbours (one example among 1437)",
        "The folder holds no certificates",
        "Noise: secret",
    ):
        assert words in page.text
    curve, bins = result["test"]["reliability"], table_of(page, "mean confidence")
    assert len(bins) == 1 + len(curve["count"]) == 16
    assert sum(int(row[2]) for row in bins[1:]) == result["n_test"]
    assert all(float(row[5]) <= low and high <= float(row[6])
               for row, low, high in zip(bins[1:], curve["lower"], curve["upper"], strict=True))  # fmt: skip


@at_most(2, "kept", ["a run under way", "a finished one"])
@parametrize("secret", [True, False])
def test_a_chain_with_secret_noise_is_not_to_be_published_finished_or_not(secret, kept, tmp_path):
    train(replace(KINDS["SGLD"], reproducible=not secret), tmp_path / "run", RUNTIME)
    if kept == "a run under way":
        (tmp_path / "run" / "result.json").unlink()
    page = report(tmp_path / "run", out=tmp_path / "page.html")
    assert ("not finished" in page.text) == (kept == "a run under way")
    assert (PRIVATE in page.text) == secret


def test_certificates_of_a_run_that_went_on_are_said_to_be_older(few_passes, tmp_path, capsys):
    run, folder = tiny("sgd", records=6), tmp_path / "run"
    interrupted(run, folder, after=30)
    found = []
    for again in (True, False, True):
        if again:
            succeed("certify", folder, "--threads", 1)
        else:
            interrupted(run, folder, after=60, runtime=replace(RUNTIME, resume=True))
        capsys.readouterr()
        succeed("plot", folder)
        drawn = draw(Folder(folder).rows(), read(folder / "certificates.json"))
        assert drawn is not None
        said = "since when the run went on to step 60"
        surfaces = (report(folder, out=tmp_path / "page.html").text, capsys.readouterr().out, drawn.axes[0].get_title())
        found.append([said in text for text in surfaces])
    assert found == [[False] * 3, [True] * 3, [False] * 3]


def test_rows_that_were_chained_anew_are_not_those_of_the_result(private, tmp_path, refused):
    copied = Folder(copytree(private, tmp_path / "run"))
    rows = copied.rows()
    rows[0]["epsilon"] /= 10.0
    copied.metrics.write_text("")
    for row in rows:
        copied.append_row(row)
    for command in ("report", "plot"):
        assert "holds other rows than those that result.json rests on" in refused(command, copied.path)


def test_hostile_strings_are_text(certified, page, tmp_path):
    folder = tmp_path / "run"
    copytree(certified, folder)
    config, source, found = (read(folder / name) for name in ("config.json", "provenance.json", "certificates.json"))
    config["problem"]["dataset"] = config["title"] = HOSTILE
    source["argv"], source["versions"][HOSTILE], source["commit"] = [HOSTILE], HOSTILE, HOSTILE
    made = found["certificates"][0]
    made |= {"name": HOSTILE, "of": HOSTILE, "measures": HOSTILE, "reference": HOSTILE, "budget": {HOSTILE: 0.05}}
    made["hypotheses"][0]["by"] = made["costs"][0]["name"] = HOSTILE
    found["not_applicable"] = [{"name": HOSTILE, "reason": HOSTILE}]
    for name, values in (("config.json", config), ("provenance.json", source), ("certificates.json", found)):
        write(folder / name, values)
    before, page = page, report(folder, out=tmp_path / "page.html")
    assert "script" not in page.tags
    assert not any(name.startswith("on") for _, values in page.attributes for name in values)
    assert page.tags.count("img") == before.tags.count("img")
    assert page.text.count("<script>alert(1)</script>") >= 7
    assert page.text.count(HOSTILE) >= 5


def test_a_certificate_that_claims_what_it_may_not_is_refused(certified, tmp_path, refused):
    found = changed(read(certified / "certificates.json"), "certificates/0/status", "rigorous")
    write(tmp_path / "certificates.json", found)
    assert "status must be 'optimistic', as the hypotheses say, got 'rigorous'" in refused("report", tmp_path)
    assert not (tmp_path / "report.html").exists()


RUN = {"format": "pacdp-run/3", "kind": "chain"}


@every_case(
    ("files", "said"),
    [
        ({}, "holds no run and no certificates.json"),
        ({"certificates.json": {"format": "pacdp-certificates/1"}}, "has format 'pacdp-certificates/1'"),
        (
            {
                "config.json": {"format": "pacdp-run/3", "kind": "chain", "sampler": 3},
                "result.json": {"format": "pacdp-result/1"},
            },
            "does not read",
        ),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(files, said, tmp_path, refused):
    for name, values in files.items():
        write(tmp_path / name, values)
    assert said in refused("report", tmp_path)
    assert not (tmp_path / "report.html").exists()
