"""What two processes do for test_private_distributed.py: torchrun --nproc-per-node 2 distributed_runs.py FOLDER

Each process writes what it saw to FOLDER/RANK.pt. The settings at the top are for the single-process runs, too.
"""

import sys
from datetime import timedelta
from pathlib import Path

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as DPDDP
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler
from private_toys import cnn, cross_entropy, data, fresh, generator, mechanism, mlp, private, sweep
from torch import distributed, nn
from torch.utils.data import TensorDataset

from bounds.accounting import event_to_dict
from pacdp.errors import CheckpointError
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    DPAdam,
    DPMCDropout,
    Exponential,
    GradientSlot,
    Normal,
    ParameterSlot,
    SeededRandomness,
    SystemRandomness,
    Tempered,
    bayesian,
    train,
    with_example_dropout,
)
from pacdp.step.noise import add_noise
from pacdp.step.processes import RankRandomness, rank_randomness

DECAY = Exponential(initial=1.5, factor=0.9)
COMMON = {"noise_multiplier": DECAY, "learning_rate": 0.3}
M, GHOST = mechanism(), mechanism(grad_sample_mode="ghost")
RARE = {"sample_rate": 0.02, "steps": 30}
NOISE = {"clip_norm": 0.5, "expected_batch_size": 10.0, "steps": 1}
SIGMA = 3.0


def doubles(n=40):
    inputs, targets = data(n).tensors
    return TensorDataset(inputs.double(), targets)


def dropout_network(seed=0):
    layers = mlp(seed)
    return with_example_dropout(nn.Sequential(*layers[:2], nn.Dropout(0.3), layers[2]), generator=generator())


def bayes_network(seed=0):
    return bayesian(mlp(seed), generator=generator())


def sgd(**changes):
    return DPSGD(mechanism=mechanism(**changes), **COMMON, momentum=0.9, prior=Normal(std=1.0))


def sgld(convention):
    return DPSGLD(mechanism=M, convention=convention, prior=Normal(std=1.0), burn_in=1, thin=2)


# settings, network of a seed, number of examples
SAME = {
    "hooks": (sgd(), mlp, 40),
    "functorch": (sgd(grad_sample_mode="functorch"), cnn, 40),
    "expanded weights": (sgd(grad_sample_mode="ew"), mlp, 40),
    "ghost": (sgd(grad_sample_mode="ghost"), cnn, 40),
    "hooks, cut": (sgd(max_physical_batch=3), mlp, 40),
    "ghost, cut": (sgd(max_physical_batch=2, grad_sample_mode="ghost"), mlp, 40),
    "adam": (DPAdam(mechanism=M, noise_multiplier=DECAY, learning_rate=0.01), mlp, 40),
    "gradient slot": (sgld(GradientSlot(step_size=0.2, temperature=2.0)), mlp, 40),
    "parameter slot": (sgld(ParameterSlot(step_size=1e-3, drift=0.5, noise=1.0)), mlp, 40),
    "tempered": (sgld(Tempered(step_size=0.1, temperature=1e-3)), mlp, 40),
    "mostly empty": (DPSGD(mechanism=mechanism(**RARE), **COMMON), mlp, 8),
    "mostly empty, ghost": (DPSGD(mechanism=mechanism(**RARE, grad_sample_mode="ghost"), **COMMON),
                            mlp, 8),
    "one process without examples": (DPSGD(mechanism=mechanism(sample_rate=0.5), **COMMON), mlp, 1),
}  # fmt: skip
OWN = {
    "pre-noise": (sgld(GradientSlot(step_size=0.2, temperature=2.0, pre_noise=0.1)), mlp),
    "bbp": (DPBBP(mechanism=M, **COMMON, prior=Normal(std=1.0), draws=2), bayes_network),
    "bbp, ghost": (DPBBP(mechanism=GHOST, **COMMON, prior=Normal(std=1.0)), bayes_network),
    "dropout": (DPMCDropout(mechanism=M, **COMMON, draws=2), dropout_network),
}


class Interrupted(Exception):
    pass


def record(run):
    return {"weights": run.weights, "snapshots": run.snapshots, "history": event_to_dict(run.event)}


def same_as_one_process(rank):
    out = {}
    for name, (settings, network, n) in SAME.items():
        seen = []
        run = train(settings, network(5 * rank).double(), doubles(n), loss=cross_entropy, distributed=True,
                    randomness=SeededRandomness(7), progress=seen.append)  # fmt: skip
        out[name] = {**record(run), "losses": [p.private_loss for p in seen]}
    return out


def resumed(rank, folder):
    out = {}

    def stop(progress):
        if progress.step == 4:
            raise Interrupted

    for name, (settings, network) in {**OWN, "hooks": SAME["hooks"][:2]}.items():

        def run(settings=settings, network=network, **more):
            return train(settings, network(), data(), loss=cross_entropy, distributed=True,
                         randomness=SeededRandomness(7), **more)  # fmt: skip

        whole = record(run())
        middle, path = folder / f"{name}.middle", folder / f"{name}.safetensors"
        try:
            run(checkpoint=path, checkpoint_every=2, progress=stop)
        except Interrupted:
            if rank == 0:
                middle.write_bytes(path.read_bytes())
        out[name] = {"whole": whole, "resumed": record(run(checkpoint=path)), "again": record(run(checkpoint=path))}
    return out


def noise_of(randomness, *, rate, loss):
    wide = fresh(nn.Linear(100, 100, bias=False))
    dataset = TensorDataset(torch.ones(8, 100), torch.zeros(8, dtype=torch.int64))
    settings = DPSGD(mechanism=mechanism(**NOISE, sample_rate=rate), noise_multiplier=SIGMA, learning_rate=1.0)
    run = train(settings, wide, dataset, loss=loss, distributed=True, randomness=randomness)
    return (wide.weight.detach() - run.weights["weight"]).reshape(-1)


def laws_of_noise():
    def zero(outputs, targets):
        return 0.0 * cross_entropy(outputs, targets)

    def all_laws():
        return {
            "no data, seeded": noise_of(SeededRandomness(3), rate=1e-9, loss=cross_entropy),
            "no data, system": noise_of(SystemRandomness(), rate=1e-9, loss=cross_entropy),
            "no gradients, seeded": noise_of(SeededRandomness(4), rate=0.5, loss=zero),
        }

    right = all_laws()
    correct = RankRandomness.noised
    # everywhere, in full
    RankRandomness.noised = lambda self, total, *, std: add_noise(total, std=std, randomness=self.base)
    try:
        return {"right": right, "planted": all_laws()}
    finally:
        RankRandomness.noised = correct


def loops(folder):
    out = {}
    for mode in ("hooks", "ghost"):
        for cut in (None, 1):
            made = private(DPDDP(mlp().double()), doubles(), mode=mode, noise_schedule=DECAY, sample_rate=0.1)
            module, optimizer, criterion, loader, engine = made
            if cut is None:
                sizes = sweep(module, optimizer, criterion, loader)
            else:
                options = {"data_loader": loader, "max_physical_batch_size": cut, "optimizer": optimizer}
                with BatchMemoryManager(**options) as cutter:
                    sizes = sweep(module, optimizer, criterion, cutter)
            path = folder / f"engine {mode} {cut}.safetensors"
            engine.save_checkpoint(path=path, module=module, optimizer=optimizer)
            second, other, _, _, fresh_engine = private(DPDDP(mlp(9).double()), doubles(), mode=mode,
                                                        noise_schedule=DECAY, sample_rate=0.1)  # fmt: skip
            fresh_engine.load_checkpoint(path=path, module=second, optimizer=other)
            out[f"{mode} {cut}"] = {
                "weights": flat(module), "loaded": flat(second), "sizes": sizes, "history": event_to_dict(engine.event),
                "loaded history": event_to_dict(fresh_engine.event), "epsilon": engine.get_epsilon(1e-3),
            }  # fmt: skip
    return out


def flat(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def batches():
    seeded, system = rank_randomness(SeededRandomness(3)), rank_randomness(SystemRandomness())
    theirs = DistributedUniformWithReplacementSampler(total_size=4, sample_rate=0.05, steps=50, generator=generator())
    _, _, _, loader, _ = private(DPDDP(mlp()), data(4), sample_rate=0.05, steps=50)
    return {
        "seeded": [seeded.batch(11, 0.3).tolist() for _ in range(50)],
        "system": [system.batch(11, 0.3).tolist() for _ in range(2000)],
        "seeds": [seeded.generator("masks").initial_seed(), system.generator("masks").initial_seed()],
        "Opacus's": len(list(theirs)),
        "ours": len(list(loader)),
    }


def refusals(rank, folder):
    def given(**changes):
        arguments = {"algorithm": SAME["hooks"][0], "module": mlp(), "dataset": data(), "loss": cross_entropy,
                     "randomness": SeededRandomness(1), "distributed": True}  # fmt: skip
        return lambda: train(**{**arguments, **changes})

    attempts = {
        "torch's wrapper": lambda: private(nn.parallel.DistributedDataParallel(mlp()), data()),
        "no wrapper": lambda: private(mlp(), data()),
        "not distributed": given(distributed=False),
        "seeds": given(randomness=SeededRandomness(rank)),
        "kinds of randomness": given(randomness=SeededRandomness(1) if rank else None),
        "settings": given(algorithm=sgd(clip_norm=0.5 + rank)),
        "networks": given(module=mlp(classes=3 + rank)),
        "numbers of examples": given(dataset=data(40 + rank)),
        "orders of examples": given(dataset=data(seed=rank)),
        "checkpoints": given(checkpoint=folder / ("elsewhere" if rank else "hooks.safetensors")),
        "some without checkpoints": given(checkpoint=folder / "none" if rank else None),
        "rates of the loop": lambda: private(DPDDP(mlp()), data(), sample_rate=0.25 / (1 + rank), steps=4),
        "an unwritable file": given(checkpoint=folder),
    }
    out = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            out[name] = "accepted"
        except (ValueError, CheckpointError) as error:
            out[name] = str(error)
    return out


def main(folder):
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = distributed.get_rank()
    out = {
        "same": same_as_one_process(rank),
        "resumed": resumed(rank, folder),
        "noise": laws_of_noise(),
        "loops": loops(folder),
        "batches": batches(),
        "refusals": refusals(rank, folder),
    }
    torch.save(out, folder / f"{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
