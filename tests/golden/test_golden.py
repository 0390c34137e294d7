"""Public results are what they were at commit b1452c7, but for what ``INTENDED`` names."""

import pytest

from tests.golden.compare import differences, judged
from tests.golden.freeze import load
from tests.golden.intended import INTENDED, Intended
from tests.golden.sections import SECTIONS

FROZEN = load()

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


def test_every_section_is_frozen_and_every_intended_difference_has_one():
    assert FROZEN.keys() == SECTIONS.keys()
    for entry in INTENDED:
        assert entry.section in SECTIONS, entry
        assert entry.finding, entry
        assert entry.why.endswith("."), entry
        assert entry.may, entry


@pytest.mark.parametrize("name", SECTIONS)
def test_results_are_the_frozen_ones(name, one_thread):
    section = SECTIONS[name]
    made = differences(FROZEN[name], section.results(), rel=section.rel)
    unmeant, idle = judged(made, [entry for entry in INTENDED if entry.section == name])
    assert not unmeant, f"{len(unmeant)} differences that nobody meant:\n" + "\n".join(unmeant[:40])
    assert not idle, f"nothing differs in these ways any more: {idle}; take them out"


def test_every_way_of_differing_is_found():
    row = {"value": 0.5, "status": "rigorous", "nats": 3.0}
    frozen = {"a": 1.0, "b": [1.0, 2.0], "c": row, "d": "raises", "e": 2.0, "f": 3.0, "near": 1.0, "free": {"of": None}}
    found = {
        "a": 1.1, "b": [1.0, 1.9], "c": {"value": 0.5, "status": "optimistic", "nats": 4.0}, "d": 1.0, "e": "raises",
        "g": 5.0, "near": 1.0 + 1e-13, "free": {"of": "randomised"},
    }  # fmt: skip
    ways = {key: [way for way, _ in each] for key, each in differences(frozen, found, rel=1e-12).items()}
    assert ways == {"a": ["grows"], "b": ["falls"], "c": ["optimistic", "grows"], "d": ["accepted"], "e": ["refused"],
                    "f": ["gone"], "g": ["new"]}  # fmt: skip
    assert differences({"a": 1.0}, {"a": 1.0 + 1e-11}, rel=1e-12)
    assert differences({"a": {"name": "maurer"}}, {"a": {"name": "catoni"}}, rel=1e-12)


def test_a_listed_difference_passes_in_its_way_alone_and_an_idle_entry_is_told():
    entry = Intended(section="s", pattern="catoni*", finding="C0", why="It was too small.", may=("grows",))
    grown = {"catoni/1": [("grows", "1 -> 2")], "maurer/1": [("grows", "1 -> 2")]}
    unmeant, idle = judged(grown, [entry])
    assert [line.split(":")[0] for line in unmeant] == ["maurer/1"]
    assert not idle
    unmeant, idle = judged({"catoni/1": [("falls", "2 -> 1")]}, [entry])
    assert len(unmeant) == 1
    assert idle == [(entry, "grows")]
