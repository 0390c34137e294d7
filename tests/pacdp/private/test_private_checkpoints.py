"""Saving, resuming, refusing, publishing."""

import json

import pytest
import torch
from private_toys import cross_entropy, data, generator, mechanism, mlp, private, sweep
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import pacdp
from bounds.accounting import SelfComposed, event_from_dict, event_to_dict
from pacdp.checkpoint import Checkpoint
from pacdp.errors import CheckpointError
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    DPAdam,
    DPMCDropout,
    Exponential,
    GradientSlot,
    Normal,
    Polynomial,
    SeededRandomness,
    SystemRandomness,
    bayesian,
    export,
    joined,
    planned,
    runs_of,
    steps_of,
    train,
    with_example_dropout,
)
from pacdp.resume import read_event

M = mechanism(steps=9, max_physical_batch=6)
DECAY = Exponential(initial=1.5, factor=0.9)


def dropout_network():
    return with_example_dropout(nn.Sequential(*mlp()[:2], nn.Dropout(0.3), mlp()[2]), generator=generator())


ALGORITHMS = {
    "sgd": (DPSGD(mechanism=M, noise_multiplier=DECAY, learning_rate=0.3, momentum=0.9), mlp),
    "sgd, ghost": (DPSGD(mechanism=mechanism(steps=9, grad_sample_mode="ghost"), noise_multiplier=DECAY,
                         learning_rate=0.3), mlp),
    "adam": (DPAdam(mechanism=M, noise_multiplier=DECAY, learning_rate=0.01, prior=Normal(std=1.0)), mlp),
    "sgld": (DPSGLD(mechanism=M, convention=GradientSlot(step_size=Polynomial(initial=0.2, power=0.3), temperature=2.0,
                                                         pre_noise=0.1), burn_in=2, thin=2), mlp),
    "bbp": (DPBBP(mechanism=M, noise_multiplier=DECAY, learning_rate=0.3, prior=Normal(std=1.0), draws=2),
            lambda: bayesian(mlp(), generator=generator())),
    "dropout": (DPMCDropout(mechanism=M, noise_multiplier=DECAY, learning_rate=0.3, draws=2), dropout_network),
}  # fmt: skip


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("name", ALGORITHMS)
def test_resuming_is_exact_to_the_bit(name, tmp_path):
    settings, network = ALGORITHMS[name]
    whole = train(settings, network(), data(), loss=cross_entropy, randomness=SeededRandomness(7))

    def stop(progress):
        if progress.step == 5:
            raise Interrupted

    path, seen = tmp_path / "run.safetensors", []
    with pytest.raises(Interrupted):
        train(settings, network(), data(), loss=cross_entropy, randomness=SeededRandomness(7), checkpoint=path,
              checkpoint_every=2, progress=stop)  # fmt: skip
    for _ in range(2):  # the second call finds a finished run
        resumed = train(settings, network(), data(), loss=cross_entropy, randomness=SeededRandomness(7),
                        checkpoint=path, progress=lambda p: seen.append(p.step))  # fmt: skip
        assert resumed.event == whole.event
        assert all(torch.equal(resumed.weights[k], whole.weights[k]) for k in whole.weights)
        assert torch.equal(resumed.snapshots, whole.snapshots)
    assert seen == [5, 6, 7, 8, 9]
    assert steps_of(whole.event) == 9
    assert len(whole.snapshots) == (3 if name == "sgld" else 0)


def test_the_engine_s_own_loop_resumes_at_the_right_noise(tmp_path):
    def run(steps, *, load=None, save=None):
        module, optimizer, criterion, loader, engine = private(mlp(), data(), noise_schedule=DECAY, seed=2, steps=steps)
        if load:
            engine.load_checkpoint(path=load, module=module, optimizer=optimizer)
        sweep(module, optimizer, criterion, loader)
        if save:
            engine.save_checkpoint(path=save, module=module, optimizer=optimizer)
        return torch.cat([p.detach().reshape(-1) for p in module.parameters()]), engine.event

    path = tmp_path / "engine.safetensors"
    whole, history = run(7)
    run(4, save=path)
    resumed, continued = run(3, load=path)
    assert torch.equal(resumed, whole)
    assert continued == history
    assert [step.event.noise_multiplier for step, _ in runs_of(history)] == [DECAY(t) for t in range(7)]


def checkpoint_of(tmp_path, settings, **options):
    path = tmp_path / "saved.safetensors"
    train(settings, mlp(), data(), loss=cross_entropy, checkpoint=path, **options)
    return path


def test_a_checkpoint_is_data_and_says_what_ran(tmp_path):
    path = checkpoint_of(tmp_path, ALGORITHMS["sgd"][0], randomness=SeededRandomness(1))
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["pacdp"])
        names = set(file.keys())
    history = event_from_dict(header["event"])
    found = [(step.event.noise_multiplier, step.sample_rate, count) for step, count in runs_of(history)]
    assert found == [(DECAY(t), 0.25, 1) for t in range(9)]
    assert header["adjacency"] == "add-remove"
    assert header["settings"]["kind"] == "DPSGD"
    assert header["settings"]["noise_multiplier"] == {
        "kind": "Exponential",
        "initial": 1.5,
        "factor": 0.9,
        "final": 0.0,
    }
    assert {"state.randomness.noise", "state.randomness.batches", "state.optimizer.0.momentum_buffer"} <= names
    assert set(pacdp.load_checkpoint(path).model) == {name for name, _ in mlp().named_parameters()}


def test_no_generator_state_is_written_when_the_system_draws(tmp_path):
    path = checkpoint_of(tmp_path, ALGORITHMS["sgd"][0], randomness=SystemRandomness())
    saved = pacdp.load_checkpoint(path)
    assert not any(name.startswith(("randomness", "pre_noise")) for name in saved.state)
    resumed = train(ALGORITHMS["sgd"][0], mlp(), data(), loss=cross_entropy, checkpoint=path)
    assert steps_of(resumed.event) == 9
    with pytest.raises(CheckpointError, match="not seeded"):
        train(ALGORITHMS["sgd"][0], mlp(), data(), loss=cross_entropy, checkpoint=path, randomness=SeededRandomness(1))


def other(**changes):
    fields = {"mechanism": M, "noise_multiplier": DECAY, "learning_rate": 0.3, "momentum": 0.9}
    return DPSGD(**{**fields, **changes})


@pytest.mark.parametrize(
    ("settings", "network", "word"),
    [(other(noise_multiplier=1.5), mlp, "settings"), (other(mechanism=mechanism(steps=10)), mlp, "settings"),
     (other(), lambda: mlp(classes=4), "shapes"), (ALGORITHMS["adam"][0], mlp, "settings")],
)  # fmt: skip
def test_another_run_s_checkpoint_is_refused(settings, network, word, tmp_path):
    path = checkpoint_of(tmp_path, other(), randomness=SeededRandomness(1))
    with pytest.raises(CheckpointError, match=word):
        train(settings, network(), data(), loss=cross_entropy, checkpoint=path, randomness=SeededRandomness(1))
    with pytest.raises(CheckpointError, match="was seeded"):
        train(other(), mlp(), data(), loss=cross_entropy, checkpoint=path)


def test_another_schedule_is_refused_by_the_engine_and_nothing_is_touched(tmp_path):
    path = tmp_path / "engine.safetensors"
    module, optimizer, criterion, loader, engine = private(mlp(), data(), noise_schedule=DECAY)
    sweep(module, optimizer, criterion, loader)
    engine.save_checkpoint(path=path, module=module, optimizer=optimizer)
    fresh, optimizer, _, _, engine = private(mlp(seed=4), data(), noise_schedule=1.5)
    before = [p.detach().clone() for p in fresh.parameters()]
    with pytest.raises(CheckpointError, match="other noise multipliers"):
        engine.load_checkpoint(path=path, module=fresh, optimizer=optimizer)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), before, strict=True))
    assert engine.event is None


def test_loading_forgets_nothing(tmp_path):
    path = tmp_path / "engine.safetensors"
    module, optimizer, criterion, loader, engine = private(mlp(), data())
    sweep(module, optimizer, criterion, loader)
    engine.save_checkpoint(path=path, module=module, optimizer=optimizer)
    with pytest.raises(CheckpointError, match="would forget"):
        engine.load_checkpoint(path=path, module=module, optimizer=optimizer)
    _, _, _, _, second = private(mlp(), data(), engine=engine)
    assert steps_of(second.event) == len(loader)


def test_files_of_another_kind_are_refused(tmp_path):
    module, optimizer, _, _, engine = private(mlp(), data())
    kinds = {"pickle.pt": lambda p: torch.save({"state": 1}, p), "foreign.safetensors": lambda p: save_file(
        {"w": torch.zeros(1)}, p), "empty.safetensors": lambda p: p.touch()}  # fmt: skip
    for name, write in kinds.items():
        write(tmp_path / name)
        with pytest.raises(CheckpointError):
            engine.load_checkpoint(path=tmp_path / name, module=module, optimizer=optimizer)
    public = tmp_path / "public.safetensors"
    export(public, module=module, event=engine.event)
    with pytest.raises(CheckpointError, match="no checkpoint of a private run"):
        engine.load_checkpoint(path=public, module=module, optimizer=optimizer)
    assert pacdp.load_checkpoint(public).state == {}
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        engine.load_checkpoint(path=tmp_path / "missing", module=module, optimizer=optimizer)


def of_steps(count, rate=0.5, noise=1.0):
    gaussian = {"event": "Gaussian", "noise_multiplier": noise}
    step = {"event": "PoissonSampled", "sample_rate": rate, "inner": gaussian}
    return {"event": "SelfComposed", "count": count, "inner": step}


@pytest.mark.parametrize("change", [{"event": {"event": "Laplace", "scale": 1.0}}, {"adjacency": "replace-one"},
                                    {"event": [[1.0, 0.1, 1]]}, {"event": of_steps(0.5)},
                                    {"event": of_steps(1, rate=2.0)}, {"event": of_steps(1, noise=-1.0)},
                                    {"event": of_steps(0)}, {"event": of_steps(None)}, {"event": of_steps(500)},
                                    {"event": None}])  # fmt: skip
def test_histories_travel_as_json_and_nonsense_is_refused(change):
    history = joined(planned(1.1, sample_rate=0.01, steps=500), planned(0.9, sample_rate=0.01, steps=1))
    record = {"event": event_to_dict(history), "adjacency": "add-remove", "step": 501}
    assert read_event(json.loads(json.dumps(record))) == history
    assert read_event({**record, "event": of_steps(501)}) == SelfComposed(
        event=event_from_dict(of_steps(501)["inner"]), count=501
    )
    with pytest.raises(ValueError):
        read_event({**record, **change})


@pytest.mark.parametrize("change", [{"event": {"event": "Laplace"}}, {"adjacency": "replace-one"}, {"event": None},
                                    {"event": of_steps(500)}, {"event": of_steps(9, 0.25, 3.0)}])  # fmt: skip
def test_a_checkpoint_whose_event_is_not_the_run_s_is_refused_and_nothing_is_touched(change, tmp_path):
    path = checkpoint_of(tmp_path, ALGORITHMS["sgd"][0], randomness=SeededRandomness(1))
    saved = pacdp.load_checkpoint(path)
    header = {name: value for name, value in saved.header.items() if name not in ("content_hash", "format")}
    pacdp.save_checkpoint(path, Checkpoint(header={**header, **change}, model=saved.model, state=saved.state))
    before = path.read_bytes()
    with pytest.raises(CheckpointError):
        train(ALGORITHMS["sgd"][0], mlp(), data(), loss=cross_entropy, checkpoint=path, randomness=SeededRandomness(1))
    assert path.read_bytes() == before
