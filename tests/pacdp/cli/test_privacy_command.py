"""`pacdp privacy`: numbers, files, refusals, and a start without torch."""

from bounds.accounting import (
    Gaussian,
    PoissonSampled,
    SelfComposed,
    best_true_positive_rate,
    privacy_epsilon,
    sampled_gaussians,
)
from tests.marks import every_case, near, parametrize

PUBLIC = ("--delta", "1e-5", "--adjacency", "add-remove")
HEADLINE = ("privacy", "--noise-multiplier", "1.1", "--sample-rate", "0.004266666666666667", "--steps", "3516", *PUBLIC)
ONE = PoissonSampled(sample_rate=256 / 60000, event=Gaussian(noise_multiplier=1.1))


def test_the_numbers_are_the_accountant_s(said):
    event = SelfComposed(event=ONE, count=3516)
    made = said(*HEADLINE, "--json")
    expected = privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove")
    assert {name: made[name] for name in expected.to_dict()} == expected.to_dict()
    assert made["format"] == "pacdp-privacy/1"
    assert (made["steps"], made["runs"], made["scale"]) == (3516, [[1.1, 3516]], None)
    rate = best_true_positive_rate(event=event, adjacency="add-remove", false_positive_rate=0.01)
    assert made["attack"] == {"false_positive_rate": 0.01, "true_positive_rate": rate}
    assert 0.01 < rate < 0.03


def test_people_read_numbers_rounded_to_the_safe_side(said):
    made, text = said(*HEADLINE, "--json"), said(*HEADLINE)
    shown = dict(line.split()[:2] for line in text.splitlines() if line.startswith("  "))
    assert float(shown["upper"]) >= made["upper"] == near(1.13388, abs=2e-5)
    assert float(shown["lower"]) <= made["lower"]
    assert shown["status"] == "accounted"
    assert f"epsilon <= {shown['upper']} at delta 1e-05, add-remove neighbours" in text
    assert "3516 steps" in text
    assert "at 1% false positives" in text


def test_a_target_gives_the_noise_multiplier(said):
    arguments = ("privacy", "--sample-rate", "0.01", "--steps", "500", *PUBLIC)
    made = said(*arguments, "--epsilon", "1", "--json")
    assert 0.995 < made["upper"] <= 1.0
    ((noise, count),) = made["runs"]
    assert (noise, count) == (made["scale"], 500)
    assert said(*arguments, "--noise-multiplier", noise, "--json")["upper"] == made["upper"]
    assert said(*arguments, "--epsilon", "1").splitlines()[0] == f"noise multiplier {noise!r}"


@parametrize(("name", "text"), [("s.json", "[0.8, 0.9, 0.9, 1.5]"), ("s.csv", "\ufeff0.8\n0.9\n\n0.9\n1.5")])
def test_schedules_from_files(name, text, tmp_path, said):
    (tmp_path / name).write_text(text, encoding="utf-8")
    arguments = ("privacy", "--schedule", tmp_path / name, "--sample-rate", "0.1", *PUBLIC)
    made = said(*arguments, "--json")
    event = sampled_gaussians(sample_rate=0.1, noise_multipliers=[0.8, 0.9, 0.9, 1.5])
    assert made["upper"] == privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove").upper
    assert made["runs"] == [[0.8, 1], [0.9, 2], [1.5, 1]]
    scaled = said(*arguments, "--epsilon", "0.5", "--json")
    assert scaled["upper"] <= 0.5
    assert scaled["runs"] == [[noise * scaled["scale"], count] for noise, count in made["runs"]]


def test_no_protection_is_an_infinite_epsilon(said):
    little = (*HEADLINE, "--noise-multiplier", "0.01")
    made = said(*little, "--json")
    assert (made["upper"], made["attack"]["true_positive_rate"]) == (None, 1.0)
    assert "epsilon <= ∞" in said(*little)


BASE = {"--noise-multiplier": "1", "--sample-rate": "0.1", "--steps": "3", "--delta": "1e-5",
        "--adjacency": "add-remove"}  # fmt: skip


@every_case(
    ("changes", "words"),
    [({"--noise-multiplier": "0"}, "--noise-multiplier"), ({"--noise-multiplier": None}, "--epsilon"),
     ({"--epsilon": "1"}, "--noise-multiplier"), ({"--steps": None}, "--schedule"), ({"--delta": "1"}, "delta"),
     ({"--noise-multiplier": None, "--steps": None, "--schedule": "nowhere.json"}, "nowhere.json")],
)  # fmt: skip
def test_bad_input_gets_one_sentence(changes, words, refused):
    given = {**BASE, **changes}
    parts = (part for name, value in given.items() if value is not None for part in (name, value))
    assert words in refused("privacy", *parts)


@every_case(
    ("name", "content", "words"),
    [("a.json", b"[1.0, NaN]", "step 2"), ("a.json", b"{}", "JSON list"), ("a.csv", b"noise\n1.0\n", "step 1")],
)  # fmt: skip
def test_bad_schedules_get_one_sentence(name, content, words, tmp_path, refused):
    (tmp_path / name).write_bytes(content)
    said = refused("privacy", "--schedule", tmp_path / name, "--sample-rate", "0.1", *PUBLIC)
    assert words in said
    assert name in said
