"""Saving, resuming, refusing, publishing."""

import errno
import os
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from private_toys import (
    DECAY,
    RECORDS,
    SOUND,
    Interrupted,
    data,
    flat,
    mechanism,
    mlp,
    of_checkpoint,
    patients,
    private,
    stopping,
    sweep,
    trained,
)
from safetensors.torch import save_file
from torch import equal

from pacdp import load_checkpoint, save_checkpoint
from pacdp.errors import CheckpointError
from pacdp.layers.random import generators
from pacdp.private import DPSGD, PrivacyBudget, SystemRandomness, export, runs_of, steps_of
from pacdp.resume import load_run
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.ledger import Ledger
from tests.marks import every_case, made_once, parametrize, refusal

pytestmark = pytest.mark.usefixtures("known_network")
SGD = DPSGD(learning_rate=0.3, momentum=0.9)
M = mechanism(noise_multiplier=DECAY, steps=9, max_physical_batch=6)


@parametrize("name", SOUND)
def test_resuming_is_exact_to_the_bit(name, tmp_path):
    settings, numbers, network = SOUND[name]
    numbers = replace(numbers, steps=9)
    people = {"people": patients()} if settings.by_person else {}

    def run(**options):
        return trained(settings, network(), data(sum(RECORDS)), mechanism=numbers, seed=7, **people, **options)

    whole, path, seen = run(), tmp_path / "run.safetensors", []
    with pytest.raises(Interrupted):
        run(checkpoint=path, checkpoint_every=2, progress=stopping(5))
    for _ in range(2):  # the second call finds a finished run
        resumed = run(checkpoint=path, progress=lambda p: seen.append(p.step))
        assert resumed.event == whole.event
        assert equal(flat(resumed.weights), flat(whole.weights))
        assert equal(resumed.snapshots, whole.snapshots)
        assert equal(resumed.chosen, whole.chosen)
    assert seen == [5, 6, 7, 8, 9]
    assert steps_of(whole.event) == 9
    assert len(whole.snapshots) == (4 if "slot" in name or name == "tempered" else 0)


@parametrize("name", SOUND)
def test_room_for_the_next_checkpoint_is_made_before_its_steps_are_paid_for(name, tmp_path, monkeypatch):
    settings, numbers, network = SOUND[name]
    people = {"people": patients()} if settings.by_person else {}
    book, path, taken, made = Ledger.open(tmp_path / "ledger"), tmp_path / "run" / "a", list[int](), os.posix_fallocate
    path.parent.mkdir()

    def allocate(file, offset, size):
        if len(taken) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        made(file, offset, size)
        taken.append(size)

    def spare(seen):
        (held,) = path.parent.glob(".*.partial")
        assert (held.stat().st_size < taken[-1]) is (seen.step % 3 == 0), "given back for what progress writes"

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    run = {"mechanism": replace(numbers, steps=9), "ledger": book, "checkpoint": path, "checkpoint_every": 3}
    with refusal("nothing was drawn for the steps", CheckpointError):
        trained(settings, network(), data(sum(RECORDS)), seed=7, progress=spare, **run, **people)
    assert [(one.stretch.first, one.stretch.last) for one in book.entries] == [(1, 3), (4, 6)]
    assert load_checkpoint(path).header["step"] == 6
    assert path.stat().st_size + 2**16 <= taken[-1]
    assert os.listdir(path.parent) == ["a"]


def test_a_network_that_was_changed_before_a_checkpoint_is_loaded_is_refused(tmp_path):
    """It was taken for the one that set-up tried: examples mixed in parts of a size that was tried."""
    first, second = private(steps=1), private(steps=1)
    sweep(*first[:4])
    of = of_checkpoint(tmp_path / "engine.safetensors", *first)
    first[4].save_checkpoint(**of)
    second[0]._module[0].register_forward_hook(lambda layer, given, out: out - out.mean(0))
    with refusal("after make_private"):
        second[4].load_checkpoint(**of_checkpoint(of["path"], *second))
    assert second[4].event is None


def test_the_engine_s_own_loop_resumes_at_the_right_noise(tmp_path):
    def run(steps, *, load=None, save=None):
        *loop, engine = private(noise_multiplier=DECAY, seed=2, steps=steps)
        of = {"module": loop[0], "optimizer": loop[1]}
        if load:
            engine.load_checkpoint(path=load, **of)
        sweep(*loop)
        if save:
            engine.save_checkpoint(path=save, **of)
        return flat(loop[0]), engine.event

    path = tmp_path / "engine.safetensors"
    whole, history = run(7)
    run(4, save=path)
    resumed, continued = run(3, load=path)
    assert equal(resumed, whole)
    assert continued == history
    assert [step.event.noise_multiplier for step, _ in runs_of(history)] == [DECAY(t) for t in range(7)]


@made_once
def saved(tmp_path_factory):
    """The checkpoint of a seeded run that ended."""
    path = tmp_path_factory.mktemp("saved") / "run.safetensors"
    trained(SGD, mechanism=M, checkpoint=path)
    return path


def test_no_generator_state_is_written_when_the_system_draws(tmp_path):
    path = tmp_path / "run.safetensors"
    trained(SGD, mechanism=M, checkpoint=path, randomness=SystemRandomness())
    assert not any(name.startswith(("randomness", "pre_noise")) for name in load_checkpoint(path).state)
    assert steps_of(trained(SGD, mechanism=M, checkpoint=path, randomness=None).event) == 9
    with refusal("not seeded", CheckpointError):
        trained(SGD, mechanism=M, checkpoint=path)


@pytest.mark.wrong_types
@parametrize("number", [np.float32, np.float64])
def test_numbers_of_other_types_are_kept_and_read_as_what_they_are(number, tmp_path):
    """They were refused when the checkpoint was to be written, after all steps were paid for."""
    path = tmp_path / "run.safetensors"
    ran = mechanism(clip_norm=number(1.5), noise_multiplier=number(1.25), expected_batch_size=np.int64(12), steps=2)
    for _ in range(2):
        run = trained(replace(SGD, learning_rate=number(0.25)), mechanism=ran, checkpoint=path)
        assert steps_of(run.event) == 2
    header = load_checkpoint(path).header
    assert header["public"] == {"clip_norm": 1.5, "expected_batch_size": 12.0}
    settings = header["settings"]
    assert settings["mechanism"]["noise_multiplier"] == 1.25
    assert settings["algorithm"]["learning_rate"] == 0.25


@parametrize("name", ["gradient slot", "DP-MC-Dropout", "DP-BBP"])
def test_what_goes_on_twice_draws_masks_and_pre_noise_anew_where_the_system_draws(name, tmp_path):
    """Each draw is one example's by its place in the batch: two releases that share draws are no two mechanisms."""
    settings, numbers, network = SOUND[name]
    path, kept = tmp_path / "run.safetensors", tmp_path / "kept.safetensors"
    options = {"mechanism": replace(numbers, steps=4), "randomness": SystemRandomness(), "checkpoint": path}
    with pytest.raises(Interrupted):
        trained(settings, network(), checkpoint_every=2, progress=stopping(3), **options)
    assert load_checkpoint(path).state.keys() <= {"extra.snapshots"}
    path.rename(kept)
    seen = []
    for _ in range(2):
        path.write_bytes(kept.read_bytes())
        with patch("pacdp.loop.load_run", wraps=load_run) as loaded:
            trained(settings, network(), **options)
        state = loaded.call_args.args[1]
        seen.append([*state.generators.values(), *generators(state.module).values()])
    assert seen[0]
    for one, other in zip(*seen, strict=True):
        assert one.initial_seed() != other.initial_seed()


BUDGET = PrivacyBudget(epsilon=20.0, delta=1e-3, adjacency="add-remove")


@every_case(
    ("settings", "options", "word"),
    [(replace(SGD, learning_rate=0.2), {}, "settings"),
     (SGD, {"mechanism": replace(M, noise_multiplier=1.5)}, "settings"),
     (SGD, {"mechanism": replace(M, budget=BUDGET)}, "settings"),
     (SOUND["DP-Adam"][0], {}, "settings"),
     (SGD, {"module": mlp(classes=4)}, "shapes"), (SGD, {"randomness": None}, "was seeded"),
     (SGD, {"seed": 1}, "seeded by another number")],
)  # fmt: skip
def test_another_run_s_checkpoint_is_refused_and_nothing_is_touched(settings, options, word, saved):
    before = saved.read_bytes()
    with refusal(word, CheckpointError):
        trained(settings, **{"mechanism": M, "checkpoint": saved, **options})
    assert saved.read_bytes() == before


def test_the_engine_refuses_another_schedule_and_forgets_nothing(tmp_path):
    path = tmp_path / "engine.safetensors"
    *loop, engine = private(noise_multiplier=DECAY)
    of = of_checkpoint(path, *loop)
    sweep(*loop)
    engine.accountant.public_size = True
    engine.save_checkpoint(**of)
    with refusal("would forget", CheckpointError):
        engine.load_checkpoint(**of)
    other, optimizer, _, _, second = private(mlp(seed=4), noise_multiplier=1.5)
    before = flat(other)
    with refusal("other noise multipliers", CheckpointError):
        second.load_checkpoint(path=path, module=other, optimizer=optimizer)
    assert equal(flat(other), before)
    third, optimizer, _, _, resumed = private(noise_multiplier=DECAY)
    resumed.load_checkpoint(path=path, module=third, optimizer=optimizer)
    assert resumed.accountant.adjacency == "replace-one", "what told the number of examples has told it"
    assert second.event is None
    assert steps_of(private(engine=engine)[-1].event) == len(loop[-1])


def test_files_of_another_kind_are_refused(tmp_path):
    module, optimizer, *_, engine = loop = private()
    sweep(*loop[:-1])
    pickled, foreign, public = (tmp_path / name for name in ("pickle.pt", "foreign.safetensors", "public.safetensors"))
    torch.save({"state": 1}, pickled)
    save_file({"w": torch.zeros(1)}, foreign)
    export(public, weights=dict(module.named_parameters()), event=engine.event, adjacency="add-remove")
    assert load_checkpoint(public).state == {}
    for path, words in ((pickled, None), (foreign, None), (public, "no checkpoint of a private run"),
                        (tmp_path / "missing", "no checkpoint at")):  # fmt: skip
        with refusal(words, CheckpointError):
            engine.load_checkpoint(path=path, module=module, optimizer=optimizer)


def of_steps(count, rate=0.5, noise=1.0):
    gaussian = {"event": "Gaussian", "noise_multiplier": noise}
    step = {"event": "PoissonSampled", "sample_rate": rate, "inner": gaussian}
    return {"event": "SelfComposed", "count": count, "inner": step}


@every_case("change", [
    {"event": {"event": "Laplace", "scale": 1.0}}, {"adjacency": "replace-one"}, {"event": None},
    {"event": [[1.0, 0.1, 1]]}, {"event": of_steps(500)}, {"event": of_steps(9, 2.0)}, {"event": of_steps(None)},
    {"event": of_steps(9, 0.25, 3.0)}])  # fmt: skip
def test_a_checkpoint_whose_event_is_not_the_run_s_is_refused_and_nothing_is_touched(change, saved, tmp_path):
    was, path = load_checkpoint(saved), tmp_path / "edited.safetensors"
    header = {name: value for name, value in was.header.items() if name not in ("content_hash", "format")}
    save_checkpoint(path, Checkpoint(header={**header, **change}, model=was.model, state=was.state))
    before = path.read_bytes()
    with pytest.raises(CheckpointError):
        trained(SGD, mechanism=M, checkpoint=path)
    assert path.read_bytes() == before
