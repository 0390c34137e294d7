"""One SGLD step on the flat buffer against a plain loop over parameters, on two-class MNIST-sized networks."""

import math

import numpy as np
import torch

from benchmarks.timing import publish, side_by_side
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture, build
from pacdp.objective import Objective
from pacdp.samplers import SGLD, sgld

STEPS = 50


def compare(architecture: Architecture) -> dict[str, float]:
    rng = np.random.default_rng(0)
    data = Dataset("synthetic", rng.random((4096, 1, 28, 28), dtype=np.float32), rng.integers(0, 2, 4096), 2)
    loss = bounded_cross_entropy(classes=2)

    def network() -> torch.nn.Module:
        return build(architecture, input_shape=(1, 28, 28), classes=2, generator=torch.Generator().manual_seed(0))

    settings = SGLD(tau=245.0, step_size=0.1)
    objective = Objective(network(), loss, data, batch_size=128)
    sampler, generator = sgld.build(settings, objective), torch.Generator().manual_seed(0)
    start = sampler.init(objective.weights())

    def flat() -> None:
        state = start
        for _ in range(STEPS):
            state, _info = sampler.step(state, generator)

    model, rate = network(), settings.step_size
    inputs, labels = torch.tensor(data.inputs), torch.tensor(data.labels)

    def loop() -> None:
        for _ in range(STEPS):
            batch = torch.randint(data.n, (128,), generator=generator)
            model.zero_grad()
            loss(model(inputs[batch]), labels[batch]).mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    noise = torch.randn(parameter.shape, generator=generator)
                    drift = parameter.grad + parameter / settings.tau
                    parameter.add_(-rate * drift + math.sqrt(2 * rate / settings.tau) * noise)

    def gradient_alone() -> None:
        for _ in range(STEPS):
            objective.estimate(start.weights, generator)

    seconds = side_by_side({"flat": flat, "loop": loop, "gradient": gradient_alone}, rounds=7)
    return {
        "parameters": objective.dim,
        "milliseconds per step": 1e3 * seconds["flat"] / STEPS,
        "plain loop / ours": seconds["loop"] / seconds["flat"],
        "ours / its gradient alone": seconds["flat"] / seconds["gradient"],
    }


def main() -> None:
    torch.set_num_threads(1)
    publish("sampler_step", {name: compare(one) for name, one in (
        ("fc(100)", Architecture(hidden=(100,))), ("fc600", Architecture(name="fc600")),
        ("conv", Architecture(name="conv")))})  # fmt: skip


if __name__ == "__main__":
    main()
