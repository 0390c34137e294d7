"""`pacdp certify --predictions`: files of every kind say the same, their certificates follow, damage is a sentence."""

import copy
import datetime
import gzip
import json
from decimal import Decimal

import numpy as np
import polars as pl
from cli_tools import pacdp, read, succeed
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from report_pages import changed

import pacdp as library
from pacdp.cli.predicting.tables import _keys_once, read_table
from pacdp.verify.claim import DOES_NOT
from pacdp.verify.report import check_report
from tests.marks import every_case, near, parametrize, refusal
from tests.schema import validate

RNG = default_rng(5)
N = 600
LABELS = RNG.integers(0, 3, N)
SAID = np.where(RNG.random(N) < 0.15, (LABELS + 1) % 3, LABELS)
SOFT = np.round(0.9 * np.eye(3)[SAID] + 0.1 * RNG.dirichlet(np.ones(3), N), 6)
GROUPS = RNG.choice(["north", "south"], N)
PEOPLE = np.repeat(np.arange(N // 4), 4)
COLUMNS = {"label": LABELS, "prediction": SAID, "group": GROUPS, "person": PEOPLE}


def _write(path, columns):
    frame = pl.DataFrame(columns)
    if path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        np.savez(path, **{name: np.asarray(column) for name, column in columns.items()})
    return path


def denied(report):
    """Whether something in it does not follow."""
    return DOES_NOT in {one.verdict for one in check_report(report)}


def _report(path, *words):
    succeed("certify", "--predictions", path, *words)
    return read(path.parent / "certificates.json")


@parametrize("suffix", [".csv", ".parquet", ".npz"])
@parametrize("kind", ["predictions", "probabilities"])
def test_every_kind_of_file_says_what_python_says(suffix, kind, tmp_path):
    soft = {f"p{k}": SOFT[:, k] for k in range(3)} if kind == "probabilities" else {}
    columns = {name: column for name, column in COLUMNS.items() if name != "prediction" or not soft} | soft
    columns["loss"] = SAID != LABELS
    path = _write(tmp_path / f"answers{suffix}", columns)
    with refusal("'age' to ignore"):
        read_table(path, ["age"])
    report = _report(path)
    how = {"probabilities": SOFT} if soft else {"predictions": SAID}
    how["losses"] = {"loss": SAID != LABELS}
    expected = library.certify_predictions(LABELS, **how, groups=GROUPS, people=PEOPLE)
    assert report["details"]["statements"] == expected.to_dict()["details"]["statements"]
    assert validate(report) == list(expected.certificates)


def test_a_matrix_of_an_npz_is_read_and_classes_may_be_named(tmp_path, refused):
    names = np.array(["cat", "dog", "eel"])
    path = tmp_path / "answers.npz"
    np.savez(path, label=names[LABELS], probabilities=SOFT)
    found = _report(path, "--classes", "cat", "dog", "eel", "--ask", "recall")["details"]["statements"]
    expected = library.certify_predictions(names[LABELS], probabilities=SOFT, classes=list(names), ask="recall")
    assert found == expected.to_dict()["details"]["statements"]
    assert "recall of class 'dog'" in [row["quantity"] for row in found]
    texts = {f"p{k}": SOFT[:, k].astype(str) for k in range(3)}
    one_hot = {"prediction": np.eye(3)[SAID]}  # which is no table of 3 N rows
    for said, columns in {"got shape": {"probabilities": SOFT[:, :0]}, "in column 'p0', got": texts,
                          ".argmax(1) of one-hot rows": one_hot}.items():  # fmt: skip
        np.savez(path, label=LABELS, **columns)
        assert said in refused("certify", "--predictions", path)
    np.savez(path, label=LABELS, probabilities=SOFT)
    said = refused("certify", "--predictions", path, "--classes", "2", "1", "0")
    assert "which are of classes 0, 1, ..., got --classes in another order" in said


@parametrize("suffix", [".jsonl", ".parquet"])
@parametrize("one", [{"labels": [0] * 9 + [1]}, [0] * 9 + [1], datetime.time(1, 2, 3, 4), 2**70])
def test_values_of_which_a_text_would_show_a_part_are_refused(one, suffix, tmp_path, refused):
    path, other = tmp_path / f"answers{suffix}", copy.deepcopy(one)
    frame = pl.DataFrame({"label": [one] * 9, "prediction": [other] * 9})
    frame.write_ndjson(path) if suffix == ".jsonl" else frame.write_parquet(path)
    if isinstance(one, datetime.time) and suffix == ".jsonl":  # a text there
        assert _report(path)["n"] == 9
        return
    said = refused("certify", "--predictions", path)
    assert "in column 'label', which are no single text or number: write one in each row" in said


@parametrize("suffix", [".jsonl", ".parquet"])
@parametrize("kind", [bool, int])
def test_losses_of_whole_numbers_rest_on_none_being_larger_elsewhere(kind, suffix, tmp_path):
    frame, path = pl.DataFrame({"loss": (SAID != LABELS).astype(kind)}), tmp_path / f"answers{suffix}"
    frame.write_ndjson(path) if suffix == ".jsonl" else frame.write_parquet(path)
    (made,) = _report(path)["certificates"]
    said = [one["by"] for one in made["hypotheses"] if one["name"] == "losses within their range"]
    assert said == ["whoever gave these predictions: they lie in 0 to 1, and whole numbers are 0 or 1"] * (kind is int)


def test_one_file_is_certified_at_a_time(tmp_path, refused):
    path = _write(tmp_path / "answers.csv", COLUMNS)
    for words in (("--predictions", path), (f"--predictions={path}",)):
        said = refused("certify", "--predictions", path, *words, status=(2,))
        assert "--predictions goes with one file" in said


@parametrize(("first", "said"), [("250.000", True), ("250.5", False), ("0.250", False)])
def test_marks_that_may_part_thousands_are_remarked_upon(first, said, tmp_path):
    path = tmp_path / "answers.csv"
    for separator, mark in ((",", "."), (";", "."), (";", ",")):
        rows = [["label", "prediction"], [first, "900"], *[["1.250", "980"]] * 9]
        path.write_text("".join(separator.join(row).replace(".", mark) + "\n" for row in rows))
        remarks = _report(path, "--range", "0", "1000")["details"]["remarks"]
        assert (
            any(one.startswith(f"numbers such as {first} in column 'label' were read with") for one in remarks) == said
        )


@parametrize("how", ["in order", "by id"])
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
    remarks = read(tmp_path / "certificates.json")["details"]["remarks"]
    assert any(one.startswith("each model's rows were taken in their order") for one in remarks) == (how != "by id")
    rows = {(row["quantity"], row["of"]): (row["measured"], row["n"]) for row in found}
    assert rows == {(row.quantity, row.of): (near(row.measured), row.n) for row in expected.statements}


NO_TEXT = "{path} cannot be read as csv (it is no text in UTF-8): save it as CSV in UTF-8 (in Excel: CSV UTF-8)"
CONTENT = {
    "nothing": (b"", "is empty: write a line of column names"),
    "a quote that is not closed": (b'"', "{path}"),
    "an unknown column": (b"label,prediction,age,sex\n0,0,3,f\n", "is none of label, prediction"),
    "unknown columns": (b"label,prediction,age,sex\n0,0,3,f\n", "or pass --ignore age sex"),
    "two names of one": (b"y_true,gold,prediction\n0,0,0\n", "has a column 'y_true' that is none of"),
    "probabilities of three of four": (b"label,prob_a,prob_b\na,.5,.5\nb,.5,.5\nc,.5,.5\n", "labels must name classes"),
    "thousands": (b"loss;label;prediction\n1.234,5;0;0\n", "must have numbers in column 'loss'"),
    "a float label": (b"label,prediction\n0,0\n1.0,1\n", "must have whole numbers or text in column 'label'"),
    "a gap": (b"label,prediction\n0,0\n,1\n", "got none in row 1: fill it in, for rows that fail are"),
    "a gap in words": (b"label,prediction\ncat,cat\nNA,NA\n", "labels must have no gaps, got 'NA' in row 1"),
    "a gap among numbers": (b"label,prediction\n0,0\n1,1\n1,nan\n", "predictions must have no gaps"),
    "decimals among numbers": (b"label,prediction\n0,0\n1,1.5\n", "'prediction', got 1.5 in row 1: nothing"),
    "an empty line inside": (b"label,prediction\n0,0\n\n1,1\n", "must have no gaps, got none in row 1"),
    "an index without a name": (b"label,prediction\n1,0,0\n2,1,1\n", "(a row has more fields than the first line"),
    "whose loss": (b"label,pred_a,pred_b,loss_a,loss_b\n0,0,1,.1,.9\n", "'loss_a' beside predictions of several"),
    "two losses": (b"loss,loss\n0.1,0.2\n", "has two columns called 'loss'"),
    "an index that is none": (b",label,prediction\n3,0,0\n3,1,1\n", "that does not number the rows: name it"),
    "UTF-16 unmarked": ("label,prediction\n0,0\n".encode("utf-16-le"), NO_TEXT),
    "cp1252": ("label,prediction\nkätzchen,hund\n".encode("cp1252"), NO_TEXT),
    "Excel": (b"PK\x03\x04\x14\x00", NO_TEXT),
    "half of gzip": (gzip.compress(b"label,prediction\n0,0\n")[:-9], "{path} cannot be read as csv (Compressed file"),
    "a missing class": (b"label,p0,p2\n0,1,0\n", "lacks p1"),
    "the first class alone": (b"label,p0\n0,1\n", "lacks p1"),
    "all but the first class": (b"label,p1,p2\n0,1,0\n", "lacks p0"),
    "a name of no class": (b"label,prob_ill\n0,.5\n1,.3\n", "of a class 'ill', and numbers as labels: write"),
    "a comma at the end": (b"label,prediction,\n0,0,\n", "has a column '' that is none of label"),
    "a comma and another": (b"label,prediction,age,\n0,0,3,\n", "give it a name, or write the table without it"),
    "a missing number": (b"label,p0,p1\n0,0.5,0.5\n1,,0.5\n", "must have numbers in column 'p0', got None in row 1"),
    "another class": (b"label,prediction\ncat,Cat\ndog,dog\n", "predictions must name classes that the labels have"),
    "an id twice": (b"id,label,prediction\na,0,0\na,1,1\n", "ids must be different in every row, got 'a'"),
    "no id to pair by": (b"model,id,label,prediction\na,,0,0\na,y,1,1\nb,,0,0\nb,y,1,1\n", "no gaps, got none"),
    "models of other labels": (b"model,label,prediction\na,0,0\nb,1,1\n",
        "must have the same label for every model's answer"),
    "a model's id twice": (b"model,id,label,prediction\na,x,0,0\na,x,0,0\nb,x,0,0\nb,y,0,0\n",
        "must have the same id for every model's answer"),
}  # fmt: skip


TWICE = '{"label": 0, "prediction": 0}\n{"label": 1, "prediction": 0, "prediction": 1}'
KEYS = {
    "in lines": ("answers.jsonl", TWICE, "no JSON, line 2 (key 'prediction' stands twice): write it whole"),
    "in records": ("answers.json", f"[{TWICE}]".replace("\n", ","), "no JSON (key 'prediction' stands twice): write"),
    "in two spellings": (
        "answers.jsonl", r'{"label": 0, "prediction": 0, "\u0070rediction": 1}', "1 (key 'prediction' stands twice)"),
}  # fmt: skip


@given(data=st.data())
def test_counting_keys_finds_every_record_with_one_twice(data):
    key = st.sampled_from(["label", "prediction", "la", 'a"b', "é"])
    value = st.one_of(st.integers(0, 3), st.none(), key, st.just("{"))
    records = data.draw(st.lists(st.lists(st.tuples(key, value), min_size=1, max_size=4), min_size=1, max_size=5))
    if data.draw(st.booleans()):
        records = [[("label", number), ("prediction", number)] for number in range(len(records))]
    pairs = [[f"{json.dumps(k, ensure_ascii=False)}: {json.dumps(v)}" for k, v in one] for one in records]
    content = "\n".join(f"{{{', '.join(one)}}}" for one in pairs).encode()
    once = all(len({k for k, _ in one}) == len(one) for one in records)
    try:
        found = _keys_once(content, pl.read_ndjson(content, infer_schema_length=None))
    except pl.exceptions.PolarsError:  # texts and numbers in a column
        return
    assert once or not found
    if records == [[("label", number), ("prediction", number)] for number in range(len(records))]:
        assert found


@every_case("why", KEYS)
def test_a_key_that_stands_twice_in_a_record_is_refused_since_one_of_them_would_be_dropped(why, tmp_path, refused):
    name, content, said = KEYS[why]
    (tmp_path / name).write_text(content)
    assert said in refused("certify", "--predictions", tmp_path / name)


def test_records_in_which_a_value_reads_like_a_key_are_read(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"label": "label", "prediction": "b"}\n{"label": "b", "prediction": "label"}\n')
    assert _report(path)["certificates"][0]["inputs"]["k"] == 2


@every_case("why", CONTENT)
def test_a_file_that_does_not_fit_is_one_sentence_and_leaves_nothing(why, tmp_path, refused):
    content, said = CONTENT[why]
    path = tmp_path / "answers.csv"
    path.write_bytes(content)
    assert said.format(path=path) in refused("certify", "--predictions", path)
    assert list(tmp_path.iterdir()) == [path]


RECORDS = [b'{"label":"a","prediction":"a"}'] * 3 + [b'{"label":"b","prediction":"a"}']
READ = {
    "pandas": b",label,prediction\n0,a,a\n1,b,a\n2,a,a\n3,b,b\n",
    "R": b'"","label","prediction"\n"1","a","a"\n"2","b","a"\n"3","a","a"\n"4","b","b"\n',
    "spaces after commas": b"label, prediction\n0, 0\n10, 0\n0, 0\n10, 10\n",
    "leading zeros": b"label,prediction\n00,00\n01,00\n00,00\n01,01\n",
    "powers and signs": b"label,prediction\n1e2,1e2\n+1,1e2\n1e2,1e2\n+1,+1\n",
    "empty lines at the end": b"label,prediction\r\na,a\r\nb,a\r\na,a\r\nb,b\r\n\r\n\r\n",
    "rounded": b"label,p0,p1\n0,1.000000001,-1e-9\n1,0.7,0.3\n0,1,0\n1,0,1\n\n",
    "a shuffled index": b",label,prediction\n7,a,a\n2,b,a\n5,a,a\n0,b,b\n",
    "two decimals": b"label,p0,p1,p2\n2,.33,.33,.35\n1,.34,.33,.32\n0,.98,0.0,0.01\n2,0,0,1\n",
    "semicolons": b"\xef\xbb\xbfLabel;Prediction\r\na,1;a,1\r\nb;a,1\r\na,1;a,1\r\nb;b\r\n",
    "decimal commas": b"label;p0;p1\n0;0,9;0,1\n1;7,5e-1;0,25\n0;1;0\n1;0;1\n",
    "tabs": b"y_true\ty_pred\na\ta\nb\ta\na\ta\nb\tb\n",
    "tabs, and a comma": b"target\tprob_b,c\tprob_a\na\t.1\t.9\nb,c\t.3\t.7\na\t0\t1\nb,c\t1\t0\n",
    "other names": b"Gold,pred\na,a\nb,a\na,a\nb,b\n",
    "names of classes": b"target,prob_b,prob_a\na,.1,.9\nb,.3,.7\na,0,1\nb,1,0\n",
    "one probability": b"label,score\n0,.1\n1,.3\n0,.2\n1,.8\n",
    "one probability of a class": b"label,p_b\na,.1\nb,.3\na,.2\nb,.8\n",
    "whole numbers with points": b"label,prediction\n0.0,0\n10.0,0\n0.0,0\n10.0,10\n",
    "JSON lines": b"\n".join(RECORDS),
    "lines in JSON": b"\n".join(RECORDS),
    "JSON records": b"[" + b",".join(RECORDS) + b"]",
    "UTF-16": "label;prediction\nä;ä\nb;ä\nä;ä\nb;b\n".encode("utf-16"),
    "gzip": gzip.compress(b"label,prediction\n0,0\n1,0\n0,0\n1,1\n"),
    "lines in gzip": gzip.compress(b"\n".join(RECORDS)),
    "a column a model": b"label,pred_x,pred_y\na,a,b\nb,a,b\na,a,b\nb,b,b\n",
    "two columns of a name": b"label,pred_x,y_pred_x\na,a,b\nb,a,b\na,a,b\nb,b,b\n",
}
OTHERS = {
    "tabs": ".tsv",
    "tabs, and a comma": ".tsv",
    "JSON lines": ".jsonl",
    "lines in JSON": ".json",
    "JSON records": ".json",
    "lines in gzip": ".jsonl.gz",
}
"""Endings of files that are no .csv."""


@every_case("why", READ)
def test_tables_as_others_write_them_are_read(why, tmp_path):
    path = tmp_path / f"answers{OTHERS.get(why, '.csv')}"
    path.write_bytes(READ[why])
    report = _report(path, "--ask", "error")
    row, *others = report["details"]["statements"]
    assert (row["measured"], row["n"]) == (0.25, 4)
    models = {"a column a model": ["y"], "two columns of a name": ["y_pred_x"]}
    assert [one["of"] for one in others] == models.get(why, [])
    said = " ".join(report["details"]["remarks"])
    assert [f"{one} as " in said for one in ("pred_x", "y_pred_x")] == {
        "a column a model": [True, False], "two columns of a name": [True, True]
    }.get(why, [False, False])  # fmt: skip
    assert ("the first column has no name and numbers the rows" in said) == (why in ("pandas", "R", "a shuffled index"))
    assert [word in said for word in ("gzip", "UTF-16")] == [word in why for word in ("gzip", "UTF-16")]


IGNORED = {
    "a quote that nothing closes": ('"One\nTwo\n"Three\nFour', "cannot be read as csv"),
    "a comma too many": ("One\nTwo,\nThree\nFour", "cannot be read as csv"),
    "quotes around rows": ('"One\nTwo\nThree"\nFour', "4 lines are 2 rows, since quotes hold line breaks"),
    "quotes within": ('"One ""1"""\nTwo\n"a, b"\nFour', ""),
}


@every_case("why", IGNORED)
def test_a_column_to_ignore_hides_no_rows_unsaid(why, tmp_path, refused):
    texts, said = IGNORED[why]
    path = tmp_path / "answers.csv"
    path.write_text("label,prediction,text\n0,0," + texts.replace("\n", "\n1,1,") + "\n")
    if "cannot" in said:
        assert said in refused("certify", "--predictions", path, "--ignore", "text")
        return
    remarks = " ".join(_report(path, "--ignore", "text")["details"]["remarks"])
    assert said in remarks
    assert ("line breaks" in remarks) == bool(said)
    assert "columns were left out: text; if one says whose an example is" in remarks


def test_decimals_of_databases_are_the_numbers_that_they_are(tmp_path):
    whole = {"label": LABELS[:40], "prediction": SAID[:40], "person": 2**53 + np.arange(40) // 2}
    path = tmp_path / "answers.parquet"
    frame = pl.DataFrame({name: [*map(Decimal, one.tolist())] for name, one in whole.items()})
    frame.write_parquet(path)
    found = read_table(path)
    assert all((found.named[name] == one).all() for name, one in whole.items())
    quarters = [Decimal(one) / 4 for one in LABELS[:40].tolist()]
    pl.DataFrame({"label": quarters, "prediction": quarters}).write_parquet(path)
    with refusal("must have whole numbers or text in column 'label'"):
        read_table(path)
    assert (read_table(path, real=True).named["label"] == LABELS[:40] / 4).all()


@parametrize("name", ["a[1]", "a*", "label=1/a"])
def test_a_name_with_marks_of_a_pattern_is_that_of_one_file(name, tmp_path):
    for other in ("a1", "ab", name):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        _write(tmp_path / f"{other}.parquet", {"label": LABELS[: len(other)], "prediction": LABELS[: len(other)]})
    assert read_table(tmp_path / f"{name}.parquet").rows == len(name)


def test_what_is_asked_adds_up(tmp_path):
    rows = _report(_write(tmp_path / "answers.csv", COLUMNS), "--ask", "recall", "--ask", "precision")
    assert {"recall", "precision"} <= {row["quantity"].split()[0] for row in rows["details"]["statements"]}


@parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_the_type_of_a_column_of_losses_chooses_its_bound_and_text_has_none(suffix, tmp_path):
    report = _report(_write(tmp_path / f"answers{suffix}", {"loss": (LABELS == SAID).astype(int)}))
    (made,) = report["certificates"]
    assert made["name"].endswith("betting" if suffix == ".csv" else "clopper_pearson")


def test_the_report_follows_and_makes_a_page_that_escapes_names(tmp_path):
    names = np.array(["<script>", "b&b", "c"])
    columns = {"label": names[LABELS], "prediction": names[SAID], "group": GROUPS}
    report = _report(_write(tmp_path / "answers.csv", columns), "--interval")
    data, told = (one for one in check_report(report) if one.verdict != "follows")
    assert (data.claim, told.claim) == ("the data", "what is told beside")
    assert pacdp("verify", tmp_path) == 3
    succeed("report", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "largest gap between groups" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


NAMED = ["sensitivity", "specificity", "balanced accuracy", "positive predictive value", "negative predictive value"]


def test_the_positive_class_of_two_adds_numbers_with_names_everywhere(tmp_path, capsys, refused):
    columns = {"label": LABELS % 2, "prediction": SAID % 2}
    path = _write(tmp_path / "answers.csv", columns)
    report = _report(path, "--positive", "1", "--interval")
    found = library.certify_predictions(*columns.values(), interval=True, positive=1)
    details = report["details"]
    assert (details["positive"], details["named"]) == ("1", found.to_dict()["details"]["named"])
    succeed("report", tmp_path)
    for text in (capsys.readouterr().out, (tmp_path / "report.html").read_text(), str(found)):
        assert all(name in text for name in ("sensitivity", "negative predictive value", "F1", "balanced accuracy"))
    assert not denied(report)
    edits = [("details/positive", "0"), ("details/named/0",), ("details/named/4/n", 1)]
    edits += [(f"details/named/{k}/{end}", 0.9791) for k in range(6) for end in ("measured", "lower", "upper")]
    for edit in edits:
        assert denied(changed(report, *edit)), edit
    assert "must be one of 0, 1, got 'ill'" in refused("certify", "--predictions", path, "--positive", "ill")
    for ask, names in {"recall": NAMED[:3], "precision": NAMED[3:5]}.items():
        report = _report(path, "--positive", "1", "--ask", ask)
        assert [row["quantity"] for row in report["details"]["named"]] == names
        assert not denied(report)
    assert found.statement("F1") == found.named(1)[4]
    few = {"label": LABELS[:3]} | {f"p{k}": SOFT[:3, k] for k in range(3)}
    succeed("certify", "--predictions", _write(tmp_path / "few.csv", few), "--classes", "0", "1", "2")
    (said,) = (line for line in capsys.readouterr().out.split("\n") if "calibration error (ECE)" in line)
    assert said.startswith("nothing can be said at this confidence, from so few, of ")


def test_an_area_and_its_records_cannot_be_changed_without_notice():
    soft = np.column_stack([1 - SOFT[:, 0], SOFT[:, 0]])
    report = library.certify_predictions(
        (LABELS == 0).astype(int), probabilities=soft, ask="auc", interval=True
    ).to_dict()
    assert not denied(report)
    last = len(report["certificates"]) - 1
    (row,) = [place for place, one in enumerate(report["details"]["statements"]) if one["quantity"] == "AUC"]
    edits = [(f"certificates/{last}/{name}", 0.99) for name in ("value", "inputs/risk", "failure_prob")]
    edits += [(f"details/statements/{row}/{name}", 0.9) for name in ("lower", "upper", "measured")]
    for edit in [*edits, (f"certificates/{last}/inputs/n", 600), (f"details/statements/{row}/n", 600)]:
        assert denied(changed(report, *edit)), edit


def test_neither_ledger_nor_counts_of_a_report_can_be_changed_without_notice():
    answers = {"a": SAID, "b": LABELS[::-1]}
    asked = ["recall", "groups", "leaderboard"]
    report = library.certify_predictions(LABELS, answers, groups=GROUPS, ask=asked, interval=True).to_dict()
    pair = next(place for place, made in enumerate(report["certificates"]) if made["name"].endswith("paired"))
    assert not denied(report)
    entries, last = "details/budget/entries", len(report["details"]["budget"]["entries"]) - 1
    edits = {
        "a smaller total": ("failure_prob", 0.04),
        "a larger entry": (f"{entries}/0/1", 0.03),
        "a smaller entry": (f"{entries}/0/1", 0.02),
        "another ledger": ("details/budget/total", 0.06),
        "an entry of nothing": (f"{entries}/{last}",),
        "fewer errors": ("certificates/0/inputs/k", report["certificates"][0]["inputs"]["k"] - 1),
        "fewer examples": ("n", len(LABELS) - 1),
        "a measured error": ("measured/0/errors", 1),
        "fewer pairs": (f"certificates/{pair}/inputs/more", report["certificates"][pair]["inputs"]["more"] - 1),
        "a sharper pair": (f"certificates/{pair}/value", report["certificates"][pair]["value"] - 1e-4),
        "a looser pair": (f"certificates/{pair}/value", report["certificates"][pair]["value"] + 1e-3),
        "a better rank": ("details/leaderboard/1/best", 1),
        "a tie that is none": ("details/leaderboard/1/tied", ["a"]),
    }
    for why, edit in edits.items():
        assert denied(changed(report, *edit)), why
