"""P3SGD as printed: its divisor and choice by hand, and a study whose sentences can fail."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from experiments.costs import of_seconds
from experiments.figures import p3sgd_printed as figures
from experiments.papers.p3sgd_printed import STUDY
from experiments.papers.p3sgd_settled import MILDER, OTHERS
from experiments.papers.runs.p3sgd_printed import Comparing, PrintedP3SGD, WatchedP3SGD, sides
from experiments.runner import RESULTS, read_table
from pacdp.loop import train
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

PEOPLE = torch.arange(40) // 4
X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def run(kind, **changes):
    mechanism = Mechanism(clip_norm=0.5, sample_rate=0.5, expected_batch_size=5.0, steps=1)
    settings = kind(**{"mechanism": mechanism, "noise_scales": (1e-6,), "learning_rate": 1.0, "score_bound": 3.0,
                       "local_batch_size": None, "selection_epsilon": 0.3, **changes})  # fmt: skip
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    start = module.weight.detach().clone()
    loss = nn.CrossEntropyLoss(reduction="none")
    made = train(settings, module, TensorDataset(X, Y), people=PEOPLE, loss=loss, randomness=SeededRandomness(3))
    return settings, made.weights["weight"] - start


def test_the_printed_divisor_is_the_size_of_the_sample_and_not_its_expectation():
    (_, printed), (_, corrected) = run(PrintedP3SGD), run(WatchedP3SGD)
    sampled = len(SeededRandomness(3).batch(10, 0.5))
    assert sampled != 5
    torch.testing.assert_close(printed * sampled, corrected * 5.0, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("nats", [1e-12, 0.3, 8.0])
def test_the_printed_choice_weighs_losses_by_half_of_epsilon_over_their_bound(nats):
    settings, _ = run(PrintedP3SGD, noise_scales=(3.0, 1.0), selection_epsilon=nats)
    (seen,) = settings.seen
    assert 0.5 <= seen.better_probability <= 1.0 / (1.0 + math.exp(-nats / 2.0)) + 1e-9
    if nats > 1.0:
        assert seen.better_probability > 0.501
    assert settings.choice is None, "the accountant is asked for nothing that it could charge"


def test_people_of_a_seed_are_on_one_side_only_and_differ_between_seeds():
    config = Comparing(people=10, each=3, public_people=4)
    found = {seed: sides(replace(config, seed=seed), None) for seed in (0, 1)}
    (one, public), (other, same) = found[0], found[1]
    assert torch.equal(public[0], same[0]), "the public people are nobody's secret and every seed's"
    assert one.people.unique().numel() == 10
    assert int(one.people.bincount().max()) <= 3
    assert not torch.equal(one.people.unique(), other.people.unique())
    rows = {tuple(row.tolist()) for row in one.inputs.flatten(1)}
    assert not rows & {tuple(row.tolist()) for row in one.test_inputs.flatten(1)}
    assert not rows & {tuple(row.tolist()) for row in public[0].flatten(1)}


def planted(
    changes: Mapping[str, tuple[float, ...]] | None = None,
    *,
    majority: float = 50.0,
    start: float = 60.0,
    seeds: int = 4,
) -> pl.DataFrame:
    """Gap, testing accuracy and train, test and best test loss by strategy, by seed."""
    usual: dict[str, tuple[float, ...]] = {
             "SGD": (10.0, 80.0, 0.1, 0.9, 0.5), "SGD+Dropout": (8.0, 81.0), "P3SGD, printed": (1.0, 70.0, 0.5, 0.6),
             "P3SGD, corrected": (1.0, 75.0, 0.5, 0.6), "P3SGD, coin": (1.0, 70.0),
             "start": (0.0, start)}  # fmt: skip
    rows = []
    for seed in range(seeds):
        for name, (gap, test, *losses) in (usual | dict(changes or {})).items():
            two = name.startswith("P3SGD")
            train_loss, test_loss, best = (*losses, *(0.5, 0.5, 0.5)[len(losses) :])
            rows.append({"problem": "lungs", "strategy": name, "seed": seed, "gap": gap + 0.1 * seed,
                         "test_accuracy": test + 0.2 * seed, "train_accuracy": gap + test,
                         "majority": (majority + 0.1 * seed) / 100.0, "train_loss": train_loss,
                         "test_loss": test_loss + 0.001 * seed, "best_test_loss": best,
                         "noise_scales": "{3, 1}" if two else None, "better_probability": 0.5 if two else None,
                         "seconds": 30.0, "parameters": 100, "quieter_taken": 0.5 if two else None,
                         "standing": None, "step": None,
                         "epsilon": None, "delta": None, "epsilon_lower": None, "contradicted": None})  # fmt: skip
        for step, accuracy in ((0, 90.0), (100, 20.0 + seed)):
            rows.append({**dict.fromkeys(rows[0]), "problem": "mnist", "strategy": "noise alone", "seed": seed,
                         "noise_scales": "{3}", "step": step, "test_accuracy": accuracy})  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def claimed(table: pl.DataFrame, words: str):
    (claim,) = [one for one in STUDY.judge(table, "cpu").claims if words in one.sentence]
    return claim


def held(table: pl.DataFrame, words: str):
    return claimed(table, words).holds


@pytest.mark.parametrize(
    ("words", "changes", "usual"),
    [
        ("SGD overfits, by a gap", {"SGD": (1.0, 80.0)}, True),
        ("SGD overfits, its test loss", {"SGD": (10.0, 80.0, 0.1, 0.54, 0.5)}, True),
        ("printed has a test loss", {"P3SGD, printed": (1.0, 70.0, 0.1, 0.6)}, True),
        ("as printed has a gap", {"P3SGD, printed": (9.0, 70.0)}, True),
        ("printed is more accurate", {"P3SGD, printed": (1.0, 90.0)}, False),
        ("corrected outperforms", {"P3SGD, corrected": (1.0, 90.0)}, False),
        ("is worth 1 point", {"P3SGD, printed": (1.0, 75.0)}, False),
    ],
)
def test_sentences_turn_with_what_they_speak_of(words, changes, usual):
    assert held(planted(), words) is usual
    assert held(planted(changes), words) is (not usual)


def test_a_lead_of_less_than_a_point_is_no_lead_and_noise_that_destroys_is_told():
    assert held(planted({"P3SGD, corrected": (1.0, 81.5)}), "corrected outperforms") is False
    assert held(planted(), "A trained network keeps its accuracy") is False


GUESSING = {"P3SGD, printed": (1.0, 50.1, 0.69, 0.69)}


def test_a_gap_that_is_small_since_the_network_guesses_is_open_and_a_wide_one_fails():
    for words in ("as printed has a gap", "as printed has a test loss"):
        assert held(planted(), words) is True
        claim = claimed(planted(GUESSING, majority=50.5), words)
        assert claim.holds is None
        assert "P3SGD, printed 50.40 %, the most frequent class alone 50.65 %" in claim.evidence
        assert "its start 60.30 %" in claim.evidence
        assert "worse" in claim.evidence
        assert "P3SGD, printed is not better than guessing by two standard errors" in claim.evidence
        wide = {"P3SGD, printed": (9.0, 50.1, 0.1, 0.9)}
        assert held(planted(wide, majority=50.5), words) is False, "what fails, fails whatever was learnt"
    assert held(planted(seeds=1), "as printed has a gap") is None, "one pair of runs does not say that it learns"


def test_the_first_page_says_what_guessing_and_the_start_have():
    points = STUDY.judge(planted(GUESSING, majority=50.5), "cpu").points
    (point,) = [one for one in points if "narrows SGD's gap" in one.said]
    assert point.holds is None
    assert "the most frequent class alone 50.65 %" in point.said
    assert "its start 60.30 %" in point.said


def test_a_rival_that_guesses_is_no_rival():
    ruined = {"SGD+Dropout": (8.0, 49.0)}
    assert held(planted(ruined), "corrected outperforms") is None
    assert held(planted(ruined, majority=40.0), "corrected outperforms") is True


def test_dropblock_is_asked_for_the_point_that_its_siblings_are_asked_for():
    for lead, holds in ((0.9, False), (1.1, True)):
        table = planted({"SGD+DropBlock": (8.0, 81.0 + lead)})
        assert held(table, "DropBlock gains 1 point or more") is holds
    notes = STUDY.judge(planted({"SGD+DropBlock": (8.0, 81.9)}), "cpu").notes
    (told,) = [note for note in notes if "fixed after a first look" in note]
    assert 'Dropout (Table 3: 2.75 points)" would hold' in told, "the other margin is computed"


def test_an_open_claim_of_the_committed_table_has_the_cost_of_all_its_seeds():
    table = read_table(RESULTS / STUDY.name / "cpu")
    alone = table.filter(pl.col("problem") != MILDER)
    (block,) = [one for one in STUDY.judge(alone, "cpu").claims if one.sentence.startswith(f"{OTHERS}: DropBlock")]
    assert block.holds is None, "Dropout is as good as guessing"
    assert block.settled_by.startswith("more patients, quieter noise or less dropout")
    taken = alone.filter(pl.col("problem") == OTHERS).unique("seed")["seconds"].sum()
    assert block.settled_by.endswith(f"of 200 seeds {of_seconds(taken)}")


def of_problem(table: pl.DataFrame, problem: str) -> pl.DataFrame:
    return table.with_columns(pl.col("problem").replace("lungs", problem))


@pytest.mark.parametrize(("gap", "said"), [(1.0, "holds there"), (9.0, "does not hold there")])
def test_what_guessing_left_open_is_sent_to_the_milder_settings_where_they_decide(gap, said):
    open_there = of_problem(planted(GUESSING, majority=50.5), OTHERS)
    milder = of_problem(planted({"P3SGD, printed": (gap, 70.0, 0.5, 0.6)}), MILDER)
    words = f"{OTHERS}: P3SGD as printed has a gap"
    claim = claimed(pl.concat([open_there, milder]), words)
    assert claim.holds is None
    assert claim.settled_by.startswith(f"\"{MILDER}: P3SGD as printed has a gap of less than half of SGD's")
    assert said in claim.settled_by
    assert claim.settled_by.endswith(f"by runs of {of_seconds(4 * 30.0)}")
    guessing = of_problem(planted(GUESSING, majority=50.5), MILDER)
    assert claimed(pl.concat([open_there, guessing]), words).settled_by.startswith("more patients, quieter noise")


def test_the_figure_has_the_mean_share_of_the_most_frequent_class_and_the_spread_of_the_runs():
    axes = figures.draw(planted(majority=50.0)).axes[0]
    (line,) = [one for one in axes.lines if str(one.get_label()).startswith("most frequent class")]
    assert np.asarray(line.get_xdata()).tolist() == pytest.approx([50.15, 50.15])
    legend = axes.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert "test, two standard deviations of 4 runs" in labels
