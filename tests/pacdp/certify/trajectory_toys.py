"""Networks, gradients of single records by torch.func, and run folders that were tampered with."""

import torch
from torch.func import functional_call, grad, vmap
from torch.nn import GELU, Conv2d, Flatten, LayerNorm, Linear, ReLU, Sequential

from pacdp import load_checkpoint
from pacdp.algorithms import SGHMC
from pacdp.chains import SQUARED_NORMS
from pacdp.cli.certifying import certify
from pacdp.cli.config import Run
from pacdp.cli.folder import FORMAT, write_json
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Training
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture
from pacdp.problem import Problem
from pacdp.store.canonical import digest
from pacdp.store.checkpoint import Checkpoint, save_checkpoint
from pacdp.verify.examples import Examples
from pacdp.verify.files import read_checkpoint
from pacdp.verify.folder import check_folder
from pacdp.verify.replay import replay
from tests.pacdp.toys import seeded

LOSS = bounded_cross_entropy(classes=3, max_loss=4.0)
NETWORKS = {
    "linear": lambda: Sequential(Flatten(), Linear(16, 3)),
    "fc": lambda: Sequential(Flatten(), Linear(16, 7), ReLU(), Linear(7, 3)),
    "conv": lambda: Sequential(Conv2d(1, 2, 3), ReLU(), Flatten(), Linear(8, 3)),
    "reference": lambda: Sequential(Flatten(), Linear(16, 5), GELU(), LayerNorm(5), Linear(5, 3)),
}


def network(name):
    """At the same first weights every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NETWORKS[name]()


def by_func(objective, weights):
    """The gradient of every example in double precision, by torch.func alone."""
    model = objective.model.double()
    named = {name: view.double() for name, view in objective.layout.views(weights[0]).items()}
    inputs, labels = objective.examples

    def of_one(own, x, y):
        return LOSS(functional_call(model, own, (x[None],)), y[None])[0]

    rows = vmap(grad(of_one), in_dims=(None, 0, 0))(named, inputs.double(), labels)
    model.float()
    return rows


def problem(**how):
    return Problem(dataset="digits", architecture=Architecture(hidden=()), features="coarse-gradients", **how)


def kept(n, tau):
    """Settings of chains on n records that keep the norms of all of them."""
    return SGHMC(tau=tau, step_size=3.0, friction=0.2, cooling=0.5, base_std=30.0, batch_size=n, keep_norms=True,
                 every_record=True)  # fmt: skip


PROBLEM, FULL = problem(train_size=200), kept(200, 1000.0)
RUN = Run(problem=PROBLEM, sampler=FULL, epochs=12.0, records=2)


def certified(run, folder):
    """Where it was trained, and its report."""
    path = folder / "run"
    train(run, path, Training())
    return path, certify(path, Training(), Certifying())


def rewritten(path, out, *, norms=lambda norms: norms, sampler=None, header=lambda header: header):
    """The run's folder with other norms, settings or header, every hash of the checkpoint put right."""
    stored, changed = load_checkpoint(path), sampler or {}
    trace = {**stored.trace, SQUARED_NORMS: norms(stored.trace[SQUARED_NORMS])}
    own = header(dict(stored.header))
    own["sampler"] = {**own["sampler"], **changed}
    own["run"] = {**own["run"], "sampler": {**own["run"]["sampler"], **changed}}
    own["config_hash"] = digest(own["run"]) if changed else own["config_hash"]
    out.mkdir()
    made = Checkpoint(header=own, model=stored.model, state=stored.state, trace=trace)
    save_checkpoint(out / "checkpoint.safetensors", made)
    write_json(out / "config.json", {"format": FORMAT, "kind": "chain", **own["run"]})
    return out


def verdicts(path, report):
    return {one.claim: one.verdict for one in check_folder(path, report)}


def replayed(path, of=PROBLEM, *, known=True):
    """Verdicts on the kept steps of a run, taken again from its data, with its people where they are known."""
    data, _ = of.data()
    model = of.model(data, generator=seeded(9))
    stored = read_checkpoint(path / "checkpoint.safetensors")
    found = replay(stored, model, Examples(data.inputs, data.labels, data.people if known else None))
    return {one.claim: one.verdict for one in found}
