"""A study of small jobs: squares of seeds, one of which cannot be computed at the scale cpu."""

from dataclasses import replace

import polars as pl
from small_jobs import job

from experiments.claims import Claim, Comparison, Verdict
from experiments.study import Study
from pacdp.cli.figures import style
from pacdp.cli.folder import Folder, read_json


def _jobs(scale, seed):
    ways = {"smoke": ("ends",) * 3, "cpu": ("ends", "raises", "ends"), "paper": ("raises",)}[scale]
    return [job(seed + k, way, together=k == 2) for k, way in enumerate(ways)]


def _table(jobs, folder):
    rows = []
    for one in jobs:
        own = Folder(folder / one.key)
        if own.finished:
            value = read_json(own.result)["value"]
            rows.append({**one.tags, "value": value / 3, "small": value < 2, "never": None, "name": f"<{value}|x>"})
    return pl.DataFrame(rows, infer_schema_length=None)


def _draw(table, out):
    drawn, grid = style.figure(1, 1)
    grid[0][0].plot(table["seed"], table["value"])
    return style.save(drawn, out / "figure")


def _judge(table, scale):
    top = table["value"].max()
    return Verdict(
        comparisons=(Comparison(what="the largest | of them", paper=3.25, ours=top, why="other\nseeds <b>"),
                     Comparison(what="the moon", paper=None, ours=None)),
        claims=(Claim(sentence="There are values.", holds=table.height > 0, evidence=f"{table.height} rows"),
                Claim(sentence="All values are above 1.", holds=bool((table["value"] > 1).all()), evidence="the table"),
                Claim(sentence="The moon is made of cheese.", holds=None, evidence="no moon",
                      settled_by="a flight | of 3 days <b>")),
        notes=(f"Made for tests at {scale}.",),
    )  # fmt: skip


STUDY = Study(name="tiny", title="Squares of seeds", paper="Nobody (1900), Table 1", jobs=_jobs, table=_table,
              draw=_draw, judge=_judge)  # fmt: skip
TWIN = replace(STUDY, name="twin")
