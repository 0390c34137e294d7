"""What the calibration frontier leaves open is asked of seeds that chose nothing, and can be answered either way."""

import polars as pl
import pytest

from experiments.papers.calibration_cells import Cells
from experiments.papers.calibration_frontier import COLUMNS, FRONTIER
from experiments.papers.calibration_pairs import PAIRS
from experiments.papers.runs.frontier_plans import BENCHES, BEST_CLIP, TOO_LONG, TWO_CLIPS, TwoClips
from experiments.runner import RESULTS, read_table
from experiments.tables import part
from pacdp.cli.config import Runtime

LUNGS, DIGITS = "X-rays by patient", "MNIST"
ALONE, BEYOND = f"{LUNGS}: the clip norm alone", f"{DIGITS}: noise before clipping"


def frontier(bench: str) -> Cells:
    """A bench of the frontier's committed table."""
    (own,) = [one for one in BENCHES["cpu"] if one.name == bench]
    return Cells(part(read_table(RESULTS / FRONTIER.name / "cpu"), bench=bench), own)


@pytest.mark.parametrize("bench", TWO_CLIPS["cpu"])
def test_two_clip_norms_are_those_that_all_seeds_of_the_frontier_choose(bench: str) -> None:
    pair = frontier(bench).clip_pair(all_choose=True)
    assert pair is not None
    one, other, _ = pair
    seeds = TWO_CLIPS["cpu"][bench].seeds
    assert TWO_CLIPS["cpu"][bench] == TwoClips(one["clip_norm"], other["clip_norm"], one["reach"], one["steps"], seeds)


@pytest.mark.parametrize("bench", BEST_CLIP["cpu"])
def test_long_noise_is_compared_with_the_clip_norm_that_all_seeds_of_the_frontier_choose(bench: str) -> None:
    cells = frontier(bench)
    best = min(cells.bench.clips, key=lambda clip: cells.mean("ece", cells.at(clip)))
    assert BEST_CLIP["cpu"][bench].clip == best


def test_all_that_the_frontier_leaves_open_is_asked_here_and_named_there() -> None:
    verdict = FRONTIER.judge(read_table(RESULTS / FRONTIER.name / "cpu"), "cpu")
    waiting = {claim.sentence: claim.settled_by for claim in verdict.claims if claim.holds is None}
    asked = {claim.sentence for claim in PAIRS.judge(pl.DataFrame(schema=COLUMNS), "cpu").claims}
    assert asked == set(waiting)
    assert all(told.startswith("private-calibration-pairs asks it of ") for told in waiting.values())


@pytest.mark.parametrize("scale", ["smoke", "cpu"])
def test_no_seed_judges_that_chose(scale) -> None:
    jobs = PAIRS.jobs(scale, 2)
    theirs = FRONTIER.jobs(scale, 2)
    assert len({job.key for job in jobs}) == len(jobs)
    assert not {job.config.seed for job in jobs} & {job.config.seed for job in theirs}
    assert not {job.key for job in jobs} & {job.key for job in theirs}
    assert {job.config.method for job in jobs} == {"DP-SGD", "DP-SGLD"}


def planted(*, clip: float = 1.0, noise: float = 1.0, drift: float = 0.0) -> pl.DataFrame:
    """Errors of 0.1, at clip norm 10 of the X-rays ``clip`` times as large and with long noise ``noise`` times;
    accuracies of 0.9, there lower by ``drift``."""
    rows = []
    for job in PAIRS.jobs("smoke", 0):
        tags = job.tags
        far = tags["bench"] == LUNGS and tags["clip_norm"] == 10.0
        value = 0.1 * (clip if far else 1.0) * (noise if tags["pre_noise"] == TOO_LONG else 1.0)
        value *= 1.0 + 1e-3 * (tags["seed"] % 3)
        rows.append({**tags, "averaged": False, "ece": value, "accuracy": 0.9 - (drift if far else 0.0)})
    return pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], schema=COLUMNS)


@pytest.mark.parametrize(
    ("words", "changes", "holds"),
    [
        (ALONE, {"clip": 0.5}, True),
        (ALONE, {"clip": 0.9}, False),
        (ALONE, {"clip": 2.0}, False),  # the settings are chosen, and which of them errs more with them
        (ALONE, {"clip": 0.5, "drift": 0.05}, None),
        (BEYOND, {"noise": 0.5}, True),
        (BEYOND, {"noise": 0.95}, False),
    ],
)
def test_each_sentence_turns_with_its_own_pair(words: str, changes: dict[str, float], holds: bool | None) -> None:
    (claim,) = [one for one in PAIRS.judge(planted(**changes), "smoke").claims if one.sentence.startswith(words)]
    assert claim.holds is holds
    two = planted(**changes).filter(pl.col("seed") < 1002)
    (few,) = [one for one in PAIRS.judge(two, "smoke").claims if one.sentence.startswith(words)]
    assert few.holds is None, "two pairs decide nothing"


def test_the_first_page_tells_the_two_clip_norms() -> None:
    (said,) = PAIRS.judge(planted(clip=0.5), "smoke").points
    assert said.holds is True
    assert "2.0-fold by the 3 seeds that did not choose them" in said.said


def test_tables_and_figures_are_made_of_runs(tmp_path) -> None:
    jobs = PAIRS.jobs("smoke", 0)
    for job in jobs[:4]:
        assert job.kind.carry_out([job.config], [tmp_path / job.key], Runtime(threads=1)) == [None]
    table = PAIRS.table(jobs, tmp_path)
    assert table.filter(averaged=False).height == 4
    for some in (table, planted(), table.clear()):
        assert all(path.stat().st_size > 2000 for path in PAIRS.draw(some, tmp_path))
