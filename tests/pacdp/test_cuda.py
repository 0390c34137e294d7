import pytest
import torch

from pacdp import Problem
from pacdp.samplers import SGLD, EntropySGD, build
from pacdp.trained import load_trained, objectives, save_trained

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
PROBLEM = Problem(dataset="digits2")


def test_risks_agree_with_the_cpu() -> None:
    train, test = PROBLEM.data()
    on_cpu, _ = objectives(PROBLEM, SGLD(tau=38.0), train, test, seed=0, device="cpu")
    on_gpu, _ = objectives(PROBLEM, SGLD(tau=38.0), train, test, seed=0, device="cuda")
    weights = on_cpu.weights()
    assert on_gpu.risks(weights.cuda()).loss == pytest.approx(on_cpu.risks(weights).loss, rel=1e-5)


@pytest.mark.parametrize("settings", [SGLD(tau=38.0), EntropySGD(tau=38.0, inner_steps=3)], ids=["sgld", "entropy"])
def test_a_resumed_chain_goes_on_bit_for_bit(settings, tmp_path) -> None:
    train, test = PROBLEM.data()
    hashes = {"train": train.hash, "test": test.hash}
    objective, _ = objectives(PROBLEM, settings, train, test, seed=0, device="cuda")
    sampler, generator = build(settings, objective), torch.Generator("cuda").manual_seed(1)
    state = sampler.init(objective.weights())
    for step in range(10):
        if step == 4:
            save_trained(tmp_path / "c.safetensors", problem=PROBLEM, settings=settings, objective=objective,
                         hashes=hashes, state=state, generator=generator, run={})  # fmt: skip
        state, _info = sampler.step(state, generator)
    again = load_trained(tmp_path / "c.safetensors", device="cuda")
    resumed, sampler = again.state, build(settings, again.objective)
    for _ in range(6):
        resumed, _info = sampler.step(resumed, again.generator)
    assert torch.equal(resumed.weights, state.weights)
