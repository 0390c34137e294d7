"""The driver that changes `bounds` sees what tests see, and its page says what its record says."""

from pathlib import Path

import pytest

from tests.mutation import trial
from tests.mutation.mutants import of_file
from tests.mutation.page import DOCS, committed, reasons, rendered, score
from tests.mutation.targets import TARGETS, UNTRIED, suite_of

ROOT = Path(__file__).parents[1]


def test_every_file_has_tests_that_exist_and_every_reason_a_mutant():
    files = {str(path.relative_to(ROOT / "bounds").with_suffix("")) for path in (ROOT / "bounds").rglob("*.py")}
    assert files == {*TARGETS, *UNTRIED}
    assert all((ROOT / one.partition("::")[0]).is_file() for name in TARGETS for one in suite_of(name))
    made = {one.key for name in TARGETS for one in of_file(ROOT, f"bounds/{name}.py")}
    assert sorted(reasons().keys() - made) == []
    assert all(reason.endswith(".") for reason in reasons().values())


def test_the_page_follows_from_the_record_and_lists_every_survivor():
    record = committed()
    assert (DOCS / "mutation.md").read_text(encoding="utf-8") == rendered(record)
    assert {row["file"] for row in record["files"]} == {f"bounds/{name}.py" for name in TARGETS}
    assert score(record["files"]) >= 0.95
    assert not record["provenance"]["dirty"]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("source", "fate"),
    [
        ("def twice(x): return 2 * x", "survived"),
        ("def twice(x): return 3 * x", "killed"),
        ("def twice(x): return 2 / 0", "killed"),
        ("def twice(x):\n    while True: pass", "timeout"),
        ("twice = 2 +", "killed"),
    ],
)
def test_a_trial_ends_as_its_tests_do(tmp_path, monkeypatch, source, fate):
    (tmp_path / "bounds").mkdir()
    (tmp_path / "bounds" / "__init__.py").write_text(source)
    tests = tmp_path / "test_twice.py"
    tests.write_text("from bounds import twice\n\n\ndef test_twice():\n    assert twice(4) == 8\n")
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--cases')")
    monkeypatch.setattr(trial, "PRELOADED", ["pytest"])
    found = trial.tried(trial.prepared(), tmp_path, [str(tests)], limit=3.0)
    assert found.fate == fate
    where = "import" if source.startswith("twice") else f"{tests.name}::test_twice"
    assert found.by.endswith(where) if fate == "killed" else not found.by
