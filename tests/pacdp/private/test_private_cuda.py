"""Private training on a GPU, against the CPU."""

import torch
from private_toys import mechanism, mlp, private, sweep, trained
from torch.testing import assert_close

from pacdp.private import DPBBP, DPSGLD, SeededRandomness, SystemRandomness, bayesian, steps_of
from pacdp.step.mechanism import MODES
from tests.marks import parametrize
from tests.pacdp.toys import ON_A_GPU

pytestmark = ON_A_GPU


@parametrize("mode", MODES)
def test_training_agrees_with_the_cpu_and_resumes(mode, tmp_path):
    settings = DPSGLD(convention="tempered", step_size=0.1, temperature=0.1, prior="normal", burn_in=0.0, snapshots=3)
    numbers = mechanism(noise_multiplier=None, grad_sample_mode=mode)
    cpu = trained(settings, mechanism=numbers)
    for _ in range(2):
        gpu = trained(settings, mlp().cuda(), mechanism=numbers, checkpoint=tmp_path / "run")
        assert gpu.event == cpu.event
        assert_close(gpu.snapshots.cpu(), cpu.snapshots, atol=1e-4, rtol=1e-4)


def test_weights_are_drawn_on_the_gpu():
    module = bayesian(mlp().cuda(), generator=torch.Generator("cuda").manual_seed(0))
    run = trained(DPBBP(learning_rate=0.1, draws=2), module, randomness=SeededRandomness(1, device="cuda"))
    assert all(p.is_cuda and torch.isfinite(p).all() for p in run.weights.values())


def test_the_engine_s_loop_runs_there():
    module, optimizer, criterion, loader, engine = private(mlp().cuda())
    optimizer.randomness = SystemRandomness()
    sweep(lambda x: module(x.cuda()), optimizer, lambda out, y: criterion(out, y.cuda()), loader)
    assert steps_of(engine.event) == len(loader)
