"""On a GPU the draws, and so the outputs and counts, are those of the CPU up to rounding."""

import torch
from fresh_laws import fresh_outputs, random_posterior
from torch.nn import Conv2d, Flatten, GroupNorm, Linear, ReLU, Sequential

from pacdp.losses import zero_one
from pacdp.stochastic import Draws, mean_risks
from tests.marks import parametrize
from tests.pacdp.toys import ON_A_GPU

pytestmark = ON_A_GPU


@parametrize("kind", ["isotropic", "diagonal"])
def test_outputs_and_counts_agree(kind):
    torch.manual_seed(0)
    module = Sequential(
        Conv2d(1, 4, 3), ReLU(), Conv2d(4, 30, 5), GroupNorm(2, 30), ReLU(), Flatten(),
        Linear(120, 3),
    ).eval()  # fmt: skip
    posterior = random_posterior(module, kind, std=0.05)
    inputs, labels = torch.randn(300, 1, 8, 8), torch.randint(0, 3, (300,))
    draws = Draws.of(seed=1, number=0, examples=torch.arange(300))
    ours = fresh_outputs(module, posterior, inputs, draws)
    theirs = fresh_outputs(module, posterior, inputs.cuda(), draws).cpu()
    assert (ours - theirs).abs().max() < 1e-2 * ours.abs().max()
    counts = [
        mean_risks(
            module, posterior, inputs=inputs, labels=labels, losses=(zero_one(),), passes=2, seed=1, device=device
        )[0]
        for device in ("cpu", "cuda")
    ]
    assert abs(counts[0].errors - counts[1].errors) <= 6
