"""Random labels at increasing corruption: the runs, private ones against a count by hand, and what is made of them."""

import math
from dataclasses import replace

import pytest
import torch
from certificates_by_mpmath import kl
from planted import RUNTIME, carried_out, changed, claims, failing, planted, shortened

from bounds.accounting import event_from_dict
from experiments.papers.chains import BOUNDS
from experiments.papers.corruption import ACCOUNTED, COLUMNS, PRIVATE, SHARES, Corrupted
from experiments.papers.corruption import CORRUPTION as STUDY
from pacdp import load_checkpoint, private
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.private.algorithms import Public, network
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.serial import from_dict, to_dict

SCALES = ("smoke", "cpu", "paper")


def _quick(job):
    if not isinstance(job.config, Corrupted):
        return shortened(job)
    training = job.config.training
    training = replace(training, sampling=replace(training.sampling, steps=6), records=2)
    return replace(job, config=replace(job.config, training=training))


@pytest.fixture(scope="module")
def jobs():
    return [_quick(job) for job in STUDY.jobs("smoke", 0) if job.tags["random_share"] in (0.0, 0.5)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("corruption")


@pytest.fixture(scope="module")
def table(jobs, folder):
    return carried_out(STUDY, jobs, folder)


@pytest.mark.parametrize("scale", SCALES)
def test_every_algorithm_meets_every_share(scale):
    jobs, others = (STUDY.jobs(scale, seed) for seed in (0, 1))
    places = {(job.tags["algorithm"], job.tags["random_share"]) for job in jobs}
    assert places == {(name, share) for name in ("SGD", *PRIVATE) for share in SHARES}
    keys = {job.key for job in jobs}
    assert len(keys) == len(jobs) == len(places)
    assert keys.isdisjoint(job.key for job in others)
    problems = {}
    for job in jobs:
        assert from_dict(type(job.config), to_dict(job.config)) == job.config
        problem = job.config.problem
        assert problem.random_labels == job.tags["random_share"]
        about = (problem.dataset, problem.train_size, problem.split_seed, problem.label_seed)
        problems.setdefault(about, set()).add(job.tags["algorithm"])
    assert len(problems) == 1, "all algorithms learn the same examples under the same labels"


def test_private_runs_end_to_end(jobs, folder, table):
    assert dict(table.schema) == COLUMNS
    assert table["run"].unique(maintain_order=True).to_list() == [job.key for job in jobs]
    assert table.filter(algorithm="SGD")["privacy"].unique().to_list() == ["none"]
    assert table.filter(algorithm="Entropy-SGLD")["delta"].unique().to_list() == [0.0]
    for job in jobs:
        row = table.filter(run=job.key).row(-1, named=True)
        assert row["least_error"] == 0.5 * row["random_share"]
        if not isinstance(job.config, Corrupted):
            assert row[ACCOUNTED] is None
            continue
        budget = job.config.training.budget
        assert row["epsilon"] <= budget.epsilon
        assert row["delta"] == budget.delta
        assert row["privacy"] == "accounted, add-remove"
        assert row[ACCOUNTED] > row["train_error"]
        assert all(row[name] is None for name in BOUNDS)
    paths = STUDY.draw(table, folder)
    assert min(path.stat().st_size for path in paths) > 10_000
    verdict = STUDY.judge(table, "smoke")
    assert any("Scale smoke" in note for note in verdict.notes)
    assert all(type(claim.holds) in (bool, type(None)) for claim in claims(verdict).values())


def test_errors_and_bound_of_a_private_run_by_hand(jobs, folder, table):
    """Its weights from the checkpoint, its labels from the problem, its bound from the price of its history."""
    job = next(job for job in jobs if job.tags == {**job.tags, "algorithm": "DP-SGD", "random_share": 0.5})
    result = read_json(Folder(folder / job.key).result)
    checkpoint = load_checkpoint(folder / job.key / "checkpoint.safetensors")
    train, test = job.config.problem.data()
    assert checkpoint.header["about"]["data"] == {"train": train.hash, "test": test.hash}
    clean, _ = replace(job.config.problem, random_labels=0.0).data()
    assert 0.15 < (train.labels != clean.labels).mean() < 0.35
    module = network(job.config.training, Public(input_shape=(1, 8, 8), classes=2, size=float(train.n)), device="cpu")
    module.load_state_dict(checkpoint.model)
    for data, name in ((train, "train_error"), (test, "test_error")):
        with torch.no_grad():
            right = (module(torch.tensor(data.inputs)).argmax(1) == torch.tensor(data.labels)).float().mean()
        assert math.isclose(1.0 - float(right), result[name], abs_tol=1e-6)
    history = event_from_dict(checkpoint.header["event"])
    budget = job.config.training.budget
    assert private.steps_of(history) == result["steps"] == 6
    assert result["epsilon"] == private.privacy_spent(history, delta=budget.delta, adjacency="add-remove").epsilon
    free = math.log(1.0 / 0.05) / train.n
    assert result["bound"]["status"] == "rigorous"
    assert kl(result["train_error"], result["bound"]["value"]) > free, "privacy has a price beyond that of one test"


def test_a_run_repeats_itself(jobs, folder, tmp_path):
    job = next(job for job in jobs if job.tags["algorithm"] == "DP-SGLD")
    assert job.kind.carry_out([job.config], [tmp_path / "again"], RUNTIME) == [None]
    one, other = (read_json(path / "result.json") for path in (folder / job.key, tmp_path / "again"))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_missing_data_is_an_outcome_that_says_what_to_do(tmp_path):
    job = next(job for job in STUDY.jobs("smoke", 0) if isinstance(job.config, Corrupted))
    pickled = tmp_path / "cifar10" / "cifar-10-python.tar.gz"
    pickled.parent.mkdir()
    pickled.write_bytes(b"pickles")
    config = replace(job.config, training=replace(job.config.training, dataset="cifar10"))
    (outcome,) = job.kind.carry_out([config], [tmp_path / "run"], replace(RUNTIME, data_root=str(tmp_path)))
    assert "put cifar-10-binary.tar.gz there" in str(outcome)


def test_secret_noise_is_refused():
    with pytest.raises(ValueError, match="reproducible=True"):
        Corrupted(training=PrivateConfig())
    with pytest.raises(ValueError, match="not the configuration"):
        from_dict(Corrupted, {})


def _rows():
    for share in SHARES:
        common = {"network": "CONV", "random_share": share, "least_error": share / 2}
        yield {**common, "algorithm": "SGD", "train_error": 0.1 * share, "test_error": 0.02 + 0.48 * share}
        for name in PRIVATE:
            error = 0.05 + 0.45 * share
            value = {name: error + 0.1 for name in (BOUNDS if name == "Entropy-SGLD" else (ACCOUNTED,))}
            yield {**common, **value, "algorithm": name, "train_error": error, "test_error": error, "epsilon": 1.0,
                   "gibbs_train_error": error, "gibbs_test_error": error}  # fmt: skip


AGREEING = list(_rows())


def test_a_table_that_agrees_confirms_every_claim():
    verdict = STUDY.judge(planted(COLUMNS, AGREEING), "paper")
    assert all(claim.holds for claim in claims(verdict).values())
    assert not any("below a test error" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("where", "values", "words"),
    [
        ({"algorithm": "SGD", "random_share": 0.25}, {"train_error": 0.07}, "SGD memorises"),
        ({"algorithm": "SGD", "random_share": 1.0}, {"test_error": 0.2}, "grows steadily"),
        *(({"algorithm": name, "random_share": 0.75}, {"train_error": 0.1}, f"{name} does not fit")
          for name in PRIVATE),
        *(({"algorithm": name, "random_share": 0.0}, dict.fromkeys(BOUNDS if name == "Entropy-SGLD" else (ACCOUNTED,),
                                                                   0.6), f"smallest bound of {name} is")
          for name in PRIVATE),
        ({"algorithm": "DP-SGD", "random_share": 1.0}, {ACCOUNTED: 0.45}, "No bound lies below"),
        ({"algorithm": "Entropy-SGLD", "random_share": 1.0}, {"dp_kl_chernoff": 0.45}, "No bound lies below"),
    ],
)  # fmt: skip
def test_a_claim_that_the_table_contradicts_fails(where, values, words):
    verdict = STUDY.judge(planted(COLUMNS, changed(AGREEING, where, **values)), "paper")
    assert len(failing(verdict)) == 1
    assert words in failing(verdict)[0]
    broken = [note for note in verdict.notes if "below a test error" in note]
    assert bool(broken) == words.startswith("No bound")


def test_bounds_of_one_are_not_counted_and_epsilons_are_upper_ends():
    rows = changed(AGREEING, {"algorithm": "DP-SGD"}, **{ACCOUNTED: 1.0}, epsilon=0.511714, delta=1e-5)
    verdict = STUDY.judge(planted(COLUMNS, rows), "paper")
    (claim,) = [one for sentence, one in claims(verdict).items() if "No bound lies below" in sentence]
    assert claim.holds
    assert claim.evidence.endswith(f"{len(SHARES)} more are vacuous and cannot")
    (told,) = [note for note in verdict.notes if note.startswith("Epsilon")]
    assert "DP-SGD 0.5118" in told
    assert "at delta 1e-05" in told
    vacuous = [row for row in rows if row["algorithm"] == "DP-SGD"]
    assert all(one.holds is None for one in STUDY.judge(planted(COLUMNS, vacuous), "paper").claims
               if "No bound lies below" in one.sentence)  # fmt: skip


def test_what_was_not_learnt_is_said():
    assert not any("was learnt" in note for note in STUDY.judge(planted(COLUMNS, AGREEING), "cpu").notes)
    weak = changed(AGREEING, {"algorithm": "Entropy-SGLD", "random_share": 0.0}, train_error=0.22)
    (note,) = [one for one in STUDY.judge(planted(COLUMNS, weak), "cpu").notes if "was learnt" in one]
    assert note.startswith("Only part of the true labels was learnt. Training errors: Entropy-SGLD 0.220 (CONV)")


def test_an_empty_table_decides_nothing(tmp_path):
    table = STUDY.table(STUDY.jobs("smoke", 0), tmp_path)
    assert table.height == 0
    assert all(claim.holds is None for claim in STUDY.judge(table, "smoke").claims)
    assert STUDY.draw(table, tmp_path)
