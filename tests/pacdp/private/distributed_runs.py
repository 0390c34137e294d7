"""What two processes do for test_private_distributed.py: torchrun --nproc-per-node 2 distributed_runs.py FOLDER

Each process writes what it saw to FOLDER/RANK.pt. The settings at the top are for the single-process runs, too.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as DPDDP
from opacus.utils.batch_memory_manager import BatchMemoryManager
from private_toys import (
    DECAY,
    SOUND,
    Interrupted,
    cnn,
    cross_entropy,
    data,
    doubles,
    flat,
    fresh,
    mechanism,
    mlp,
    private,
    stopping,
    sweep,
    trained,
)
from torch import distributed, nn
from torch.nn import Linear
from torch.utils.data import Subset, TensorDataset

import pacdp.loop
from bounds.accounting import event_to_dict
from pacdp.errors import CheckpointError, PeerLost
from pacdp.private import DPSGD, PrivateEngine, QuantileClipping, SeededRandomness, SystemRandomness
from pacdp.step.mechanism import MODES
from pacdp.step.noise import add_noise
from pacdp.step.processes import RankRandomness, rank_randomness
from pacdp.store.ledger import Ledger

RARE = {"sample_rate": 0.02, "steps": 30}
NOISE = {"clip_norm": 0.5, "expected_batch_size": 10.0, "steps": 1}
SIGMA = 3.0


def sgd(**changes):
    return SOUND["DP-SGD"][0], mechanism(noise_multiplier=DECAY, **changes)


# settings, mechanism, network of a seed, number of examples
SAME = {
    **{mode: (*sgd(grad_sample_mode=mode), cnn, 40) for mode in MODES},
    **{name: (*SOUND[name], 40) for name in ("DP-Adam", "parameter slot", "DP-SGD", "tempered")},
    "quantile": (*sgd(clipping=QuantileClipping(count_noise=2.0)), mlp, 40),
    "reference, cut": (*sgd(max_physical_batch=3, grad_sample_mode="reference"), mlp, 40),
    "ghost, cut": (*sgd(max_physical_batch=2, grad_sample_mode="ghost"), cnn, 40),
    "mostly empty": (*sgd(**RARE, grad_sample_mode="reference"), mlp, 8),
    "mostly empty, ghost": (*sgd(**RARE, grad_sample_mode="ghost"), mlp, 8),
    "one process without examples": (*sgd(sample_rate=0.5), mlp, 1),
}  # fmt: skip
OWN = {name: SOUND[name] for name in ("DP-MC-Dropout", "DP-BBP by ghosts", "gradient slot", "DP-BBP")}


def record(run):
    return {"weights": run.weights, "snapshots": run.snapshots, "history": event_to_dict(run.event)}


def same_as_one_process(rank):
    out = {}
    for name, (settings, numbers, network, n) in SAME.items():
        seen = []
        run = trained(settings, network(5 * rank).double(), doubles(n), mechanism=numbers, distributed=True, seed=7,
                      progress=seen.append)  # fmt: skip
        out[name] = {**record(run), "losses": [p.private_loss for p in seen]}
    return out


def resumed(rank, folder):
    out = {}

    for name, (settings, numbers, network) in {**OWN, "DP-SGD": SAME["DP-SGD"][:3]}.items():

        def run(settings=settings, numbers=numbers, network=network, **more):
            return trained(settings, network(), mechanism=numbers, distributed=True, seed=7, **more)

        whole = record(run())
        middle, path = folder / f"{name}.middle", folder / f"{name}.safetensors"
        try:
            run(checkpoint=path, checkpoint_every=2, progress=stopping(4))
        except Interrupted:
            if rank == 0:
                middle.write_bytes(path.read_bytes())
        out[name] = {"whole": whole, "resumed": record(run(checkpoint=path)), "again": record(run(checkpoint=path))}
    return out


def noise_of(randomness, *, rate, loss):
    wide = fresh(Linear(100, 100, bias=False))
    dataset = TensorDataset(torch.ones(8, 100), torch.zeros(8, dtype=torch.int64))
    numbers = mechanism(**NOISE, noise_multiplier=SIGMA, sample_rate=rate)
    run = trained(
        DPSGD(learning_rate=1.0), wide, dataset, mechanism=numbers, loss=loss, distributed=True, randomness=randomness
    )
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
    for mode, cut in (("reference", None), ("ghost", 1)):
        numbers = {"mode": mode, "noise_multiplier": DECAY, "sample_rate": 0.1, "batches": "loader"}
        module, optimizer, criterion, loader, engine = private(DPDDP(mlp().double()), doubles(), **numbers)
        if cut is None:
            sizes = sweep(module, optimizer, criterion, loader)
        else:
            options = {"data_loader": loader, "max_physical_batch_size": cut, "optimizer": optimizer}
            with BatchMemoryManager(**options) as cutter:
                sizes = sweep(module, optimizer, criterion, cutter)
        path = folder / f"engine {mode}.safetensors"
        engine.save_checkpoint(path=path, module=module, optimizer=optimizer)
        second, other, _, _, fresh_engine = private(DPDDP(mlp(9).double()), doubles(), **numbers)
        fresh_engine.load_checkpoint(path=path, module=second, optimizer=other)
        *parts, secret = private(DPDDP(mlp()), mode=mode, batches="loader", steps=2, engine=PrivateEngine())
        sweep(*parts)
        secret.export(folder / f"release {mode}")
        out[mode] = {
            "published": flat(parts[0]),
            "weights": flat(module), "loaded": flat(second), "sizes": sizes, "history": event_to_dict(engine.event),
            "loaded history": event_to_dict(fresh_engine.event), "epsilon": engine.get_epsilon(1e-3),
        }  # fmt: skip
    return out


def batches():
    seeded, system = rank_randomness(SeededRandomness(3)), rank_randomness(SystemRandomness())
    _, _, _, loader, _ = private(DPDDP(mlp()), data(4), sample_rate=0.05, steps=50, batches="loader")
    return {
        "seeded": [seeded.batch(11, 0.3).tolist() for _ in range(50)],
        "system": [system.batch(11, 0.3).tolist() for _ in range(800)],
        "places": [[one.places(11, 3).tolist() for _ in range(20)] for one in (seeded, system)],
        "seeds": [seeded.generator("masks").initial_seed(), system.generator("masks").initial_seed()],
        "ours": len(list(loader)),
    }


def refusals(rank, folder):
    """What is said, by the words that must be in it."""

    def given(**changes):
        return lambda: trained(SAME["DP-SGD"][0], **{"seed": 1, "distributed": True, **changes})

    def loop(**changes):
        return private(DPDDP(mlp()), batches="loader", **changes)

    def counted_at(one):
        *parts, engine = loop()
        if rank == one:
            engine.ledger(folder / f"books of {one}")
        sweep(*parts)

    attempts = {
        "DifferentiallyPrivateDistributedDataParallel instead": lambda: private(
            nn.parallel.DistributedDataParallel(mlp())
        ),
        "nothing says that they train one network": private,
        "distributed=True": given(distributed=False),
        "disagree on randomness": given(randomness=SeededRandomness(rank)),
        "disagree on the algorithm's settings": given(mechanism=mechanism(clip_norm=0.5 + rank)),
        "disagree on the number of examples": given(dataset=data(40 + rank)),
        "disagree on the order of the examples": given(dataset=data(seed=rank)),
        "disagree on the checkpoint": given(checkpoint=folder / ("elsewhere" if rank else "DP-SGD.safetensors")),
        "disagree on people": given(people=torch.arange(40).flip(0) if rank else torch.arange(40)),
        "whether there is a ledger": given(ledger=Ledger.open(folder / "books") if rank else None),
        "when checkpoints are written": given(checkpoint=folder / "none" if rank else None),
        "disagree on the order of the examples: give": given(dataset=Subset(data(), range(30 + rank)[rank:])),
        "and one that is in the batches of two adds twice": lambda: private(DPDDP(mlp())),
        "disagree on sample_rate": lambda: loop(sample_rate=0.25 / (1 + rank), steps=4),
        "disagree on noise_multiplier at step 2": lambda: sweep(
            *loop(noise_multiplier=lambda step: 1.0 + rank * (step > 1))[:4]
        ),
        "some processes of this run have a ledger": lambda: counted_at(0),
        "others none: name it at each of them": lambda: counted_at(1),
        "cannot write checkpoint|the first process could not write": given(checkpoint=folder),
    }
    out = {}
    for words, attempt in attempts.items():
        try:
            attempt()
            out[words] = "accepted"
        except (ValueError, CheckpointError) as error:
            out[words] = str(error)
    return out


def left_alone(rank, folder, last):
    """The second process ends after a step, or before any; the first one writes down what it is told."""
    met = {"init_method": f"file://{folder}/meet", "rank": rank, "world_size": 2}
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60), **met)

    def progress(seen):
        if rank and seen.step >= last:
            os._exit(7)

    if rank and not last:
        os._exit(7)
    try:
        trained(SAME["DP-SGD"][0], distributed=True, checkpoint=folder / "run", checkpoint_every=1, progress=progress)
    except PeerLost as error:
        (folder / "said").write_text(f"PeerLost: {error}")
        os._exit(0)


def forked(rank, folder):
    """Instead of torchrun, which starts each process anew; the last runs alone, of sound networks."""
    for runs, count in ((SAME, 8), (OWN, 2)):
        for name in list(runs)[:-count]:
            del runs[name]
    pacdp.loop.require_apart = lambda *_: None
    main(folder, init_method=f"file://{folder}/meet", rank=rank, world_size=2)


def main(folder, **met):
    distributed.init_process_group("gloo", timeout=timedelta(minutes=20), **met)
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
