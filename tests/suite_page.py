"""Writes docs/suite.md, what a run of the suite did: ``python -m pytest -p tests.suite_page --page docs/suite.md``."""

import time
from collections import Counter
from pathlib import Path

_HEAD = """# The suite

Read this page if you change the code and want to know what the tests take and what they skip. `make test` runs three
cases of every test function, evenly spread, and all cases where these are the point.
`make test-all` runs every case, the slow ones and the tables of faults, and writes this page.
"""
_END = """## What can go wrong

A test that is skipped shows nothing, and the table says which were. Times are of one machine.
"""


class Page:
    """Counts outcomes and seconds by file, and writes the page at the end."""

    def __init__(self, path):
        self.path, self.began = path, time.time()
        self.outcomes, self.seconds, self.items = Counter[str](), Counter[str](), Counter[str]()
        self.skipped = Counter[str]()

    def pytest_runtest_logreport(self, report):
        """Each phase of each item as it ends, from whichever process ran it."""
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.items[file] += 1
            self.outcomes[report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self):
        """The whole page, anew."""
        # tests/typed.py checks only what is imported after it
        from pacdp.cli.folder import provenance

        made = provenance(device="cpu", seed=0)
        said = ", ".join(f"{self.outcomes[name]:,} {name}" for name in ("passed", "failed", "skipped"))
        rows = {
            "date": time.strftime("%Y-%m-%d", time.gmtime(self.began)),
            "commit": f"{made['commit']}{' with changes' if made['dirty'] else ''}",
            "items": said,
            "seconds by the clock": f"{time.time() - self.began:.0f}",
            "seconds of items": f"{sum(self.seconds.values()):.0f}",
        }
        lines = [_HEAD, "|||", "|---|---|", *(f"|{name}|{value}|" for name, value in rows.items())]
        lines += ["", "|slowest files|items|seconds|", "|---|---|---|"]
        lines += [f"|{file}|{self.items[file]}|{own:.1f}|" for file, own in self.seconds.most_common(8)]
        lines += ["", "|skipped, because|items|", "|---|---|"]
        lines += [f"|{reason}|{count}|" for reason, count in sorted(self.skipped.items())]
        lines += ["", _END]
        self.path.write_text("\n".join(lines), encoding="utf-8")


def pytest_addoption(parser):
    """Where the page is written."""
    parser.addoption("--page", type=Path, metavar="FILE", help="write what this run did to FILE")


def pytest_configure(config):
    """The process that starts the workers writes, once."""
    if config.getoption("page") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Page(config.getoption("page")), "suite-page")
