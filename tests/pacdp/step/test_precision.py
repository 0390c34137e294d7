"""Clipped sums keep float32's bits whatever torch is told: settings, and a machine that rounds where they let it."""

from itertools import pairwise

import pytest
import torch
from private_toys import clipped_sum as by_opacus
from private_toys import cnn, mlp
from torch.nn import Conv1d, Flatten, Linear, Sequential, Unflatten
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset
from toys import toy_data, toy_objective

from pacdp.chains import Keys
from pacdp.models import Architecture
from pacdp.step import chain_sums, ghost
from pacdp.step.clip import Clip, clipped_sum, joint_norms, row_norms
from pacdp.step.ghost import GhostSums
from pacdp.step.gradients import clipped_gradient
from pacdp.step.precision import full_precision
from pacdp.step.sums import Reference
from pacdp.step.units import Network, Units, trained
from tests.marks import parametrize
from tests.pacdp.draws import randn

CPU, GPU = torch.device("cpu"), torch.device("cuda")
KEYS = [(backend, kind) for backend in ("cuda", "mkldnn") for kind in ("matmul", "conv", "rnn")]
WIDER = [("generic", "all"), ("cuda", "all"), ("mkldnn", "all")]
REDUCED = ("tf32", "bf16")
AWKWARD = 1.0 + 2.0**-11 + 2.0**-20  # ten bits round it up by nearly half a unit


def precision(backend, kind):
    return torch._C._get_fp32_precision_getter(backend, kind)


def read(setting):
    try:
        return setting()
    except RuntimeError:  # torch refuses to say where older and newer settings disagree
        return "mixed"


def settings():
    matmul = torch.backends.cuda.matmul
    older = (torch.get_float32_matmul_precision, lambda: matmul.allow_tf32, torch._C._get_cudnn_allow_tf32)
    return {key: precision(*key) for key in KEYS + WIDER}, [read(one) for one in older]


@pytest.fixture(autouse=True)
def as_before():
    yield
    torch.set_float32_matmul_precision("highest")
    for key in WIDER + KEYS:
        torch._C._set_fp32_precision_setter(*key, "none")
    torch._C._set_cudnn_allow_tf32(True)  # torch's own default


def everywhere():
    torch.backends.fp32_precision = "tf32"


WAYS = {
    "torch's own": lambda: None,
    "allow_tf32": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "newer": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "of oneDNN": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "of convolutions": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "tf32"),
    "everywhere": everywhere,
}


@parametrize("convolutions", [False, True])
@parametrize("device", [CPU, GPU], ids=str)
@parametrize("way", WAYS)
def test_within_all_bits_are_kept_and_after_it_all_is_as_before(way, device, convolutions):
    WAYS[way]()
    before, backend = settings(), "mkldnn" if device == CPU else "cuda"
    with full_precision(device, convolutions=convolutions):
        assert precision(backend, "matmul") not in REDUCED
        assert not convolutions or precision(backend, "conv") not in REDUCED
        with full_precision(device):
            assert precision(backend, "matmul") not in REDUCED
        assert precision(backend, "matmul") not in REDUCED  # the inner end is not the last
    assert settings() == before


class Rounds(TorchDispatchMode):
    """Products round their factors to 10 bits where the setting of the moment lets them; convolutions are noted."""

    def __init__(self):
        super().__init__()
        self.reduced = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[1]
        kind = "conv" if "convolution" in name else "matmul" if name in ("mm", "bmm", "addmm", "baddbmm") else None
        if kind is not None and precision("mkldnn", kind) in REDUCED:
            self.reduced.add(name)
            if kind == "matmul":
                args = tuple(rounded(one) if isinstance(one, torch.Tensor) and one.ndim > 1 else one for one in args)
        return func(*args, **(kwargs or {}))


def rounded(x):
    if x.dtype != torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def steep(outputs, targets):
    return 1e3 * binary_cross_entropy_with_logits(outputs[:, 0], targets.float(), reduction="none")


def linear():
    return Sequential(Linear(784, 1))


def by_example():
    return Sequential(Unflatten(1, (1, 784)), Conv1d(1, 1, 784), Flatten())


def excess(model, clip_norm):
    """By how much, of the clip norm, one example's share of a sum is too long on a machine that rounds."""
    x, y = torch.full((1, 784), AWKWARD), torch.tensor([1.0])
    with Rounds():
        network = Network.of(model, steep)
        seen = clipped_gradient(network, trained(model), x, y, Clip(clip_norm), member=torch.tensor([True]))
    return float(sum(one.double().square().sum() for one in seen.total.values()) ** 0.5) / clip_norm - 1.0


@parametrize("network", [linear, by_example])
def test_one_example_moves_a_sum_by_no_more_than_the_clip_norm(network):
    torch.manual_seed(0)
    model = network()
    everywhere()
    assert max(excess(model, 0.5 + k / 300) for k in range(60)) <= 0.0


@parametrize("network", [linear, by_example])
def test_nor_under_autocast_whose_products_round_whole_sums(network):
    torch.manual_seed(0)
    model, n = network(), 264
    whole = Network.of(model, steep), Units.group(TensorDataset(torch.ones(n, 784), torch.ones(n)), None), Clip(1.0)
    for summer in (Reference(*whole), GhostSums(*whole)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            sums = [summer(torch.arange(k), trained(model)).total for k in range(n - 8, n)]
        moved = [joint_norms([row_norms((more[k] - less[k])[None]) for k in more]) for less, more in pairwise(sums)]
        assert max(moved) <= 1.0 + 1e-3


def test_a_sum_of_given_rows_keeps_its_bits():
    everywhere()
    rows = {"w": torch.full((2, 1000), AWKWARD) * torch.tensor([[1.0], [0.0]])}
    for k in range(60):
        clip_norm = 0.5 + k / 300
        with Rounds() as machine:
            found = clipped_sum(rows, Clip(clip_norm))
        assert float(found.total["w"].double().norm()) <= clip_norm
        assert not machine.reduced


def test_compiled_sums_and_their_threads_keep_their_bits(monkeypatch):
    everywhere()
    seen = list[str]()

    def spread(run, parts):
        seen.append(precision("mkldnn", "matmul"))
        for number, part in enumerate(parts):
            run(number, part)

    monkeypatch.setattr(chain_sums.threads, "spread", spread)
    objective = toy_objective(toy_data(n=80), architecture=Architecture(hidden=(7,)), batch_size=20, clip_norm=0.3)
    assert objective._sums is not None
    objective.estimate(objective.weights(), Keys.derive([0]), 0)
    assert seen
    assert not set(seen) & set(REDUCED)


@parametrize("hopeless", [False, True])
@parametrize("network", [mlp, cnn])
def test_both_passes_of_ghost_clipping_keep_their_bits(network, hopeless):
    """The second pass adds up what the first one measured, convolutions too, which torch rounds by default on a GPU."""
    everywhere()
    inputs, targets = randn(6, 4), torch.arange(6) % 3
    if hopeless:  # the batch is run again, as the first forward pass was
        inputs[2] = torch.nan
    passes = list[Rounds]()

    def watched(really):
        def run(*args, **kwargs):
            with Rounds() as machine:
                found = really(*args, **kwargs)
            passes.append(machine)
            return found

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ghost.Ghost, "sum", watched(ghost.Ghost.sum))
        by_opacus(network(), inputs, targets, mode="ghost")
    assert passes
    assert not passes[-1].reduced  # others tried the network out
    assert precision("mkldnn", "matmul") == "tf32"
