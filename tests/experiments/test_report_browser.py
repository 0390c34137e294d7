"""Reports in a headless Chromium, on a desk and on a phone: nothing on the console, nothing asked of the network, no
text over other text or cut off, and the headline in the first screen."""

import json
import os
import shutil

import matplotlib as mpl
import numpy as np
import pytest
from cli_tools import pacdp
from layout import seen
from reports import handmade

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium in PATH: on Debian, apt-get install chromium")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


def _run(copied, tmp_path):
    folder = copied("entropy-sgld")
    with mpl.rc_context():
        assert pacdp("certify", folder, "--threads", 1) == 0
    return folder


def _predictions(copied, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.choice(["cat", "dog", "a bird of a long name that has to be broken somewhere"], 600)
    said = np.where(rng.random(600) < 0.1, rng.permutation(labels), labels)
    lines = [
        f"{label},{each},{clinic}" for label, each, clinic in zip(labels, said, rng.integers(0, 4, 600), strict=True)
    ]
    (tmp_path / "answers.csv").write_text("\n".join(["label,prediction,group", *lines]))
    assert pacdp("certify", "--predictions", tmp_path / "answers.csv") == 0
    return tmp_path


def _handmade(copied, tmp_path):
    (tmp_path / "certificates.json").write_text(json.dumps(handmade()))
    return tmp_path


def _unfinished(copied, tmp_path):
    folder = copied("sgd")
    (folder / "result.json").unlink()
    return folder


MADE = {
    "a run": _run,
    "predictions": _predictions,
    "a report alone": _handmade,
    "a run that is not finished": _unfinished,
}


@pytest.mark.parametrize("kind", MADE)
def test_reports_are_read_on_a_desk_and_on_a_phone(kind, browser, copied, tmp_path):
    folder = MADE[kind](copied, tmp_path)
    with mpl.rc_context():
        assert pacdp("report", folder) == 0
    for width in WIDTHS:
        picture = tmp_path / f"{width}.png"
        found = seen(browser, folder / "report.html", width=width, picture=picture)
        if kept := os.environ.get("PACDP_PICTURES"):
            shutil.copy(picture, os.path.join(kept, f"{kind.replace(' ', '-')}-{width}.png"))
        assert found.faults == []
        assert found.console == []
        assert found.requests == []
        assert found.headline_bottom < 900
        assert (found.headline_bottom > 0) == (kind != "a run that is not finished")


OVER = '<p style="position:absolute;top:{}px;left:20px">a label</p>'
FAULTS = {
    "a label over another": (OVER.format(10) + OVER.format(13), "over each other"),
    "a table that widens the page": (f"<table><tr>{'<td>wide_cell_number</td>' * 20}</tr></table>", "wide"),
    "text beyond the edge": ('<p style="position:absolute;left:-80px">the beginning is cut</p>', "cut off"),
    "a box that hides its text": (
        '<div style="overflow:hidden;width:50px;white-space:nowrap">a long line of text</div>',
        "hidden",
    ),
    "a bar beyond its axis": (
        '<div class="track" style="width:50px"><div style="width:90px;height:9px"></div></div>',
        "leaves its axis",
    ),
    "an empty section": ("<section><h2>Privacy</h2></section>", "empty section"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_layout_would_be_noticed(fault, browser, tmp_path):
    body, said = FAULTS[fault]
    bad = tmp_path / "bad.html"
    bad.write_text(f"<!doctype html><html><body>{body}</body></html>")
    assert any(said in one for one in seen(browser, bad, width=400, picture=tmp_path / "bad.png").faults)


def test_words_on_the_console_and_requests_would_be_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><img src='http://127.0.0.1:9/nothing.png'><script>console.warn('x'); fail()</script>"
    )
    found = seen(browser, bad, width=400, picture=tmp_path / "bad.png")
    assert len(found.console) >= 2
    assert found.requests == ["http://127.0.0.1:9/nothing.png"]
