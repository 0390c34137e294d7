"""An open claim names the run that would settle it and what that costs, in every committed verdict."""

from dataclasses import replace

import polars as pl
import pytest

from experiments.claims import Claim, judging, point
from experiments.registry import studies, study
from experiments.runner import RESULTS, SCALES, read_table

OPEN = Claim("It is so.", None, "1 against 1")


def _committed():
    for name in studies():
        for scale in SCALES:
            if (RESULTS / name / scale / "table.csv").is_file():
                yield name, scale


@pytest.mark.parametrize(("name", "scale"), list(_committed()))
def test_every_open_claim_names_the_run_that_would_settle_it_and_its_cost(name, scale):
    claims = study(name).judge(read_table(RESULTS / name / scale), scale).claims
    assert [claim.sentence for claim in claims if claim.holds is None and not _names_a_cost(claim.settled_by)] == []


def _names_a_cost(told: str) -> bool:
    return any(unit in told for unit in ("second", "minute", "hours")) and (
        "cores" in told or "GPU" in told or "H100" in told
    )


def _judge(*claims: Claim, told: str = ""):
    made = judging(claims=lambda table, scale: claims, notes=lambda table, scale: (),
                   settled_by=lambda table, scale, claim: f"{claim.settled_by}{told}")  # fmt: skip
    return made(pl.DataFrame(), "cpu")


def test_the_study_is_asked_for_open_claims_alone_and_hears_what_they_say_themselves():
    own, decided = replace(OPEN, settled_by="8 seeds"), replace(OPEN, holds=False)
    found = _judge(OPEN, own, decided, told=", 3 minutes of two cores").claims
    assert [claim.settled_by for claim in found] == [", 3 minutes of two cores", "8 seeds, 3 minutes of two cores", ""]


def test_only_open_claims_are_written_with_what_would_settle_them():
    decided = replace(OPEN, holds=True, settled_by="nothing is left to settle")
    kept, dropped, silent = _judge(replace(OPEN, settled_by="8 seeds"), decided, OPEN).to_dict()["claims"]
    assert kept["settled_by"] == "8 seeds"
    assert "settled_by" not in dropped
    assert "settled_by" not in silent


def test_a_point_is_settled_by_what_settles_its_open_claims_each_once():
    told = [replace(OPEN, settled_by=by) for by in ("8 seeds", "8 seeds", "a GPU")]
    assert point([*told, replace(OPEN, holds=True, settled_by="x")], "so", "said").settled_by == "8 seeds; a GPU"
    assert point(told, "so", "said", settled_by="its own").settled_by == "its own"
