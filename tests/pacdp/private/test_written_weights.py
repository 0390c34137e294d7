"""What a forward pass writes would leave without noise: it is refused, or the run stops before anything is released."""

import torch
from private_toys import mechanism
from private_toys import trained as run
from torch.nn import Embedding, Linear, Module
from torch.utils.data import TensorDataset

from pacdp.private import DPSGD, UserDPSGD
from pacdp.step.mechanism import MODES
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.draws import randint

TOKENS = randint(0, 9, (24, 3), seed=1)
LABELS = torch.arange(24) % 2


class Writing(Module):
    """A bag of words that does ``what`` before its own pass."""

    def __init__(self, what, max_norm=None):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.out = Embedding(9, 4, max_norm=max_norm), Linear(4, 2)
        self.register_buffer("kept", torch.zeros(4))
        self.what, self.first, self.calls = what, None, 0
        self.start = float(self.out.weight.detach().square().sum())

    def forward(self, x):
        hidden = self.words(x).mean(1)
        self.what(self, hidden.detach())
        return self.out(hidden + self.kept)


def moved(net):
    """Whether training has begun: no trial of an untrained network sees what comes after."""
    return abs(float(net.out.weight.detach().square().sum()) - net.start) > 0.4


def nothing(net, hidden):
    del net, hidden


def nudge(net, hidden):
    net.out.bias.detach().add_(1e-6 * hidden.sum())


def late(net, hidden):
    if moved(net):
        net.out.bias.detach().add_(hidden.mean())


def late_by_data(net, hidden):
    if moved(net):
        net.out.bias.data.add_(float(hidden.mean()))


def late_exchange(net, hidden):
    if moved(net):
        net.out.bias.data = net.out.bias.data + float(hidden.mean())


def first_batch(net, hidden):
    if net.first is None:
        net.first = hidden.mean(0)
        net.out.weight.data.sub_(net.first)


def memory(net, hidden):
    net.first = hidden.mean(0) if net.first is None else net.first
    net.kept = net.first


def buffer(net, hidden):
    net.kept.add_(hidden.mean())


def late_memory(net, hidden):
    if moved(net):
        net.first = hidden.sum()


def count(net, hidden):
    net.calls += 1


WRITERS = [nudge, late, late_by_data, late_exchange, first_batch, memory, buffer, late_memory, count]


def trained(module, mode, folder, people=None):
    numbers = mechanism(
        clip_norm=1.0, noise_multiplier=1.0, sample_rate=0.5, expected_batch_size=12.0, steps=8, grad_sample_mode=mode
    )
    kind = DPSGD if people is None else UserDPSGD
    return run(
        kind(learning_rate=4.0), module, TensorDataset(TOKENS, LABELS), mechanism=numbers, randomness=None,
        people=people, checkpoint=folder / "run.safetensors"
    )  # fmt: skip


def refused(module, mode, folder, people=None):
    """In a sentence of ours, or by vmap where nothing of the kind can run under it."""
    with refusal(r"the network changes|not independent|vmap|broadcast", (ValueError, RuntimeError)):
        trained(module, mode, folder, people)
    assert not list(folder.iterdir())


CASES = [*((what, None) for what in WRITERS), *((what, "reference") for what in (nudge, late_by_data, first_batch))]


@every_case(("what", "mode"), CASES)
def test_nothing_is_released_of_a_network_that_writes(what, mode, tmp_path):
    refused(Writing(what), mode, tmp_path)


@parametrize("mode", MODES)
def test_an_embedding_that_keeps_its_rows_short_is_refused(mode, tmp_path):
    refused(Writing(nothing, max_norm=1.0), mode, tmp_path)
    trained(Writing(nothing), mode, tmp_path)


@parametrize("what", [nudge, late, late_by_data])
def test_people_are_protected_alike(what, tmp_path):
    people = torch.arange(24) // 3
    refused(Writing(what), "reference", tmp_path, people)
    trained(Writing(nothing), "reference", tmp_path, people)
