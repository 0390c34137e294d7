"""Files of predictions, whatever is in them: a report that holds together, or one sentence, and never anything else."""

import subprocess
import zipfile

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacdp.cli.predicting.logs import read_logs
from pacdp.cli.predicting.pairing import examples_of
from pacdp.cli.predicting.tables import read_table
from pacdp.cli.terminal import word
from pacdp.predictions.certify import certified
from pacdp.verify.claim import DOES_NOT
from pacdp.verify.report import check_report
from tests.hostile import contents
from tests.marks import every_case, parametrize, slow

ODD = ["", "a", "b", "0.5", "0.25", "1.0", "nan", "inf", "None", '"x,y"', "ü"]
CELL = st.one_of(st.integers(-1, 3).map(str), st.sampled_from(ODD), st.text(max_size=3))
COLUMN = st.sampled_from("label prediction p0 p1 group person model id loss weight age".split())
FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _outcome(path):
    """What reading and certifying says; anything but a report or a sentence raises."""
    try:
        read = read_logs if path.suffix in (".jsonl", ".eval") else read_table
        given = examples_of(path, read(path))
        found = certified(given, failure_prob=0.05, interval=True)
    except ValueError as error:
        return "refused" if str(error) and "\n" not in str(error) else f"no sentence: {error}"
    assert not [one for one in check_report(found.to_dict()) if one.verdict == DOES_NOT]
    for row in found.statements:
        assert row.lower is None or row.lower <= row.measured + 1e-12
        assert row.upper is None or row.measured - 1e-12 <= row.upper
    return "certified"


@FEW
@given(columns=st.lists(COLUMN, min_size=1, max_size=5), data=st.data())
def test_any_table_is_certified_or_refused(columns, data, tmp_path):
    rows = data.draw(st.lists(st.lists(CELL, min_size=len(columns), max_size=len(columns)), max_size=6))
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(",".join(row) for row in (columns, *rows)), encoding="utf-8", newline="")
    assert _outcome(path) in ("certified", "refused")


@every_case("name", ["label", "x y", "l\nbel", "a'b\t\\n", "$HOME"])
def test_names_are_words_of_a_command_line_in_one_line(name):
    assert "\n" not in word(name)
    assert subprocess.check_output(["bash", "-c", f"printf %s {word(name)}"], text=True) == name


def _answers(path):
    labels = np.arange(8) % 2
    np.savez(path, label=labels, prediction=labels[::-1])
    return path.read_bytes()


@FEW
@given(data=st.data())
def test_a_damaged_file_is_certified_or_refused(data, tmp_path):
    suffix = data.draw(st.sampled_from([".csv", ".parquet", ".jsonl"]))
    path = tmp_path / f"answers{suffix}"
    labels = np.arange(8) % 2
    if suffix == ".jsonl":
        path.write_text("".join(f'{{"doc_id": {k}, "metrics": ["acc"], "acc": {k % 2}}}\n' for k in range(8)))
    else:
        frame = pl.DataFrame({"label": labels, "p0": np.full(8, 0.25), "p1": np.full(8, 0.75)})
        frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    path.write_bytes(data.draw(contents(path.read_bytes())))
    assert _outcome(path) in ("certified", "refused")


def _log(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr("header.json", '{"eval": {"model": "m", "task": "t"}}')
        for k in range(3):
            stored.writestr(f"samples/{k}.json", f'{{"id": {k}, "scores": {{"match": {{"value": {k % 2}}}}}}}')
    return path.read_bytes()


@parametrize("every", [5, slow(1)])
@parametrize("flip", [1, 8, 0x23, 64, 255])
@parametrize(("name", "write"), [("answers.npz", _answers), ("log.eval", _log)])
def test_no_byte_of_a_zip_leads_astray(name, write, flip, every, tmp_path):
    """Flags of a member say how it is packed, or encrypted; any of them may be what is damaged."""
    path = tmp_path / name
    content = write(path)
    assert _outcome(path) == "certified"
    found = []
    for place in range(0, len(content), every):
        path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
        found.append(_outcome(path))
    assert set(found) == {"certified", "refused"}
