"""What the parts of a private step refuse with a sentence."""

import torch

from pacdp.random import Words, cipher
from pacdp.step.event import sampled_step
from pacdp.step.noise import SeededRandomness, SystemRandomness, add_noise, share
from pacdp.step.sampling import poisson
from tests.refusals import refuses
from tests.typed import unchecked


def noise_of(std):
    return add_noise(torch.zeros(3), std=std, randomness=SystemRandomness())


def seeded(seed):
    """A source that a ledger would count as the system's, or under another name than that of the whole number."""
    with unchecked():
        return SeededRandomness(seed)


REFUSED = [
    (lambda: noise_of(-1.0), "std must be a finite number >= 0, got"),
    (lambda: noise_of(5e-324), "between 2"),
    (lambda: noise_of(1e300), "between 2"),
    (lambda: share(1.0, 0), "processes must be"),
    (lambda: SystemRandomness().restore(SeededRandomness(1).state()), "the run was seeded"),
    (lambda: SeededRandomness(1).restore({}), "the run was not seeded"),
    (lambda: seeded(None), "seed must be a whole number.* got None: .* take SystemRandomness"),
    (lambda: seeded("0"), "seed must be a whole number"),
    (lambda: cipher.Keystream(bytes(31), bytes(12)), "a key of 32 bytes and a place of 12"),
    (lambda: poisson(Words(torch.zeros(3, dtype=torch.int64), 32), 1.1), r"sample_rate must lie in \[0, 1\]"),
    (lambda: sampled_step([1.0], sample_rate=0.0), "sample_rate"),
    (lambda: sampled_step([-1.0], sample_rate=0.5), "noise_multiplier must be a finite number"),
]


test_of_a_step_is_refused = refuses(REFUSED)
