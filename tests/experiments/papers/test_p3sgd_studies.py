"""The P3SGD studies: jobs at every scale, a smoke run end to end, verdicts that planted tables can turn."""

import numpy as np
import polars as pl
import pytest

from experiments.figures import p3sgd as figures
from experiments.papers.p3sgd import PAPER_SETTINGS, RUN, SETS, TABLE_1, TABLE_2
from experiments.papers.p3sgd_figures import CURVE, FIGURE_2, FIGURE_3, INVERSION
from experiments.papers.p3sgd_problems import DROPBLOCK, DROPOUT, FIRST_WEIGHTS, PRIVATE, SGD, problems, scale_name
from experiments.papers.runs import p3sgd_runs as training
from experiments.papers.runs.p3sgd import Network, Plain, Training
from experiments.papers.runs.p3sgd_runs import TRAINING
from pacdp.cli.config import Runtime
from pacdp.cli.private.data import examples
from pacdp.cli.serial import from_dict, to_dict

RUNTIME = Runtime(threads=1)
STUDIES = (TABLE_1, TABLE_2, FIGURE_2, FIGURE_3)


def tabled(rows, schema) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Every study's jobs at smoke, each configuration once, and their tables."""
    root = tmp_path_factory.mktemp("p3sgd")
    tables = {}
    for study in STUDIES:
        jobs = study.jobs("smoke", 0)
        for job in jobs:
            if not (root / job.key).exists():
                assert job.kind.carry_out([job.config], [root / job.key], RUNTIME) == [None]
        tables[study.name] = study.table(jobs, root)
    return tables


@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_jobs_have_keys_of_their_own_and_configurations_that_come_back(study, scale):
    jobs = study.jobs(scale, 3)
    assert jobs
    assert len({job.key for job in jobs}) == len(jobs)
    assert len({job.key for job in (*jobs, *study.jobs(scale, 17))}) > len(jobs)
    for job in jobs:
        assert from_dict(type(job.config), to_dict(job.config)) == job.config


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_smoke_run_makes_table_figure_and_verdict(study, ran, tmp_path):
    table = ran[study.name]
    assert table.height
    paths = study.draw(table, tmp_path)
    assert all(path.stat().st_size > 1000 for path in paths)
    table.write_csv(tmp_path / "table.csv")
    verdict = study.judge(table, "smoke")
    assert verdict.claims
    assert not any("missing" in claim.evidence for claim in verdict.claims)
    assert all(comparison.ours is not None for comparison in verdict.comparisons)
    assert any("made-up" in note for note in verdict.notes)
    assert any("not public" in note for note in study.judge(table, "cpu").notes)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_without_results_nothing_is_claimed(study, tmp_path):
    table = study.table(study.jobs("smoke", 0), tmp_path)
    assert table.height == 0
    assert all(claim.holds is None for claim in study.judge(table, "smoke").claims)
    assert study.draw(table, tmp_path)


def test_tables_say_what_ran(ran):
    table = ran["p3sgd-table-1"]
    assert table.filter(pl.col("strategy") == PRIVATE)["epsilon"].null_count() == 0
    assert table.filter(pl.col("strategy") != PRIVATE)["epsilon"].null_count() == table.height - 2
    assert (table["gap"] - (table["train_accuracy"] - table["test_accuracy"])).abs().max() < 1e-9
    assert not table["halted"].fill_null(False).any()
    assert set(table["people"]) == {120}
    # the curve of a run begins with the same first weights for every strategy, and ends where the run does
    curve = ran["p3sgd-figure-2"].filter(pl.col("epochs") == 0.0)
    assert curve.group_by("problem").agg(pl.col("test_loss").n_unique())["test_loss"].to_list() == [1, 1]
    # all networks are asked about the same images
    attacks = ran["p3sgd-figure-3"].group_by("attack", "part", "reference", "example", "label")
    assert attacks.agg(pl.col("start_psnr").n_unique())["start_psnr"].max() == 1


def test_the_papers_accounting_gives_the_printed_numbers(ran):
    rows = ran["p3sgd-table-2"].filter(pl.col("problem") == PAPER_SETTINGS)
    found = dict(zip(rows["noise_scales"], rows["published_epsilon"], strict=True))
    for scales, (_, printed) in SETS.items():
        assert found[scale_name(scales)] == pytest.approx(printed, abs=0.035)


def test_problems_state_their_people():
    for problem in problems("smoke"):
        assert examples(problem.dataset, by_person=True).units == problem.people
    assert {p.people for p in problems("cpu")} == {p.people for p in problems("paper")}


def test_an_interrupted_private_run_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    job = next(job for job in FIGURE_2.jobs("smoke", 0) if job.tags["strategy"] == PRIVATE)
    assert TRAINING.carry_out([job.config], [tmp_path / "whole"], RUNTIME) == [None]
    score, calls = training.score, []

    def stop(*arguments):
        calls.append(1)
        if len(calls) == 8:
            raise OSError("cut")
        return score(*arguments)

    monkeypatch.setattr(training, "score", stop)
    assert isinstance(TRAINING.carry_out([job.config], [tmp_path / "cut"], RUNTIME)[0], OSError)
    assert TRAINING.carry_out([job.config], [tmp_path / "cut"], RUNTIME) == [None]
    tables = []
    for folder in ("whole", "cut"):
        (tmp_path / folder).rename(tmp_path / job.key)
        tables.append(FIGURE_2.table([job], tmp_path))
        (tmp_path / job.key).rename(tmp_path / folder)
    assert tables[0].height == 9
    assert tables[1].equals(tables[0])


def test_a_run_that_diverges_is_an_error_and_no_row(tmp_path):
    config = Training(network=Network(width=4), strategy=Plain(epochs=2, learning_rate=1e30))
    (error,) = TRAINING.carry_out([config], [tmp_path / "run"], RUNTIME)
    assert error is not None
    assert "not finite" in str(error) or "NaN" in str(error)


def repeated(table: pl.DataFrame, seeds: int = 3) -> pl.DataFrame:
    """The same rows for several seeds: pairs of runs then differ by what is planted, without spread."""
    return pl.concat([table.with_columns(seed=pl.lit(k, pl.Int64)) for k in range(seeds)])


def gaps(**numbers: tuple[float, float]) -> pl.DataFrame:
    names = {"sgd": SGD, "dropout": DROPOUT, "dropblock": DROPBLOCK, "p3sgd": PRIVATE}
    common = {"problem": "p", "seed": 0, "majority": 50.0, "n": 50_000, "n_test": 10_800}
    rows = [common | {"strategy": names[k], "train_accuracy": train, "test_accuracy": test, "gap": train - test}
            for k, (train, test) in numbers.items()]  # fmt: skip
    return tabled(rows, RUN)


def holds(study, table: pl.DataFrame) -> list[bool | None]:
    return [claim.holds for claim in study.judge(table, "cpu").claims]


def test_table_1_is_judged_by_its_numbers():
    printed = gaps(sgd=(99.85, 92.25), dropout=(99.63, 92.12), dropblock=(98.85, 94.87), p3sgd=(95.70, 95.23))
    assert holds(TABLE_1, repeated(printed)) == [True, True, True, False, True], "its lead over DropBlock is 0.36"
    assert any("0.36 points, is less" in note for note in TABLE_1.judge(printed, "cpu").notes)
    assert holds(TABLE_1, printed) == [None] * 5, "one pair of runs decides nothing"
    # a network that has learnt nothing has no gap, which answers nothing, and the notes say so
    useless = gaps(sgd=(99.0, 90.0), dropout=(99.0, 91.0), dropblock=(99.0, 90.5), p3sgd=(50.5, 50.0))
    assert holds(TABLE_1, repeated(useless)) == [None, None, False, False, False]
    assert any("learnt nothing" in note for note in TABLE_1.judge(useless, "cpu").notes)
    assert not any("learnt nothing" in note for note in TABLE_1.judge(printed, "cpu").notes)
    # where SGD has no gap there is none to close
    flat = gaps(sgd=(93.0, 94.0), dropout=(93.0, 94.0), p3sgd=(90.0, 92.0))
    assert holds(TABLE_1, repeated(flat)) == [None, None, False, False]
    assert any("little to regularise" in note for note in TABLE_1.judge(flat, "cpu").notes)


def test_the_spread_between_seeds_leaves_a_claim_open():
    one = gaps(sgd=(99.0, 92.0), dropout=(99.0, 91.0), p3sgd=(96.0, 95.0))
    other = gaps(sgd=(99.0, 98.9), dropout=(99.0, 98.0), p3sgd=(96.0, 88.1)).with_columns(seed=pl.lit(1, pl.Int64))
    assert holds(TABLE_1, repeated(one)) == [True, True, True, True]
    assert holds(TABLE_1, pl.concat([one, other])) == [None] * 4


def test_table_2_is_judged_by_its_numbers():
    def rows(problem, accuracy=None, sound=None, chosen=0.9):
        return [{"problem": problem, "strategy": PRIVATE, "seed": 0, "noise_scales": scale_name(scales),
                 "majority": 50.0, "n": 50_000, "n_test": 10_800,
                 "test_accuracy": accuracy and accuracy[k], "quietest_chosen": chosen, "steps": 100,
                 "epsilon": (sound or PRINTED)[k], "published_epsilon": PRINTED[k]}
                for k, scales in enumerate(SETS)]  # fmt: skip

    PRINTED = [SETS[scales][1] for scales in SETS]
    ours = [SETS[scales][0] for scales in SETS]
    as_printed = tabled(rows(PAPER_SETTINGS) + rows("p", ours), RUN)
    assert holds(TABLE_2, repeated(as_printed)) == [True] * 8
    assert holds(TABLE_2, as_printed)[4:7] == [None] * 3, "one pair of runs decides nothing"
    for share, follows in ((0.5, False), (0.42, None), (0.62, None), (0.2, True)):
        assert holds(TABLE_2, tabled(rows("p", ours, chosen=share), RUN))[-1] is follows
    dearer = tabled(rows(PAPER_SETTINGS, sound=[9.0, *PRINTED[1:]]), RUN)
    assert holds(TABLE_2, dearer) == [True, False, True, False]
    worse = tabled(rows("p", [90.0, *ours[1:]]), RUN)
    assert holds(TABLE_2, repeated(worse))[4:] == [False, True, False, True]


def test_figures_are_judged_by_their_numbers():
    def curve(strategy, losses):
        return [{"problem": "p", "strategy": strategy, "seed": 0, "epochs": float(k), "train_loss": train,
                 "test_loss": test, "test_error": 0.1 if k else 0.5}
                for k, (train, test) in enumerate(losses)]  # fmt: skip

    over = curve(SGD, [(0.7, 0.7), (0.3, 0.4), (0.0, 0.6)])
    good = curve(PRIVATE, [(0.7, 0.7), (0.4, 0.42), (0.3, 0.35)])
    bad = curve(PRIVATE, [(0.7, 0.7), (0.9, 1.3), (1.4, 1.5)])
    assert holds(FIGURE_2, repeated(tabled(over + good, CURVE))) == [True, True, True]
    assert holds(FIGURE_2, tabled(over + good, CURVE))[2] is None, "one run decides nothing"
    judged = FIGURE_2.judge(repeated(tabled(over + bad, CURVE)), "cpu")
    assert [claim.holds for claim in judged.claims] == [True, False, True]
    assert any("higher test loss" in note for note in judged.notes)
    flat = curve(SGD, [(0.7, 0.7), (0.3, 0.32), (0.29, 0.325)])
    assert holds(FIGURE_2, repeated(tabled(flat + good, CURVE))) == [None, None, False]
    seeds = tabled(over + good, CURVE), tabled(over + bad, CURVE).with_columns(seed=pl.lit(1, pl.Int64))
    assert holds(FIGURE_2, pl.concat(seeds))[1] is None, "one seed says yes, the other no"

    ruined = [{**row, "test_error": 0.52} for row in good]
    assert holds(FIGURE_2, repeated(tabled(over + ruined, CURVE))) == [None, None, True], "as an untrained network"

    def ratios(untrained, sgd, private, sgd_test, examples=3, accuracy=90.0, seeds=2):
        numbers = {FIRST_WEIGHTS: untrained, SGD: sgd, PRIVATE: private}
        common = {"problem": "p", "seed": 0, "start_psnr": 10.0, "test_accuracy": accuracy, "label": 0}
        rows = []
        for name, number, example in ((*pair, k) for pair in numbers.items() for k in range(examples)):
            test = sgd_test if name == SGD else number
            row = common | {"strategy": name, "attack": "features", "psnr": number, "example": example}
            rows += [row | {"part": "train"}, row | {"part": "test", "psnr": test},
                     row | {"attack": "class", "reference": "class mean"}]  # fmt: skip
        return repeated(tabled(rows, INVERSION), seeds)

    assert holds(FIGURE_3, ratios(15.0, 27.84, 27.82, 20.0)) == [True, True, True, False], (
        "classes less than 1 dB apart"
    )
    assert holds(FIGURE_3, ratios(15.0, 27.84, 26.0, 20.0)) == [True, True, True, True]
    guessing = holds(FIGURE_3, ratios(15.0, 27.84, 26.0, 20.0, accuracy=48.8))
    assert guessing == [None, True, True, None], "a network that guesses hides nothing that it learnt"
    assert holds(FIGURE_3, ratios(30.0, 20.0, 21.0, 20.0)) == [False, False, False, False]
    assert holds(FIGURE_3, ratios(30.0, 20.0, 20.0, 20.0))[0] is None, "no difference is none"
    assert holds(FIGURE_3, ratios(15.0, 27.84, 27.82, 20.0, examples=1, seeds=1)) == [None] * 4, (
        "one image decides nothing"
    )
    for number, fails in ((9.0, True), (11.0, False)):
        notes = FIGURE_3.judge(ratios(number, number, number, number), "cpu").notes
        assert any("the attack on classes fails" in note for note in notes) == fails


def test_a_lead_of_less_than_a_point_is_none_and_the_notes_say_what_it_would_be():
    close = gaps(sgd=(99.0, 92.0), dropout=(99.0, 94.5), dropblock=(99.0, 94.9), p3sgd=(96.0, 95.4))
    assert holds(TABLE_1, repeated(close)) == [True, True, True, False, False]
    (told,) = [note for note in TABLE_1.judge(repeated(close), "cpu").notes if "fixed after a first look" in note]
    assert told.count("would hold") == 2


def test_two_scales_that_only_guess_approach_nothing():
    rows = [{"problem": "p", "strategy": PRIVATE, "seed": 0, "noise_scales": scale_name(scales), "majority": 50.0,
             "test_accuracy": 50.0, "quietest_chosen": 0.5, "steps": 100} for scales in SETS]  # fmt: skip
    found = TABLE_2.judge(repeated(tabled(rows, RUN)), "cpu").claims
    (near,) = [claim for claim in found if "reach or approach" in claim.sentence]
    assert near.holds is None
    assert "open, since {3, 2} and {3, 1} and {2, 1} is not" in near.evidence
    better = [{**row, "test_accuracy": 60.0} for row in rows]
    found = TABLE_2.judge(repeated(tabled(better, RUN)), "cpu").claims
    assert [claim.holds for claim in found if "reach or approach" in claim.sentence] == [True]


def test_figures_show_differences_of_a_point_far_above_guessing_and_no_run_hides_another():
    table = repeated(gaps(sgd=(97.0, 96.0), dropout=(97.0, 95.0), p3sgd=(96.0, 94.0)))
    axes = figures.by_problem(table, figures.gaps, width=3.0).axes[0]
    assert axes.get_ylim()[0] > 90.0, "guessing, 50 %, is told and not drawn"
    assert "most frequent class, 50.00 %" in axes.get_title()
    drawn = [np.asarray(line.get_xdata()) for line in axes.lines]
    places = [round(float(x[0]), 6) for x in drawn if len(x) == 2]
    assert len(set(places)) == len(places) == 9
    guessing = gaps(sgd=(97.0, 96.0), dropout=(97.0, 95.0), p3sgd=(51.0, 50.0))
    axes = figures.by_problem(repeated(guessing), figures.gaps, width=3.0).axes[0]
    assert "dashed" in axes.get_title()
