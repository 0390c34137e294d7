"""`pacdp certify --predictions`: files of every kind say the same, their certificates follow, damage is a sentence."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cli_tools import one_sentence, pacdp

import pacdp as library
from pacdp.cli.predicting.pairing import examples_of
from pacdp.cli.predicting.tables import read_table
from pacdp.predictions.certify import certified
from pacdp.verify.claim import CANNOT, DOES_NOT
from pacdp.verify.report import check_report
from tests.schema import validate

RNG = np.random.default_rng(5)
N = 600
LABELS = RNG.integers(0, 3, N)
SAID = np.where(RNG.random(N) < 0.15, (LABELS + 1) % 3, LABELS)
SOFT = np.round(0.9 * np.eye(3)[SAID] + 0.1 * RNG.dirichlet(np.ones(3), N), 6)
GROUPS = RNG.choice(["north", "south"], N)
PEOPLE = np.repeat(np.arange(N // 4), 4)
COLUMNS = {"label": LABELS, "prediction": SAID, "group": GROUPS, "person": PEOPLE}


def _write(path: Path, columns: dict[str, object]) -> Path:
    frame = pl.DataFrame(columns)
    if path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        np.savez(path, **{name: np.asarray(column) for name, column in columns.items()})
    return path


def _report(path: Path, *words: str) -> dict:
    assert pacdp("certify", "--predictions", path, *words) == 0
    return json.loads((path.parent / "certificates.json").read_text())


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
@pytest.mark.parametrize("kind", ["predictions", "probabilities"])
def test_every_kind_of_file_says_what_python_says(suffix, kind, tmp_path, capsys):
    soft = {f"p{k}": SOFT[:, k] for k in range(3)} if kind == "probabilities" else {}
    columns = {name: column for name, column in COLUMNS.items() if name != "prediction" or not soft} | soft
    report = _report(_write(tmp_path / f"answers{suffix}", columns))
    how = {"probabilities": SOFT} if soft else {"predictions": SAID}
    expected = library.certify_predictions(LABELS, **how, groups=GROUPS, people=PEOPLE)
    assert report["details"]["statements"] == expected.to_dict()["details"]["statements"]
    assert validate(report) == list(expected.certificates)
    said = capsys.readouterr().out
    assert said.startswith("The error of your model on a new person is at most")
    assert "all of this holds at once with 95% confidence" in said


def test_a_matrix_of_an_npz_is_read_and_classes_may_be_named(tmp_path):
    names = np.array(["cat", "dog", "eel"])
    path = tmp_path / "answers.npz"
    np.savez(path, label=names[LABELS], probabilities=SOFT)
    found = _report(path, "--classes", "cat", "dog", "eel", "--ask", "recall")["details"]["statements"]
    expected = library.certify_predictions(names[LABELS], probabilities=SOFT, classes=list(names), ask="recall")
    assert found == expected.to_dict()["details"]["statements"]
    assert "recall of class 'dog'" in [row["quantity"] for row in found]


@pytest.mark.parametrize("how", ["in order", "by id"])
def test_models_in_one_table_are_paired(how, tmp_path):
    other = np.where(RNG.random(N) < 0.05, (SAID + 1) % 3, SAID)
    columns = {
        "label": np.tile(LABELS, 2),
        "prediction": np.concatenate([SAID, other]),
        "model": ["old"] * N + ["new"] * N,
    }
    expected = library.certify_predictions(LABELS, {"old": SAID, "new": other})
    if how == "by id":
        columns["id"] = [f"e{k}" for k in range(N)] * 2
        order = RNG.permutation(2 * N)
        order = order[np.argsort(np.array(columns["model"])[order] != "old", kind="stable")]  # the old one first
        columns = {name: np.asarray(column)[order] for name, column in columns.items()}
    found = _report(_write(tmp_path / "answers.csv", columns))["details"]["statements"]
    rows = {(row["quantity"], row["of"]): (row["measured"], row["n"]) for row in found}
    assert rows == {(row.quantity, row.of): (pytest.approx(row.measured), row.n) for row in expected.statements}


def test_probabilities_are_read_some_rows_at_a_time(tmp_path, monkeypatch):
    columns = {"label": LABELS, **{f"p{k}": SOFT[:, k] for k in range(3)}}
    for name in ("answers.csv", "answers.parquet"):
        path = _write(tmp_path / name, columns)
        whole = certified(examples_of(path, read_table(path)), failure_prob=0.05)
        monkeypatch.setattr("pacdp.cli.predicting.tables._CELLS", 3 * 7)
        parts = certified(examples_of(path, read_table(path)), failure_prob=0.05)
        assert parts.statements == whole.statements
        monkeypatch.undo()


CONTENT = {
    "an empty file": (b"", "is empty: write a line of column names"),
    "a head alone": (b"label,prediction\n", "holds no rows"),
    "an unknown column": (b"label,prediction,age\n0,0,3\n", "has a column 'age' that is none of label, prediction"),
    "a column twice": (b"label,prediction,label\n0,0,3\n", "column"),
    "a float label": (b"label,prediction\n0,0\n1.0,1\n", "must have whole numbers or text in column 'label'"),
    "all float labels": (b"label,prediction\n0.0,0\n1.0,1\n", "nothing is truncated here"),
    "a gap": (b"label,prediction\n0,0\n,1\n", "has a gap in column 'label', in row 1"),
    "a gap in people": (b"label,prediction,person\n0,0,a\n1,1,\n", "has a gap in column 'person', in row 1"),
    "no prediction": (b"label\n0\n1\n", "has labels without a column prediction"),
    "no label": (b"prediction\n0\n1\n", "has no column label"),
    "neither": (b"group\na\nb\n", "has neither label and prediction nor a loss"),
    "both": (b"label,prediction,p0,p1\n0,0,1,0\n", "must have a column prediction or p0, p1, ..., not both"),
    "a missing class": (b"label,p0,p2\n0,1,0\n", "lacks p1"),
    "a NaN": (b"label,p0,p1\n0,0.5,0.5\n1,nan,0.5\n", "must lie in [0, 1], got nan in row 1, column 0"),
    "no number": (b"label,p0,p1\n0,0.5,0.5\n1,x,0.5\n", "cannot be read as csv"),
    "a missing number": (b"label,p0,p1\n0,0.5,0.5\n1,,0.5\n", "must have numbers in column 'p0', got none in row 1"),
    "sums": (b"label,p0,p1\n0,0.5,0.5\n1,0.5,0.6\n", "must sum to one in every row, got 1.1 in row 1"),
    "another class": (b"label,prediction\ncat,Cat\ndog,dog\n", "prediction must name classes that the labels have"),
    "other types": (b"label,prediction\n0,zero\n1,one\n",
        "prediction must be whole numbers like the labels, got text"),
    "a loss": (b"loss\n0.5\n1.5\n", "loss must lie in [0, 1], got 1.5 in row 1"),
    "text for a loss": (b"loss\n0.5\nlow\n", "must have numbers in column 'loss', got 'low' in row 1"),
    "rows of other lengths": (b"label,prediction\n0,0,0\n1\n", "cannot be read as csv"),
    "no text": (b"label,prediction\n\xff\xfe,0\n", "cannot be read as csv"),
    "an id twice": (b"id,label,prediction\na,0,0\na,1,1\n", "ids must be different in every row, got 'a'"),
    "models of other lengths": (b"model,label,prediction\na,0,0\na,1,1\nb,0,0\n",
        "must have the same examples for every model"),
    "models of other labels": (b"model,label,prediction\na,0,0\nb,1,1\n",
        "must have the same label for every model's answer"),
    "models of other ids": (b"model,id,label,prediction\na,x,0,0\nb,y,0,0\n",
        "must have the same ids for every model"),
    "a model's id twice": (b"model,id,label,prediction\na,x,0,0\na,x,0,0\nb,x,0,0\nb,y,0,0\n",
        "has id 'x' twice for model 'a'"),
}  # fmt: skip


@pytest.mark.parametrize("why", CONTENT)
def test_a_file_that_does_not_fit_is_one_sentence_and_leaves_nothing(why, tmp_path, capsys):
    content, said = CONTENT[why]
    path = tmp_path / "answers.csv"
    path.write_bytes(content)
    assert pacdp("certify", "--predictions", path) == 1
    printed = capsys.readouterr()
    assert said in one_sentence(printed.err)
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == [path]


WORDS = [
    (("--failure-prob", "0"), "--failure-prob must lie strictly between 0 and 1, got 0.0"),
    (("--failure-prob", "1"), "--failure-prob must lie strictly between 0 and 1, got 1.0"),
    (("--ask", "brier"), "ask names 'brier', which needs probabilities"),
    (("--metric", "acc"), "--metric goes with evaluation logs"),
    (("--classes", "0", "1"), "label must name classes that --classes have, got 2"),
]


@pytest.mark.parametrize(("words", "said"), WORDS)
def test_words_that_do_not_fit_are_one_sentence(words, said, tmp_path, capsys):
    assert pacdp("certify", "--predictions", _write(tmp_path / "answers.csv", COLUMNS), *words) == 1
    assert said in one_sentence(capsys.readouterr().err)


def test_files_that_are_not_there_or_of_another_kind(tmp_path, capsys):
    assert pacdp("certify", "--predictions", tmp_path / "nowhere.csv") == 1
    assert "is not there" in one_sentence(capsys.readouterr().err)
    (tmp_path / "answers.xlsx").write_bytes(b"PK")
    assert pacdp("certify", "--predictions", tmp_path / "answers.xlsx") == 1
    assert "must be one of .csv, .parquet, .npz" in one_sentence(capsys.readouterr().err)
    (tmp_path / "certificates.json").write_text("mine")
    assert pacdp("certify", "--predictions", _write(tmp_path / "answers.csv", COLUMNS)) == 1
    assert "is no report of certificates" in one_sentence(capsys.readouterr().err)
    assert (tmp_path / "certificates.json").read_text() == "mine"
    assert pacdp("certify", "--predictions", tmp_path / "answers.csv", "--asks", "error") == 2
    assert "there is no option --asks: did you mean --ask?" in one_sentence(capsys.readouterr().err)


def test_columns_are_left_out_when_that_is_said(tmp_path):
    path = _write(tmp_path / "answers.csv", COLUMNS | {"age": np.arange(N)})
    assert _report(path, "--ignore", "age", "person", "--ask", "error")["unit"] == "example"


def test_an_earlier_report_that_differs_is_kept(tmp_path):
    path = _write(tmp_path / "answers.csv", COLUMNS)
    first = _report(path)
    _report(path, "--ask", "error")
    assert json.loads((tmp_path / "certificates.json.1").read_text())["details"] == first["details"]


def test_the_report_follows_and_makes_a_page(tmp_path, capsys):
    report = _report(
        _write(tmp_path / "answers.csv", {"label": LABELS, "prediction": SAID, "group": GROUPS}), "--interval"
    )
    assert {one.verdict for one in check_report(report)} == {"follows"}
    assert pacdp("verify", tmp_path) == 0
    assert pacdp("report", tmp_path) == 0
    page = (tmp_path / "report.html").read_text()
    assert "All of these rows hold at once with 95% confidence." in page
    assert "largest gap between groups" in page
    assert "The error of your model on new data is at most" in page


def _of_everything() -> dict:
    found = library.certify_predictions(LABELS, {"a": SAID, "b": LABELS[::-1]}, groups=GROUPS, interval=True)
    return found.to_dict()


def test_the_page_of_hostile_names_is_escaped_and_of_other_reports_the_same(tmp_path):
    names = np.array(["<script>", "b&b", "c"])
    _report(_write(tmp_path / "answers.csv", {"label": names[LABELS], "prediction": names[SAID]}))
    assert pacdp("report", tmp_path) == 0
    page = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_no_number_of_a_report_can_be_changed_without_notice():
    report = _of_everything()
    odd = [one for one in check_report(report) if one.verdict == DOES_NOT]
    assert odd == []
    assert all("losses" in one.why for one in check_report(report) if one.verdict == CANNOT)

    def row(r: dict) -> dict:
        return r["details"]["statements"][0]

    def gap(r: dict) -> dict:
        return next(one for one in r["certificates"] if one["name"] == "largest_gap")

    edits = {
        "a smaller upper end": lambda r: row(r).update(upper=0.9 * row(r)["upper"]),
        "a larger lower end": lambda r: row(r).update(lower=1.1 * row(r)["lower"]),
        "another rate": lambda r: row(r).update(measured=0.5),
        "another model": lambda r: row(r).update(of="b"),
        "another certificate": lambda r: row(r).update(upper_by=2),
        "a row left out": lambda r: r["details"]["statements"].pop(0),
        "a smaller total": lambda r: r.update(failure_prob=0.04),
        "a larger entry": lambda r: r["details"]["budget"]["entries"][0].__setitem__(1, 0.03),
        "a smaller entry": lambda r: r["details"]["budget"]["entries"][0].__setitem__(1, 0.02),
        "an entry of nothing": lambda r: r["details"]["budget"]["entries"].pop(),
        "another ledger": lambda r: r["details"]["budget"].update(total=0.06),
        "fewer errors": lambda r: r["certificates"][0]["inputs"].update(k=r["certificates"][0]["inputs"]["k"] - 1),
        "fewer examples": lambda r: r.update(n=N - 1),
        "a smaller gap": lambda r: gap(r).update(value=0.01),
        "other groups": lambda r: gap(r)["inputs"].update(uppers="0.2, 0.2"),
        "a measured error": lambda r: r["measured"][0].update(errors=1),
    }  # fmt: skip
    for why, edit in edits.items():
        edited = copy.deepcopy(report)
        edit(edited)
        assert any(one.verdict == DOES_NOT for one in check_report(edited)), why


def _loaded(*words: str) -> set[str]:
    script = (
        "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr)); "
        "from pacdp.cli.main import main; main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    (names,) = (line for line in done.stderr.splitlines() if line.startswith("loaded "))
    return set(names.split())


def test_the_command_and_the_function_start_without_torch(tmp_path):
    path = _write(tmp_path / "answers.csv", COLUMNS)
    loaded = _loaded("certify", "--predictions", str(path))
    heavy = {"torch", "sklearn", "matplotlib", "opacus", "scipy.stats", "safetensors", "jinja2", "pacdp.certify"}
    assert sorted(loaded & heavy) == []
    code = (
        "import sys, pacdp; pacdp.certify_predictions([0, 1, 1], [0, 1, 0]); "
        "print(sorted({'torch', 'polars', 'sklearn', 'pacdp.certify'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_million_rows_take_ten_seconds_and_half_a_gigabyte(tmp_path):
    n = 1_000_000
    labels = RNG.integers(0, 10, n)
    soft = np.full((n, 10), 0.02)
    soft[np.arange(n), np.where(RNG.random(n) < 0.1, (labels + 1) % 10, labels)] = 0.82
    path = tmp_path / "answers.csv"
    group = RNG.choice(["north", "south"], n)
    pl.DataFrame({"label": labels, **{f"p{k}": soft[:, k] for k in range(10)}, "group": group}).write_csv(path)
    script = (
        "import resource, sys; from pacdp.cli.main import main; main(sys.argv[1:]); "
        "used = resource.getrusage(resource.RUSAGE_SELF); "
        "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]; "
        "print(int(peak) / 1024, used.ru_utime + used.ru_stime)"
    )
    command = [sys.executable, "-c", script, "certify", "--predictions", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, seconds = map(float, done.stdout.splitlines()[-1].split())
    assert megabytes < 500
    assert seconds < 10
