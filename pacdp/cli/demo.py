"""The demonstration: a network that reads handwritten digits, what is certain of it, and what Entropy-SGLD says.

The network learns from 637 of the 1,437 digits that scikit-learn has for training. Its errors on the 800 others make
the certificate, and its errors on the 360 digits of the test part are what the sentence calls measured. No
setting was chosen for any of those errors.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from bounds import Certificate
from bounds.numbers import confidence, percent
from pacdp.certify import BoundSet, certify
from pacdp.certify.foreign import file_hash
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli import certifying
from pacdp.cli.config import recipe
from pacdp.cli.folder import Folder, reported, write_report
from pacdp.cli.reading import Reading
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Runtime, Training
from pacdp.cli.serial import record
from pacdp.data import load, make_splits
from pacdp.losses import in_error
from pacdp.predictions.sentence import headline
from pacdp.store.files import write_whole

LEARNT_FROM, COUNTED = 637, 800
EPOCHS, _BATCH, _STEP_SIZE = 40, 64, 6e-3
_TURN, _STRETCH, _SHIFT = 0.2, 0.1, 0.2  # radians, share of the size, share of half the width
_CHAIN_EPOCHS = 40.0
_OPTIMISTIC = "dp_pac_bayes"


@record
class Demonstration:
    """What the demonstration found: the sentences, and what the picture shows."""

    made: Certificate
    """The network's."""
    optimistic: Certificate
    """Entropy-SGLD's."""
    measured: tuple[float, float]
    """Their shares of errors on the test part."""
    inputs: Tensor
    predicted: Tensor
    wrong: Tensor
    """Of the test part: float32 [360, 1, 8, 8], int64 [360], bool [360]."""

    def sentences(self) -> list[str]:
        """What is certain of the network first; then the optimistic bound, and why it has an asterisk."""
        values = (self.made.value, self.measured[0], self.optimistic.value, self.measured[1])
        most, seen, bound, other = (f"{percent(value)}%" for value in values)
        return [
            f"Error on new digits at most {most} ({confidence(self.made.failure_prob)} confidence), measured {seen}.",
            headline(self.made),
            "Entropy-SGLD, which learns the same digits with noise and from all of them, says: "
            f"at most {bound}*, measured {other}.",
            "* This number is optimistic: it needs a Markov chain that has converged, and nothing shows that it has.",
        ]


def demonstrate(out: Path, runtime: Runtime, report: Callable[[int, int], None]) -> Demonstration:
    """Train, certify and write ``out``; the run of Entropy-SGLD lies in ``out/entropy-sgld``.

    Raises:
        ValueError: a file that the demonstration would write is there and is not pacdp's.
    """
    # the same numbers with any number of cores
    runtime = replace(runtime, threads=runtime.threads or 1)
    runtime.apply()
    folder, path = Folder(out), out / "network.safetensors"
    data, test = load("digits")
    parts = make_splits(data.n, sizes={"learnt": LEARNT_FROM, "counted": COUNTED}, seed=0)
    learnt, fresh = BoundSet.part(data, parts["learnt"]), BoundSet.part(test)
    # Entropy-SGLD beside the network, in a process of its own: its kernels are compiled at the first run
    with folder.lock(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as beside:
        folder.clear()
        chain = beside.submit(_entropy_sgld, out / "entropy-sgld", runtime, epochs=_CHAIN_EPOCHS)
        network = _trained(learnt, lambda done, total: report(3 * done, 4 * total))
        rows = data.subset(parts["learnt"]).rows()
        counted = BoundSet.part(data, parts["counted"])
        found = certify(network, counted, seen=rows, ask="error", test=fresh)
        with torch.no_grad():
            logits = network(fresh.inputs)
        weights = network.state_dict().items()
        write_whole(path, save({name: value.contiguous() for name, value in weights}))
        about = {"checkpoint": str(path), "content_hash": file_hash(path)}
        write_report(folder.certificates, reported(found, device="cpu", seed=0, **about))
        optimistic, other = chain.result()
    report(1, 1)
    return Demonstration(
        made=found.certificates[0], optimistic=optimistic, measured=(found.measured[-1].mean, other),
        inputs=fresh.inputs, predicted=logits.argmax(dim=1), wrong=in_error(logits, fresh.labels),
    )  # fmt: skip


def _trained(learnt: BoundSet, report: Callable[[int, int], None]) -> nn.Module:
    """A small convolutional network, trained on digits that are turned, stretched and shifted a little."""
    generator = torch.Generator().manual_seed(0)
    network = _first_network(generator)
    steps = EPOCHS * (learnt.n // _BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), lr=_STEP_SIZE, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _STEP_SIZE, total_steps=steps)
    for epoch in range(EPOCHS):
        for places in torch.randperm(learnt.n, generator=generator).split(_BATCH)[
            : learnt.n // _BATCH
        ]:
            logits = network(_moved(learnt.inputs[places], generator))
            loss = functional.cross_entropy(logits, learnt.labels[places], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        report(epoch + 1, EPOCHS)
    return network.eval()


def _first_network(generator: torch.Generator) -> nn.Module:
    network = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    for weights in network.parameters():
        if weights.ndim > 1:
            nn.init.kaiming_uniform_(weights, nonlinearity="relu", generator=generator)
        else:
            nn.init.zeros_(weights)
    return network


def _moved(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """The digits, each turned, stretched and shifted at random: float32 [n, 1, 8, 8] in and out."""
    turn, stretch, right, down = (2 * torch.rand(4, len(inputs), generator=generator) - 1).unbind()
    turn, stretch = _TURN * turn, 1 + _STRETCH * stretch
    first = torch.stack([stretch * turn.cos(), -turn.sin(), _SHIFT * right], dim=1)
    second = torch.stack([turn.sin(), stretch * turn.cos(), _SHIFT * down], dim=1)
    grid = functional.affine_grid(
        torch.stack([first, second], dim=1), list(inputs.shape), align_corners=False
    )
    return functional.grid_sample(inputs, grid, align_corners=False)


def _entropy_sgld(out: Path, runtime: Runtime, *, epochs: float) -> tuple[Certificate, float]:
    """The chain of the paper on the same ten digits, certified under its hypothesis of convergence."""
    effort = GibbsSettings(epochs=12.0, prior_draws=40, test_draws=20)
    run = recipe("entropy-sgld-digits", scale="smoke")
    run = replace(run, epochs=epochs, records=1, certify=effort)
    train(run, out, Training(**asdict(runtime), force=True))
    found = certifying.certify(out, runtime, Certifying())
    write_report(Folder(out).certificates, found)
    told = Reading(found)
    (made,) = (one for one in told.certificates if one.name == _OPTIMISTIC)
    return made, told.error(made) or 0.0
