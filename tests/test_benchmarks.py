"""How benchmarks measure, and that the documentation says what was measured."""

import json
import math
import re
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import cold_start, gpu, pages, timing, workload
from benchmarks.timing import Times, in_turn


def test_tables_on_pages_are_those_of_the_results():
    texts = [(pages.ROOT / name).read_text(encoding="utf-8") for name in pages.PAGES]
    for text in texts:
        emptied = re.sub(r"(<!-- benchmarks.*?-->\n).*?(<!-- end -->)", r"\1\2", text, flags=re.DOTALL)
        assert emptied != text == pages.written(text) == pages.written(emptied), "run python -m benchmarks.pages"
    assert all(sum(text.count(f"<!-- benchmarks.{name} -->") for text in texts) == 1 for name in pages.TABLES)


def test_results_say_where_they_come_from():
    for path in timing.RESULTS.glob("*.json"):
        made = json.loads(path.read_text(encoding="utf-8"))
        assert {"commit", "dirty", "device", "time"} <= set(made["provenance"]), path.name
        assert "results" in made
        assert '"synthetic' not in str(made)


def test_candidates_take_turns_and_the_first_round_does_not_count():
    seen = []
    times = in_turn({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, rounds=3)
    assert seen == ["a", "b"] * 4
    assert [len(seconds) for own in times.values() for seconds in own] == [3] * 4
    found = Times((4.0, 1.0, 2.0, 3.0, 5.0), (0.5, 0.7)).table(10.0)
    assert found == {"least": 10.0, "quartile": 15.0, "median": 30.0, "upper quartile": 45.0,
                     "least of the processor": 5.0}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("fc(100)", 26), ("conv", 32)])
def test_a_first_use_compiles_few_functions_and_a_second_one_none(name, most, tmp_path):
    """What a cold start costs is about a quarter of a second a function; nothing depends on the clock here."""
    cold = cold_start.start(name, tmp_path, synthetic=True)
    warm = cold_start.start(name, tmp_path, synthetic=True)
    assert 5 < cold["compiled"] <= most
    assert warm["compiled"] == 0


def test_a_round_is_steps_of_all_chains_and_each_the_same():
    """The one definition of a step: a gradient on a minibatch and an update, as often as asked, of every chain."""
    risk = workload.objective("fc(100)", workload.data(synthetic=True))
    asked, estimate = [], risk.estimate

    def counted(weights, keys, tick, **options):
        asked.append((tuple(weights.shape), int(tick)))
        return estimate(weights, keys, tick, **options)

    object.__setattr__(risk, "estimate", counted)
    run = workload.chain_steps(risk, chains=3, steps=4)
    run()
    run()
    assert len(asked) == 8
    assert asked[:4] == asked[4:]
    assert {shape[0] for shape, _ in asked} == {3}
    assert all(math.prod(shape) == 3 * risk.dim for shape, _ in asked)


def test_a_gpu_is_timed_with_the_bits_that_the_command_keeps(monkeypatch):
    before, seen = torch.backends.cudnn.allow_tf32, []
    monkeypatch.setattr(sys, "argv", ["gpu", "--dry-run"])
    monkeypatch.setattr(gpu, "parts", lambda sizes: seen.append(torch.backends.cudnn.allow_tf32) or {})
    monkeypatch.setattr(gpu, "publish", lambda *args, **options: None)
    torch.backends.cudnn.allow_tf32 = True
    try:
        gpu.main()
    finally:
        torch.backends.cudnn.allow_tf32 = before
    assert seen == [False]


def test_what_a_gpu_is_to_be_timed_by_runs_without_one():
    """The whole command of ``make bench-gpu``, at a size that says nothing of speed."""
    found = gpu.parts(replace(gpu.DRY, networks=("fc(100)",), examples=40, chains=(2,)))
    assert {name for name in found if "seconds" not in name} == {
        "chains", "update", "Monte Carlo", "private steps", "differences from the CPU",
    }  # fmt: skip
    assert len(found["chains"]) == len(gpu.METHODS)
    assert all(row["chain-steps a second"] > 0 for row in found["chains"].values())
    assert set(found["differences from the CPU"]["fc(100)"].values()) == {0.0}
    assert {name.split(", ")[1] for name in found["private steps"]} == {"hooks", "ghost"}
