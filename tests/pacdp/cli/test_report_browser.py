"""Reports in a headless Chromium, on a desk and on a phone: nothing on the console, nothing asked of the network, no
text over other text or cut off, and the headline in the first screen."""

import shutil

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from cli_tools import succeed
from layout import seen
from numpy.random import default_rng
from report_pages import write
from reports import handmade

from tests.marks import at_most, made_once

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 400)


@made_once
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium in PATH: on Debian, apt-get install chromium")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


def _predictions(copied, tmp_path):
    rng = default_rng(0)
    labels = rng.choice(["cat", "dog", "a bird of a long name that has to be broken somewhere"], 600)
    said = np.where(rng.random(600) < 0.1, rng.permutation(labels), labels)
    columns = {"label": labels, "prediction": said, "group": rng.integers(0, 4, 600)}
    pl.DataFrame(columns).write_csv(tmp_path / "answers.csv")
    succeed("certify", "--predictions", tmp_path / "answers.csv")
    return tmp_path


def _handmade(copied, tmp_path):
    write(tmp_path / "certificates.json", handmade())
    return tmp_path


def _unfinished(copied, tmp_path):
    folder = copied("sgd")
    (folder / "result.json").unlink()
    return folder


MADE = {"predictions": _predictions, "a report alone": _handmade, "not finished": _unfinished}


@at_most(1, "kind", MADE)
def test_reports_are_read_on_a_desk_and_on_a_phone(kind, browser, copied, tmp_path):
    folder = MADE[kind](copied, tmp_path)
    with mpl.rc_context():
        succeed("report", folder)
    for width in WIDTHS:
        picture = tmp_path / f"{width}.png"
        found = seen(browser, folder / "report.html", width=width, picture=picture)
        assert (found.faults, found.console, found.requests) == ([], [], [])
        assert found.headline_bottom < 900
        assert (found.headline_bottom > 0) == (kind != "not finished")
