"""`pacdp privacy`: numbers, files, refusals, and a start without torch."""

import json

import pytest
from cli_tools import succeed

from bounds.accounting import (
    Gaussian,
    PoissonSampled,
    SelfComposed,
    best_true_positive_rate,
    privacy_epsilon,
    sampled_gaussians,
)

PUBLIC = ("--delta", "1e-5", "--adjacency", "add-remove")
HEADLINE = ("privacy", "--noise-multiplier", "1.1", "--sample-rate", "0.004266666666666667", "--steps", "3516", *PUBLIC)
ONE = PoissonSampled(sample_rate=256 / 60000, event=Gaussian(noise_multiplier=1.1))


def answered(capsys, *arguments):
    succeed(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_the_numbers_are_the_accountant_s(capsys):
    event = SelfComposed(event=ONE, count=3516)
    made = answered(capsys, *HEADLINE)
    expected = privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove")
    assert {name: made[name] for name in expected.to_dict()} == expected.to_dict()
    assert made["format"] == "pacdp-privacy/1"
    assert (made["steps"], made["runs"], made["scale"]) == (3516, [[1.1, 3516]], None)
    rate = best_true_positive_rate(event=event, adjacency="add-remove", false_positive_rate=0.01)
    assert made["attack"] == {"false_positive_rate": 0.01, "true_positive_rate": rate}
    assert 0.01 < rate < 0.03


def test_people_read_numbers_rounded_to_the_safe_side(capsys):
    made = answered(capsys, *HEADLINE)
    succeed(*HEADLINE)
    said = capsys.readouterr().out
    shown = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.startswith("  ")}
    assert float(shown["upper"]) >= made["upper"] == pytest.approx(1.13388, abs=2e-5)
    assert float(shown["lower"]) <= made["lower"]
    assert shown["status"] == "accounted"
    assert f"epsilon <= {shown['upper']} at delta 1e-05, add-remove neighbours" in said
    assert "3516 steps" in said
    assert "at 1% false positives" in said


def test_a_target_gives_the_noise_multiplier(capsys):
    arguments = ("privacy", "--sample-rate", "0.01", "--steps", "500", *PUBLIC)
    made = answered(capsys, *arguments, "--epsilon", "1")
    assert 0.995 < made["upper"] <= 1.0
    ((noise, count),) = made["runs"]
    assert (noise, count) == (made["scale"], 500)
    assert answered(capsys, *arguments, "--noise-multiplier", noise)["upper"] == made["upper"]
    succeed(*arguments, "--epsilon", "1")
    assert capsys.readouterr().out.splitlines()[0] == f"noise multiplier {noise!r}"


@pytest.mark.parametrize(
    ("name", "text"),
    [("s.json", "[0.8, 0.9, 0.9, 1.5]"), ("s.csv", "0.8\n0.9\n\n0.9\n1.5\n"),
     ("s.csv", "\ufeffstep, noise_multiplier\n0, 0.8\n1, 0.9\n2, 0.9\n3, 1.5\n")],
)  # fmt: skip
def test_schedules_from_files(name, text, tmp_path, capsys):
    (tmp_path / name).write_text(text, encoding="utf-8")
    arguments = ("privacy", "--schedule", tmp_path / name, "--sample-rate", "0.1", *PUBLIC)
    made = answered(capsys, *arguments)
    event = sampled_gaussians(sample_rate=0.1, noise_multipliers=[0.8, 0.9, 0.9, 1.5])
    assert made["upper"] == privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove").upper
    assert made["runs"] == [[0.8, 1], [0.9, 2], [1.5, 1]]
    scaled = answered(capsys, *arguments, "--epsilon", "0.5")
    assert scaled["upper"] <= 0.5
    assert scaled["runs"] == [[noise * scaled["scale"], count] for noise, count in made["runs"]]
    succeed(*arguments, "--epsilon", "0.5")
    assert capsys.readouterr().out.startswith(f"factor {scaled['scale']!r} on every noise multiplier")


def test_no_protection_is_an_infinite_epsilon(capsys):
    made = answered(capsys, *HEADLINE, "--noise-multiplier", "0.01")
    assert (made["upper"], made["attack"]["true_positive_rate"]) == (None, 1.0)
    succeed(*HEADLINE, "--noise-multiplier", "0.01")
    assert "epsilon <= infinite" in capsys.readouterr().out


BASE = {"--noise-multiplier": "1", "--sample-rate": "0.1", "--steps": "3", "--delta": "1e-5",
        "--adjacency": "add-remove"}  # fmt: skip


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("changes", "words"),
    [({"--noise-multiplier": "0"}, "--noise-multiplier"), ({"--noise-multiplier": None}, "--epsilon"),
     ({"--epsilon": "1"}, "--noise-multiplier"), ({"--steps": None}, "--schedule"), ({"--delta": "1"}, "delta"),
     ({"--sample-rate": "1.5"}, "sample_rate"),
     ({"--noise-multiplier": None, "--steps": None, "--schedule": "nowhere.json"}, "nowhere.json")],
)  # fmt: skip
def test_bad_input_gets_one_sentence(changes, words, refused):
    given = {**BASE, **changes}
    parts = (part for name, value in given.items() if value is not None for part in (name, value))
    assert words in refused("privacy", *parts)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("a.json", b"[1.0, NaN]", "step 2"), ("a.json", b"[]", "no noise multiplier"), ("a.json", b"{}", "JSON list"),
     ("a.json", b"[" * 100_000, "no JSON"), ("a.csv", b"1.0\nx\n", "step 2"),
     ("a.csv", b"1.0,2.0\n", "several columns")],
)  # fmt: skip
def test_bad_schedules_get_one_sentence(name, content, words, tmp_path, refused):
    (tmp_path / name).write_bytes(content)
    said = refused("privacy", "--schedule", tmp_path / name, "--sample-rate", "0.1", *PUBLIC)
    assert words in said
    assert name in said
