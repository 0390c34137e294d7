import psutil
import torch
from on_meta import META, Live, as_one_program, objective_on_meta

from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.chains import Keys, Replayed, memory, require_memory
from pacdp.chains.memory import VECTORS, vectors_on
from pacdp.errors import OutOfMemory
from pacdp.models import Architecture
from pacdp.step import chain_sums
from tests.marks import parametrize, refusal

CPU, GPU = torch.device("cpu"), torch.device("cuda")
CHAINS = 16
STEPS = [
    SGD(), SGHMC(tau=9.0), PSGLD(tau=9.0), PSGLD(tau=9.0, correction=True), SGLD(tau=9.0),
    EntropySGD(tau=9.0, inner_steps=3), SGLD(tau=9.0, batch_size=32, clip_norm=0.5),
    EntropySGD(tau=9.0, inner_steps=3, batch_size=32, clip_norm=0.5),
]  # fmt: skip


@parametrize(("device", "vectors", "beside"), [(CPU, VECTORS, 0), (GPU, 9, 10**8)], ids=["CPU", "GPU"])
def test_what_fits_passes_and_one_more_is_refused_with_the_number_that_fits(device, vectors, beside, monkeypatch):
    """A GPU is asked for more, and for what does not depend on the chains."""
    dim, free = 1_000_000, 10**9
    monkeypatch.setattr(memory, "_free", lambda device: free)
    fits = int((0.9 * free - beside) // (vectors * 4 * dim))
    require_memory(chains=fits, dim=dim, device=device, beside=beside)
    sentence = rf"{fits + 1} chains of 1,000,000 weights need .* GB and 1 GB are free on {device}: {fits} chains fit"
    with refusal(sentence, OutOfMemory):
        require_memory(chains=fits + 1, dim=dim, device=device, beside=beside)
    with refusal(" 0 chains fit", OutOfMemory):
        require_memory(chains=1, dim=dim, device=device, beside=free)


def test_the_machines_own_memory_is_asked():
    require_memory(chains=1, dim=10, device=CPU)
    for kind in (OutOfMemory, MemoryError, ValueError):
        with refusal("free on cpu", kind):
            require_memory(chains=psutil.virtual_memory().total, dim=10, device=CPU)


@parametrize("settings", STEPS, ids=str)
def test_a_gpu_is_asked_for_all_that_a_replayed_step_holds(settings, monkeypatch):
    as_one_program(monkeypatch)
    objective = objective_on_meta(Architecture(name="fc600"), settings.clip_norm)
    sampler, keys = build([settings] * CHAINS, objective), Keys.derive(range(CHAINS))
    with Live() as live:
        state = sampler.init(torch.empty(CHAINS, objective.dim, device=META))
        steps = Replayed(sampler, keys)
        for _ in range(2):
            after, _ = steps.step(state, keys)
    vector = 4 * CHAINS * objective.dim
    copied = vector * len(after[:-1])  # while a step is recorded, and by whoever keeps what a chunk ends with
    # examples, labels and outputs are in the tenth that is left
    assert live.most + copied <= 1.001 * vectors_on(GPU, settings.vectors) * vector
    assert live.most + copied > 0.5 * vectors_on(GPU, settings.vectors) * vector


@parametrize("architecture", [Architecture(name="conv"), Architecture(hidden=(100,), norm="group")], ids=str)
def test_gradients_of_single_examples_are_asked_for_too(architecture, monkeypatch):
    as_one_program(monkeypatch)
    objective = objective_on_meta(architecture, 0.5)
    weights, keys = torch.empty(CHAINS, objective.dim, device=META), Keys.derive(range(CHAINS))
    tick = torch.zeros((), dtype=torch.int64, device=META)
    objective.estimate(weights, keys, tick)  # the gradient and the keys are there
    for parts in (1, 4):
        assert objective._fixed is not None
        room = CHAINS * objective._fixed._rows // parts
        monkeypatch.setattr(chain_sums, "room_on", lambda device, room=room: room)
        assert objective._fixed.at_once(META) == CHAINS // parts
        with Live() as live:
            objective.estimate(weights, keys, tick)
        assert 0.7 * objective.beside(CHAINS) < live.most <= 1.05 * objective.beside(CHAINS)
