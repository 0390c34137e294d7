"""The engine on a GPU: one chain and 64 against the eager loop, with the share of the memory floor that is reached.

Without a GPU it writes the same table with every row marked as not measured.
"""

import torch

from benchmarks.plain import Plain
from benchmarks.timing import in_turn, publish
from benchmarks.workload import ARCHITECTURES, TAU, data, network, objective
from pacdp.algorithms import SGLD, EntropySGD, Settings, build
from pacdp.chains import Keys, Replayed
from pacdp.data import Dataset

COMMAND = "python -m benchmarks.chains_gpu"
STEPS = 200
BYTES_PER_WEIGHT = 4 * 4
"""Read weights and gradient, write gradient and weights, in float32: what an SGLD step cannot avoid."""
BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}
"""Bytes a second of the vendor's data sheet, by a part of the device's name."""


def rate(dataset: Dataset, name: str, settings: Settings, *, chains: int) -> tuple[int, float]:
    """Weights of one chain, and chain-steps (inner ones for Entropy-SGLD) a second of the replayed step."""
    risk = objective(name, dataset, device="cuda")
    keys = Keys.derive([0] * chains, range(chains))
    sampler = build(settings, risk)
    replayed = Replayed(sampler, keys)
    start = sampler.init(risk.weights().repeat(chains, 1))

    def run() -> None:
        state = start
        for _ in range(STEPS // settings.gradients_per_step):
            state, _ = replayed.step(state, keys)
        torch.cuda.synchronize()

    seconds = in_turn({"run": run}, rounds=7)["run"].least
    return risk.dim, chains * STEPS / seconds


def eager(dataset: Dataset, name: str) -> float:
    """Steps a second of the loop over parameters."""
    plain = Plain(network(name), dataset, device="cuda")

    def run() -> None:
        for _ in range(STEPS):
            plain.sgld()
        torch.cuda.synchronize()

    return STEPS / in_turn({"run": run}, rounds=7)["run"].least


def rows(dataset: Dataset) -> dict[str, dict[str, float]]:
    """The measured table."""
    device = torch.cuda.get_device_name()
    bandwidth = next((value for part, value in BANDWIDTH.items() if part in device), float("nan"))
    found: dict[str, dict[str, float]] = {}
    for name in ARCHITECTURES:
        loop = eager(dataset, name)
        for chains in (1, 64):
            for label, settings in (("SGLD", SGLD(tau=TAU)), ("Entropy-SGLD", EntropySGD(tau=TAU))):
                dim, steps = rate(dataset, name, settings, chains=chains)
                found[f"{name}, {label}, {chains} chains"] = {
                    "chain-steps a second": steps, "over the eager loop's steps a second": steps / loop,
                    "share of the memory floor": steps * dim * BYTES_PER_WEIGHT / bandwidth,
                }  # fmt: skip
    return found


def main() -> None:
    if torch.cuda.is_available():
        publish("chains_gpu", {**rows(data()), "command": COMMAND}, device="cuda")
        return
    empty = {f"{name}, {chains} chains": "not measured" for name in ARCHITECTURES for chains in (1, 64)}
    publish("chains_gpu", {**empty, "command": COMMAND})


if __name__ == "__main__":
    main()
