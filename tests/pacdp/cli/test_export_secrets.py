"""What `pacdp export` wrote depends on the data by what is counted alone, and none of its numbers can be changed."""

import re
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import torch
from cli_tools import exported_bytes, read, succeed, verdicts
from report_pages import changed, write
from tiny_runs import RUNTIME, counted_run, leave, tiny_private

from pacdp import load_checkpoint
from pacdp.certify import reading
from pacdp.cli.console import private
from pacdp.cli.private.algorithms import Public, network, noise
from pacdp.cli.private.certify import released
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.serial import from_dict
from pacdp.random.grid import GRID_LOG2
from pacdp.store.ledger import Ledger
from tests.edits import leaves, moved


def sizes_given_away(out):
    """Numbers of records at which the distance to the first weights lies on the grid that the noise is drawn on."""
    config = from_dict(PrivateConfig, read(out / "settings.json")["run"])
    first = network(config, Public(input_shape=(1, 8, 8), classes=10, size=0.0), device="cpu").state_dict()
    last = load_checkpoint(out / "weights.safetensors").model
    moved_by = torch.cat([(last[name].double() - first[name].double()).flatten() for name in last]).numpy()
    grid = 2.0 ** (np.frexp(noise(config)(0) * config.sampling.clip_norm)[1] - 1 - GRID_LOG2)
    sizes, unit = (np.arange(1300, 1600), config.method.learning_rate * grid / config.sampling.sample_rate)
    periodic = np.abs(np.exp(2j * np.pi * moved_by * sizes[:, None] / unit).mean(axis=1))
    return sizes[periodic > 0.5].tolist()


def test_weights_give_away_the_size_that_sums_are_divided_by_and_what_is_printed_says_so(exported, tmp_path):
    assert sizes_given_away(exported / "out") == [1437]
    report, settings = (read(exported / "out" / name) for name in ("certificates.json", "settings.json"))
    details, own = report["details"], read(exported / "run" / "result.json")["privacy"]
    epsilons = (details["spent"], details["counts"]["with_the_run"], own)
    header = load_checkpoint(exported / "out" / "weights.safetensors").header
    assert {one["adjacency"] for one in (*epsilons, header)} == {"replace-one"}
    assert "is public" in settings["remarks"][0]
    config = tiny_private("dp-sgd-mnist")
    declared = replace(config, sampling=replace(config.sampling, public_size=1500.0))
    report = leave(counted_run(declared, tmp_path), tmp_path / "out")
    assert sizes_given_away(tmp_path / "out") == [1500]
    assert report["details"]["spent"]["adjacency"] == "add-remove"
    assert not read(tmp_path / "out" / "settings.json")["remarks"]
    printed = [" ".join(private(read(root / "run" / "result.json"))) for root in (exported, tmp_path)]
    assert ["a number for your eyes alone" in one for one in printed] == [False, True]
    assert verdicts(tmp_path / "out") == verdicts(tmp_path / "run") == {"follows"}


def words(folder):
    """All text in a folder: JSON, and the headers of safetensors."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            end = 8 + int.from_bytes(content[:8], "little") if path.suffix == ".safetensors" else len(content)
            found.append(content[:end].decode(errors="replace"))
    return "\n".join(found)


def secrets(root):
    """What the data, the private folder and the ledger know and nobody else may: patterns by name."""
    one, result = released(root / "run", RUNTIME), read(root / "run" / "result.json")
    header, rows, test = one.checkpoint.header, one.bound.rows, result["test"]
    seen = reading.Reading(law=one.predictor).seen(one.bound, "the", held=False)
    texts = {
        "training data": header["about"]["data"]["train"],
        "test data": header["about"]["data"]["test"],
        "rows in a report": rows.digest,
        "checkpoint": one.checkpoint.content_hash,
        "ledger": Ledger.load(root / "ledger").id,
        "receipt": header["ledger"]["receipt"]["hash"],
        "run": header["ledger"]["run"],
        "when": read(root / "run" / "provenance.json")["time"],
        "the last row": result["rests_on"]["metrics"],
        **{f"row {i}": f"{int(each):016x}" for i, each in enumerate(rows.examples[:20])},
        **{f"row {i} in decimals": str(int(each)) for i, each in enumerate(rows.inputs[:20])},
    }
    numbers = {
        "n": one.bound.n,
        "n of the test set": one.data.test.n,
        "errors": seen.errors,
        "error rate": seen.error,
        "test accuracy": test["accuracy"],
        "test loss": test["nll_nats"],
        "batch size": header["public"]["expected_batch_size"],
        "seconds": result["seconds"],
    }
    alone = {name: rf"(?<![\d.]){re.escape(repr(number))}(?![\d.])" for name, number in numbers.items()}
    return {name: re.escape(str(text)) for name, text in texts.items()} | alone


def found_in(folder, patterns):
    text = words(folder)
    return {name for name, pattern in patterns.items() if re.search(pattern, text)}


def test_nothing_that_depends_on_the_data_is_in_it_but_what_is_counted(exported):
    bound = released(exported / "run", RUNTIME).bound
    assert found_in(exported / "out", secrets(exported)) == set()
    content = b"".join(path.read_bytes() for path in (exported / "out").iterdir())
    assert not any(int(each).to_bytes(8, "little") in content for each in bound.rows.examples[:200])
    assert not any(row.numpy().tobytes() in content for row in bound.inputs)


def test_that_search_finds_each_of_these_where_it_is(exported, tmp_path):
    made = Path(copytree(exported, tmp_path / "made"))
    succeed("certify", made / "run", "--threads", "1")
    patterns, rows = secrets(made), released(made / "run", RUNTIME).bound.rows
    assert {name for name in patterns if not name.startswith("row ")} <= found_in(made, patterns)
    write(made / "out" / "settings.json", [f"{int(each):016x}" for each in rows.examples[:20]])
    assert {f"row {i}" for i in range(20)} <= found_in(made / "out", patterns)


def test_other_counts_behind_the_same_numbers_leave_the_same_folder(exported, tmp_path, monkeypatch):
    """The data enter through what was released alone: with other errors beneath it, every byte is the same."""
    made, whole = Path(copytree(exported, tmp_path / "made")), reading.Reading.judged

    def all_wrong(*arguments, **more):
        found = whole(*arguments, **more)["bound"]
        answers = replace(found.answers, predicted=np.full_like(found.answers.predicted, -1))
        return {"bound": replace(found, models={found.of: answers})}

    monkeypatch.setattr(reading.Reading, "judged", all_wrong)
    leave(made / "run", made / "again")
    assert exported_bytes(made / "again") == exported_bytes(made / "out")


def test_no_number_of_what_left_changes_without_notice(exported, tmp_path):
    out, missed = Path(copytree(exported / "out", tmp_path / "out")), set()
    report = read(out / "certificates.json")
    cost = ("details", "counts", "with_the_run", "epsilon")  # of which more may be said than was spent
    for place in (*leaves(report, ("provenance", "choices", "spent", "with_the_run")), cost):
        for factor in (0.9,) if place == cost else (0.9, 1.1):
            write(out / "certificates.json", moved(report, place, factor))
            if "does not follow" not in verdicts(out):
                missed.add((place, factor))
    assert missed == set()
    event = {"event": "Gaussian", "noise_multiplier": 1.0}
    write(out / "certificates.json", changed(report, "privacy/event", event))
    assert "does not follow" in verdicts(out)
