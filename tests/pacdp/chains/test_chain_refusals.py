"""What chains and their parts refuse with a sentence."""

import numpy as np
import torch
from torch.nn import BatchNorm1d, Linear, Sequential
from toys import keys_of

from pacdp.chains import Keys, Layout, SecretKeys, langevin, resident
from pacdp.chains.diagnostics import diagnose
from pacdp.chains.native.convolution import ConvLayer, Geometry
from tests.pacdp.draws import randn
from tests.pacdp.small_networks import Made
from tests.refusals import refuses

TRACE, SECRET = np.zeros((2, 200)), bytes(32)


def positive(x):
    """Asks for the values of what it computes."""
    return x if x.sum() > 0 else 2 * x


def batched(model):
    return resident(model, randn(4, 5), batching="vmap")


def flattened():
    return Layout(Linear(3, 2)).flatten({"bias": torch.zeros(2)})


def stepped(count, **settings):
    return langevin(torch.zeros(3, 8), keys=keys_of(*range(count)), stream=0, tick=0, **settings)


def passed(channels, dtype):
    """A forward pass through a block of two channels in single precision."""
    block = ConvLayer(Geometry(2, 12, 6, size=2, pool=3, relu=True), 4, first=False)
    weight, bias = np.ones((4, 2, 2, 2), np.float32), np.ones(4, np.float32)
    return block.forward(np.ones((4, channels, 12, 6), dtype), weight, bias)


BATCHED = r"cannot run as a batch of chains.*torch\.func\.vmap takes Linear.*use batch"
REFUSED = [
    (lambda: diagnose({"x": TRACE}, burn_in=1.0), "burn_in in"),
    (lambda: diagnose({"x": TRACE[0]}), r"\[chains, steps\], got shape"),
    (lambda: diagnose({"x": np.where(np.arange(200) == 150, np.inf, TRACE)}), "is not finite in chain 0, kept step"),
    (lambda: Keys.derive([1, -1]), "expected seeds and chain numbers >= 0"),
    (lambda: SecretKeys([b"short"], [0]), "32 bytes"),
    (lambda: SecretKeys([SECRET, SECRET], [0]), "32 bytes"),
    (flattened, r"expected parameter weight of shape \(2, 3\), got nothing"),
    (lambda: Layout(Linear(3, 2, dtype=torch.complex64)), "parameters of the model are complex, .*torch.view_as_real"),
    (lambda: stepped(4), "expected one key a chain, got 4 keys for 3 chains"),
    (lambda: stepped(3, keep=np.full(2, 0.1)), "got 2 for 3 chains"),
    (lambda: stepped(3, centre=torch.zeros(3, 8).double()), "expected vectors like x"),
    (lambda: batched(Sequential(Linear(5, 4), BatchNorm1d(4), Linear(4, 1))), BATCHED),
    (lambda: batched(Made(lambda own, x: positive(own.layer(x)), layer=Linear(5, 1))), BATCHED),
    (lambda: passed(2, np.float64), "and float32, got"),
    (lambda: passed(1, np.float32), "x of shape"),
]


test_it_is_refused = refuses(REFUSED)
