"""A study of small jobs: squares of seeds, one of which cannot be computed but in smoke runs."""

from dataclasses import replace

from small_jobs import job

from experiments.claims import Below, Printed, Sentence, cell, exact
from experiments.headlines import Headline
from experiments.study import Erratum, Section, Study
from pacdp.cli.figures import style

MOON = cell("moon")


def _jobs(smoke, seed):
    ways = ("ends",) * 3 if smoke else ("ends", "raises", "ends")
    return [job(seed + k, way, together=k == 2) for k, way in enumerate(ways)]


def _rows(done):
    value = done.result["value"]
    yield {**done.tags, "value": value / 3, "small": value < 2, "never": None, "name": f"<{value}|x>"}


def _draw(table):
    drawn, grid = style.figure(1, 1)
    grid[0][0].plot(table["seed"], table["value"])
    return drawn


def top(table):
    """The largest value."""
    return None if table.is_empty() else exact(table["value"].max())


def _least(table):
    return None if table.is_empty() else exact(table["value"].min())


def _sentence(key, printed, holds, **evidence):
    return Sentence(answers=(key,), place="1", printed=printed, ours="The largest value is {top}.", holds=holds,
                    evidence={"top": top, **evidence}, why="Seeds were ours.")  # fmt: skip


STUDY = Study(
    name="tiny", title="Squares of seeds", paper="Nobody (1900), Table 1", jobs=_jobs, rows=_rows,
    figures={"figure": _draw},
    sentences=(
        _sentence("N1", "There are values.", Below(0.0, top)),
        _sentence("N2", "All values are above 1.", Below(1.0, _least)),
        _sentence("N3", "The moon | is made of <b>cheese</b>.", Below(MOON, 1.0), moon=MOON),
    ),
    numbers=(
        Printed(answers=("N4",), place="Table 1", what="the largest | of them", numbers={"value": (3.25, top)},
                why="other\nseeds <b>"),
        Printed(place="Table 1", what="the moon", numbers={"value": (None, MOON), "weight": (7, top)}),
    ),
)  # fmt: skip
TWIN = replace(STUDY, name="twin")
SECTION = Section(
    title="Squares (Nobody 1900)", about="What squares are.", studies=(STUDY,),
    beside={"tiny": (_sentence("N5", "Squares grow.", Below(_least, top)),)},
    figure=("tiny", "figure", "Squares by seed."),
    errata=(Erratum(answers=("N6",), place="Nobody, 2", said="A square is no circle."),),
    not_run=(Erratum(answers=("N7",), place="Nobody, 3", said="Cubes were not computed."),),
)  # fmt: skip
HEADLINES = (
    Headline(what="How large?", printed="3.25 (Nobody)", said="At most {top:up}.", evidence={"top": ("tiny", top)}),
)
TEN = (Headline(said="Squares reach {top}.", evidence={"top": ("tiny", top)}),)
