"""`pacdp certify`: what its report says, and what it rests on."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from cli_tools import QUICK, read, standings, succeed

from pacdp import load_checkpoint, load_trained, save_checkpoint
from pacdp.certify.trained import records_of
from pacdp.errors import CheckpointError
from pacdp.verify.report import check_path, check_report
from tests.marks import at_most, every_case, near, refusal

pytestmark = pytest.mark.usefixtures("few_passes")


PRIVATE = ("--sampling.steps", "6", "--records", "3", "--budget.epsilon", "0.1", "--budget.delta", "1e-3")


@at_most(
    1,
    ("recipe", "short"),
    [("entropy-sgld-clipped-digits2", QUICK[:-2]), ("sgld-digits2", QUICK[:-2]), ("dp-sgd-mnist", PRIVATE)],
)
def test_settings_that_were_tried_are_paid_for_by_every_certificate(recipe, short, certify, tmp_path):
    succeed("train", recipe, "--out", tmp_path, *short, "--threads", 1)
    report = certify(tmp_path, "--tried", 2)
    assert all(made["failure_prob"] == near(0.05 / 2) for made in report["certificates"])
    assert report["choices"] == {"count": 2}
    assert standings(report, "settings fixed beforehand") == {"declared"}
    followed = {one.claim: one.verdict for one in check_path(tmp_path)}
    assert followed["report"] == "follows"


def test_a_link_to_a_checkpoint_stands_for_it_and_its_report_stays_with_its_run(exported, certify, tmp_path):
    """The report of a private run, which is not to be published, was written beside the link."""
    run, link = Path(copytree(exported / "run", tmp_path / "run")), tmp_path / "links" / "best.pt"
    link.parent.mkdir()
    link.symlink_to(run / "checkpoint.safetensors")
    (run / "certificates.json").unlink(missing_ok=True)
    report = certify(run)
    assert certify(link)["certificates"] == report["certificates"]
    assert [path.name for path in link.parent.iterdir()] == ["best.pt"]
    away = (run / "checkpoint.safetensors").rename(tmp_path / "store")  # and a run whose checkpoint is one
    (run / "checkpoint.safetensors").symlink_to(away)
    for path in (run, run / "checkpoint.safetensors"):
        assert certify(path)["certificates"] == report["certificates"]
    assert not (tmp_path / "certificates.json").exists()


@every_case("where", ("of a chain", "of a private run"))
def test_a_run_that_names_a_list_of_settings_is_refused_and_not_misread(where, copied, tmp_path):
    """Earlier versions wrote such lists; what a certificate has to pay for stands in them alone."""
    folder, record = copied("sgd"), {"digest": "0" * 64, "J": 3, "index": 0}
    one = load_checkpoint(folder)
    named = {"choices": record} if where == "of a chain" else {"about": {"choices": record}}
    save_checkpoint(folder / "checkpoint.safetensors", replace(one, header={**one.header, **named}))
    with refusal("names a list of settings that was closed before the run", CheckpointError):
        load_trained(folder)
    (found,) = [one for one in check_path(folder) if one.claim == "format"]
    assert (found.verdict, "names a list of settings" in found.why) == ("cannot be checked", True)


def test_a_report_that_names_a_list_of_settings_does_not_follow_from_it(runs):
    record = {"count": 3, "digest": "0" * 64, "J": 3}
    (told,) = [
        one
        for one in check_report({**read(runs["sgd"] / "certificates.json"), "choices": record})
        if (one.subject, one.claim) == ("report", "what is told beside")
    ]
    assert "choices.digest, choices.J" in told.why


def test_people_whom_a_chain_does_not_know_make_its_certificates_optimistic(trained):
    found = load_trained(trained["sgd"])
    assert {made.status for made in found.assess().certificates} == {"rigorous"}
    records = records_of(replace(found.problem.data()[0], people=np.arange(1437) // 3, unit="writer"), found.settings)
    for made in replace(found, records=records).assess().certificates:
        assert made.status == "optimistic"
        assert "count examples, not writers" in made.hypothesis("records independent").by
