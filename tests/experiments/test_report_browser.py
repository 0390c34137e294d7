"""The report in a headless Chromium: nothing on its console, nothing asked of anyone, every section in the document."""

import re
import shutil
import subprocess

import matplotlib as mpl
import pytest
from cli_tools import pacdp

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HOW = "no Chromium in PATH: on Debian, apt-get install chromium"


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(HOW)
    return found


@pytest.fixture
def load(browser, tmp_path):
    """A function that opens a file and gives its document and what its console said."""

    def run(path) -> tuple[str, list[str]]:
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
             "--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout, re.findall(r":CONSOLE[:(].*", done.stderr)

    return run


def test_a_page_with_faults_would_be_noticed(load, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
                   "<img src='file:///nothing.png'><script>fail()</script>")  # fmt: skip
    assert len(load(bad)[1]) >= 2


def test_the_page_opens_without_a_word_on_the_console(load, copied, tmp_path):
    folder = copied("entropy-sgld")
    with mpl.rc_context():
        assert pacdp("certify", folder, "--threads", 1) == 0
        assert pacdp("report", folder) == 0
    document, console = load(folder / "report.html")
    assert console == []
    for section in (
        "certificates",
        "hypotheses",
        "ledger",
        "costs",
        "privacy",
        "calibration",
        "training",
        "provenance",
    ):
        assert f'<h2 id="{section}">' in document
    assert document.count("<svg") == document.count("</svg>") == 3
    assert "Entropy-SGLD on digits2" in document
