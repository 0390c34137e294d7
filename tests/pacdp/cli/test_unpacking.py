"""Files that hold far more than their size says, or one thing twice: a sentence, within little memory."""

import gzip
import io
import warnings
import zipfile

import numpy as np
import polars as pl

from pacdp.cli.predicting.logs import read_logs
from pacdp.cli.predicting.tables import read_table
from pacdp.data.unpacking import read_npz
from tests.hostile import limited
from tests.marks import every_case, refusal

HEADER = '{"eval": {"model": "m", "task": "t"}}'
SAMPLE = '{{"id": {}, "scores": {{"match": {{"value": 1}}}}}}'
CSV = b"label,prediction\n" + b"0,0\n" * 2**24
LABELS = '"label": 1, '
RECORD = f'{{{LABELS}"prediction": 0}}'
TWICE = '{"doc_id": 1, "acc": 0, "acc": 1}'


def written(write):
    """The bytes that are written to a file."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def packed(*members):
    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that stands twice
            for name, content in members:
                archive.writestr(name, content)

    return written(write)


def log(*samples):
    return packed(("header.json", HEADER), *samples)


def array(value):
    return written(lambda file: np.save(file, np.array([value])))


def parquet(**columns):
    return written(pl.DataFrame(columns).write_parquet)


FILES = {
    "a sample that unpacks": ("a.eval", read_logs,
        lambda: log(("samples/1.json", SAMPLE.format(1) + " " * 2**27)),
        r"would unpack to 1342\d+ bytes"),
    "a sample twice": ("a.eval", read_logs,
        lambda: log(*(("samples/1.json", SAMPLE.format(k)) for k in (1, 2))),
        "a.eval holds 'samples/1.json' twice"),
    "an array under two names": ("a.npz", read_npz, lambda: packed(("label.npy", array(1)), ("label", array(2))),
        "a.npz holds 'label' twice"),
    "gzip": ("a.csv", read_table, lambda: gzip.compress(CSV), "a.csv would unpack to"),
    "a constant table": ("a.parquet", read_table,
        lambda: parquet(**dict.fromkeys(("label", "prediction"), pl.zeros(2**26, pl.Int8, eager=True))),
        "a.parquet would unpack to"),
    "long names": ("a.parquet", read_table,
        lambda: parquet(label=[0, 1] * 4000, prediction=[0] * 8000, group=[f"{k:010000}" for k in range(8000)]),
        "a.parquet would unpack to 80000000 bytes"),
    "a score twice": ("samples_t.jsonl", read_logs, TWICE.encode, "line 1 .*'acc' stands twice"),
    "a sample's score twice": ("a.eval", read_logs, lambda: log(("samples/1.json", TWICE)),
        "a.eval .*samples/1.json .*'acc' stands twice"),
    "a label twice": ("a.jsonl", read_table, (RECORD + "\n" + RECORD.replace(LABELS, LABELS * 2)).encode,
        "line 2 .*'label' stands twice"),
    "a label twice in a list": ("a.json", read_table, f"[{RECORD.replace(LABELS, LABELS * 2)}]".encode,
        "no JSON .key 'label' stands twice"),
}  # fmt: skip


@every_case("what", FILES)
def test_a_file_that_holds_too_much_or_one_thing_twice_is_a_sentence(what, tmp_path):
    name, read, content, words = FILES[what]
    path = tmp_path / name
    path.write_bytes(content())
    with refusal(words) as refused, limited():
        read(path)
    assert "\n" not in str(refused.value)


def test_files_that_hold_much_for_their_size_are_read(tmp_path):
    rows = 2_000_000
    (tmp_path / "a.parquet").write_bytes(parquet(label=[0, 1] * (rows // 2), prediction=[0] * rows))
    assert read_table(tmp_path / "a.parquet").rows == rows
    samples = [(f"samples/{k}.json", SAMPLE.format(k) + " " * 2**20) for k in range(9)]
    (tmp_path / "a.eval").write_bytes(log(*samples))
    assert read_logs(tmp_path / "a.eval").rows == 9
