"""Running the command in this process or another, and runs small enough for tests."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from subprocess import PIPE

from safetensors import safe_open

from pacdp import load_checkpoint, save_checkpoint
from pacdp.cli.main import main
from pacdp.verify.report import check_path
from tests.edits import seen

QUICK = tuple((
    "--epochs 2 --records 2 --track.epochs 1 --track.prior-draws 2 --track.test-draws 2 --certify.epochs "
    "1 --certify.prior-draws 2 --certify.test-draws 2 --threads 1"
).split())  # fmt: skip
"""Options that make any recipe on digits2 a matter of a tenth of a second."""

RUN_FILES = {"config.json", "provenance.json", "metrics.jsonl", "checkpoint.safetensors", "result.json"}


def pacdp(*arguments):
    """Exit status of the command, run in this process."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def succeed(*arguments):
    """The command, which must succeed, in this process."""
    assert pacdp(*arguments) == 0, arguments


def start(*arguments):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pacdp.cli", *map(str, arguments)],
        stdout=PIPE, stderr=PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def read(path):
    """A JSON file."""
    return json.loads(path.read_text())


def rows(folder):
    """The rows of metrics.jsonl but for the time they took and what follows from it."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in ("seconds", "hash")} for row in found]


def tensors(folder):
    """Every tensor of the checkpoint, as bytes: weights, state and generator."""
    with safe_open(folder / "checkpoint.safetensors", framework="np") as file:
        return {name: file.get_tensor(name).tobytes() for name in file.keys()}


def forge(folder, **header):
    """Change fields of the checkpoint's header, and make its hash anew."""
    found = load_checkpoint(folder)
    save_checkpoint(folder / "checkpoint.safetensors", replace(found, header={**found.header, **header}))


def verdicts(path):
    """What the verifier says of the statements of a folder or report that files can show."""
    return seen(check_path(path))


def standings(report, name):
    """How this hypothesis stands on the certificates of a report that need it."""
    return {one["standing"] for made in report["certificates"] for one in made["hypotheses"] if one["name"] == name}


def exported_bytes(out):
    """What an export wrote, but for the commit that wrote it."""
    report = {**read(out / "certificates.json"), "provenance": None}
    others = [(out / name).read_bytes() for name in ("settings.json", "weights.safetensors")]
    return [json.dumps(report).encode(), *others]


def one_sentence(text):
    """The one line on standard error that an error leaves, without a traceback."""
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith(("pacdp: ", "pacdp verify: ")), text
    return lines[0]
