"""What launches for itself goes to the device of its tensors, on machines with several: no GPU is needed."""

import os
from contextlib import contextmanager

import pytest
import torch
from toys import keys_of, toy_data, toy_objective

from pacdp.algorithms import SGLD, build
from pacdp.chains import Replayed, SecretKeys, graphs, langevin, update
from pacdp.random import devices
from pacdp.random.devices import current
from tests.marks import parametrize

CPU, SECOND = torch.device("cpu"), torch.device("cuda:1")
KEYS = keys_of(1, 2)


@pytest.fixture
def gpus(monkeypatch):
    """The number of a thread's current GPU, of two that are made up."""
    now = [0]

    def exchange(device):
        before, now[0] = now[0], device if device >= 0 else now[0]
        return before

    monkeypatch.setattr(torch.cuda, "_exchange_device", exchange)
    monkeypatch.setattr(torch.cuda, "_maybe_exchange_device", exchange)
    return now


def test_a_gpu_is_the_current_one_within(gpus):
    with current(SECOND):
        assert gpus == [1]
    assert gpus == [0]
    with current(CPU):
        assert gpus == [0]


def watch(monkeypatch, module):
    """Devices that ``module`` makes current, outermost first, now and ever."""
    inside, ever = [], []

    @contextmanager
    def watched(device):
        inside.append(device)
        ever.append(device)
        yield
        inside.pop()

    monkeypatch.setattr(module, "current", watched)
    return inside, ever


class Launched:
    """A kernel that only notes where and how it was launched."""

    def __init__(self, inside):
        self.inside, self.at, self.options = inside, [], {}

    def __getitem__(self, grid):
        def launch(*args, **options):
            self.at.append(list(self.inside))
            self.options = options

        return launch


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs Triton's interpreter")
def test_triton_s_kernels_are_launched_there(monkeypatch):
    pytest.importorskip("triton")
    from pacdp.chains import triton_update
    from pacdp.random import triton_cipher

    x, one = torch.zeros(2, 8), torch.ones(1, 1)
    for module, name, call in (
        (triton_update, "_kernel", lambda: triton_update.update(
            x, one, None, one, None, one, one, KEYS.noise_on(CPU), 0, torch.tensor(0), None, one)),
        (triton_cipher, "_blocks", lambda: triton_cipher.keystream(bytes(32), bytes(12), first=0, count=3, device=CPU)),
    ):  # fmt: skip
        inside, _ = watch(monkeypatch, module)
        kernel = Launched(inside)
        monkeypatch.setattr(module, name, kernel)
        call()
        assert kernel.at == [[CPU]]
        assert "enable_fp_fusion" in kernel.options  # else bits are those of Triton's release, which warns of it


class OnSecond(torch.Tensor):
    """Numbers of the CPU that say they lie on the second GPU."""

    @property
    def device(self):
        return SECOND


@pytest.mark.wrong_types
def test_compiled_programs_run_there(monkeypatch):
    inside, _ = watch(monkeypatch, devices)
    seen = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: lambda *args: seen.append(list(inside)))
    devices.fused(lambda x: x)(torch.zeros(3).as_subclass(OnSecond))
    assert seen == [[SECOND]]


def test_a_replayed_step_is_recorded_and_replayed_there(monkeypatch):
    objective = toy_objective(toy_data(n=60), batch_size=10, batching="vmap")
    sampler = build([SGLD(tau=38.0, batch_size=10)] * 2, objective)
    inside, _ = watch(monkeypatch, graphs)
    seen, transition = [], sampler.transition

    def watched(*args):
        seen.append(list(inside))
        return transition(*args)

    steps = Replayed(sampler._replace(transition=watched), KEYS)
    steps.step(sampler.init(objective.weights().repeat(2, 1)), KEYS)
    assert seen == [[CPU]]


@pytest.mark.wrong_types
def test_a_recording_takes_a_stream_of_its_own_device(monkeypatch, gpus):
    """The stream that torch takes by itself is made once, on the device of the first recording."""
    made = []

    class Stream:
        def __init__(self, device):
            self.device = device

    @contextmanager
    def graph(recording, stream=None):
        made.append((stream.device, gpus[0]))
        yield

    for name, stand_in in {"Stream": Stream, "graph": graph, "CUDAGraph": object, "current_stream": Stream}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    _, found = graphs.recorded(lambda: gpus[0], SECOND)
    assert found == 1
    assert made == [(SECOND, 1)]
    assert gpus == [0]


@parametrize("threads", [1, 2])
def test_each_thread_that_releases_has_the_device(monkeypatch, threads):
    _, ever = watch(monkeypatch, update)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.zeros(2, 50)
        langevin(x, gradient=x, rate=1.0, scale=1.0, keys=SecretKeys.drawn([0, 1]), stream=0, tick=0)
    finally:
        torch.set_num_threads(before)
    assert ever == [CPU, CPU]
