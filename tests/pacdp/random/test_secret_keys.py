"""Keys of the operating system: what they address, the law of what they draw, and that nothing is drawn twice."""

import hashlib
import itertools
import struct

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy import array_equal
from numpy.random import default_rng
from scipy import stats
from torch import equal
from torch.nn import Flatten, Linear, Sequential

from pacdp.algorithms import SGLD, EntropySGD, build
from pacdp.audit.chains import audit_chain
from pacdp.chains import BATCH, NOISE, OUTER_NOISE, Keys, SecretKeys, keys_of, langevin, normal_like
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.objective import Objective
from tests.marks import parametrize
from tests.pacdp.draws import randn
from tests.pacdp.toys import dtypes

CPU = torch.device("cpu")
SECRETS = (bytes(range(32)), bytes(range(1, 33)))


def keys(chains=1):
    return SecretKeys(SECRETS[:1] * chains, range(chains))


def network():
    return Sequential(Flatten(), Linear(12, 1))


def objective(**more):
    draw = default_rng(0)
    data = Dataset(name="made up", inputs=draw.random((300, 3, 4), dtype=np.float32),
                   labels=draw.integers(2, size=300), classes=2)  # fmt: skip
    return Objective(network(), bounded_cross_entropy(classes=2), data, batch_size=30, **more)


def test_words_are_chacha20_of_the_chain_s_own_key_at_stream_and_tick():
    own = hashlib.blake2b(b"chain 7", key=SECRETS[0], digest_size=32).digest()
    nonce = bytes(4) + struct.pack("<IQ", NOISE, 2**40 + 3)
    expected = Cipher(algorithms.ChaCha20(own, nonce), mode=None).encryptor().update(bytes(8 * 70_000))
    words, stream = (np.empty(70_000, np.int64), SecretKeys(SECRETS[:1], [7]).keystream(0, NOISE, 2**40 + 3))
    for part in np.split(words, [1, 40_001]):  # a stream goes on where it stopped
        stream.fill(part)
    assert words.tobytes() == expected


def test_every_address_has_numbers_of_its_own_and_gives_them_again():
    x, drawn = torch.zeros(1, 400), {}
    for secret, chain, stream, tick in itertools.product(SECRETS, (0, 1), (NOISE, OUTER_NOISE), (0, 1, 2**32)):
        one = SecretKeys([secret], [chain])
        drawn[secret, chain, stream, tick] = normal_like(x, keys=one, stream=stream, tick=tick)
        assert equal(normal_like(x, keys=one, stream=stream, tick=tick), drawn[secret, chain, stream, tick])
    together = torch.corrcoef(torch.cat(list(drawn.values()))) - torch.eye(len(drawn))
    assert float(together.abs().max()) < 0.25


def test_chains_draw_alone_what_they_draw_beside_others():
    three = SecretKeys([SECRETS[0], SECRETS[1], SECRETS[0]], [0, 1, 2])
    beside = normal_like(torch.zeros(3, 500), keys=three, stream=NOISE, tick=9)
    for k in range(3):
        assert equal(normal_like(torch.zeros(1, 500), keys=three.select([k]), stream=NOISE, tick=9)[0], beside[k])
    parts = SecretKeys.joined([three.select([0]), three.select([1, 2])])
    assert (parts.secrets, parts.chains) == (three.secrets, three.chains)


@dtypes
def test_noise_is_gaussian_of_the_scale_whatever_the_rate_and_lies_on_a_grid(dtype):
    x, g = torch.full((2, 50_000), 0.5, dtype=dtype), torch.full((2, 50_000), 3.0, dtype=dtype)
    found = langevin(x, keep=0.9, gradient=g, rate=np.array([0.1, 0.02]), centre=g, pull=0.2, scale=0.7, keys=keys(2),
                     stream=NOISE, tick=4)  # fmt: skip
    noise = found.double() - (0.9 * 0.5 - torch.tensor([[0.1], [0.02]]).double() * 3.0 + 0.2 * 3.0)
    for row in noise:
        assert stats.kstest((row / 0.7).numpy(), "norm").pvalue > 1e-4
    released = (keys(2).noised(0, g[0], std=7.0, stream=NOISE, tick=4) / 2.0**-8).double()
    assert equal(released, released.round())


def test_an_update_without_gradient_adds_the_noise_that_normal_like_tells():
    x = randn(1, 200, dtype=torch.float64)
    one, out = normal_like(x, keys=keys(), stream=OUTER_NOISE, tick=2), torch.empty_like(x)
    average = torch.zeros_like(x)
    langevin(x, keep=0.5, scale=2.0, keys=keys(), stream=OUTER_NOISE, tick=2, average=average, alpha=0.25, out=out)
    assert torch.allclose(out, 0.5 * x + 2.0 * one, atol=0.005)  # on another grid
    assert torch.allclose(average, 0.25 * out)
    same = langevin(x, keep=0.5, gradient=x, rate=0.0, scale=2.0, keys=keys(), stream=OUTER_NOISE, tick=2)
    assert equal(same, out)


def test_batches_are_poisson_and_differ_between_ticks_and_chains():
    data, own = objective(clip_norm=1.0), SecretKeys(SECRETS, [0, 0])
    drawn = [batch for t in range(400) for batch in data.draw(own, t)[0]]
    counts = np.bincount(torch.cat(drawn).numpy(), minlength=300)
    assert stats.chisquare(np.append(counts, 800 * 300 - counts.sum()),
                           np.append(np.full(300, 80.0), 800 * 300 - 24_000.0)).pvalue > 1e-4  # fmt: skip
    assert len({tuple(batch.tolist()) for batch in drawn}) == 800
    words, group = own.batches(300, 0, CPU)
    assert group.tolist() == [0, 1]
    assert words.values.shape == (2, 300)
    assert 0 <= int(words.values.min()) <= int(words.values.max()) < 2**words.bits
    assert all(int(batch.max()) < 300 for batch in objective().draw(own, 0)[0])


def test_new_keys_are_never_the_same_and_are_not_told():
    one, two = SecretKeys.drawn([0, 0]), SecretKeys.drawn([0, 0])
    assert len({*one.secrets, *two.secrets}) == 4
    assert all(len(secret) == 32 for secret in one.secrets)
    assert not any(secret.hex() in repr(one) or str(secret) in repr(one) for secret in one.secrets)


def test_a_header_gives_the_keys_that_it_holds_or_those_of_its_seed():
    header = {"seed": 3, "chain": 2}
    assert array_equal(keys_of(header).noise, Keys.derive([3], [2]).noise)
    kept = keys_of({**header, "noise_key": SECRETS[0].hex()})
    assert isinstance(kept, SecretKeys)
    assert (kept.secrets, kept.chains) == (SECRETS[:1], (2,))


@parametrize("settings", [
    SGLD(tau=30.0, step_size=0.2, batch_size=30, clip_norm=0.5),
    EntropySGD(tau=30.0, inner_steps=3, batch_size=30, clip_norm=0.5),
], ids=["SGLD", "Entropy-SGLD"])  # fmt: skip
def test_a_chain_goes_on_bit_for_bit_from_its_state_and_key(settings):
    data = objective(clip_norm=0.5)
    sampler, own = build(settings, data), SecretKeys.drawn([0])
    states = [sampler.init(data.weights())]
    for _ in range(6):
        states.append(sampler.step(states[-1], own)[0])
    state = states[3]
    for _ in range(3):
        state = build(settings, data).step(state, SecretKeys(own.secrets, own.chains))[0]
    assert equal(state.weights, states[6].weights)
    assert not equal(sampler.step(states[5], SecretKeys.drawn([0]))[0].weights, states[6].weights)


class Forgetful(SecretKeys):
    """Noise and batches keyed without the tick."""

    def keystream(self, chain, stream, tick):
        return super().keystream(chain, stream, tick if stream == BATCH else 0)


class SameBatches(SecretKeys):
    """Batches keyed without the tick."""

    def keystream(self, chain, stream, tick):
        return super().keystream(chain, stream, 0 if stream == BATCH else tick)


class Halved(SecretKeys):
    """Noise of half the deviation that is told."""

    def noised(self, chain, total, *, std, **place):
        return super().noised(chain, total, std=0.5 * std, **place)


@parametrize(("kind", "caught"), [
    (SecretKeys, set()), (Forgetful, {"noise: repeats"}), (SameBatches, {"batches: steps"}),
    (Halved, {"noise: variance"}),
])  # fmt: skip
def test_the_audit_finds_keys_that_forget_the_tick_and_noise_that_is_too_small(kind, caught, monkeypatch):
    monkeypatch.setattr("pacdp.audit.chains._RELEASES", 30)
    settings = SGLD(tau=30.0, step_size=0.2, batch_size=16, clip_norm=0.5)
    found = audit_chain(settings, network(), loss=bounded_cross_entropy(classes=2), shape=(3, 4), classes=2,
                        keys=kind(SECRETS[:1], [0]), failure_prob=1e-3)  # fmt: skip
    refuted = {check.name for check in found.refuted}
    assert caught <= refuted
    assert bool(caught) == bool(refuted)
