"""Every file that pacdp reads, with a whole one of each: what reads it, and what must hold of whatever it accepts."""

import hashlib
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file

import bounds
from bounds import accounting
from bounds.accounting.events import event_from_json, event_to_json
from pacdp import load_checkpoint, save_checkpoint
from pacdp.certify.foreign import read_weights
from pacdp.cli import calculator, foreign, serial
from pacdp.cli.config import Run, run
from pacdp.cli.folder import Folder, read_json
from pacdp.data import Rows, registry
from pacdp.features import backbone_cache
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.files import LIST, written
from pacdp.store.ledger import Ledger

EVENT = accounting.SelfComposed(
    event=accounting.PoissonSampled(sample_rate=0.1, event=accounting.Gaussian(noise_multiplier=1.0)), count=5
)


class Loader(NamedTuple):
    """How a file is made and read."""

    make: Callable[[Path], Path]
    """Writes it into an empty folder, and says where."""
    read: Callable[[Path], Any]
    bombs: str
    """Its format, by which tests/hostile.py knows bombs."""
    lawful: Callable[[Any, Any], bool] = lambda found, whole: True
    """Whether a damaged file may be read so, where the whole one is read so."""


def example(fill=1.0):
    """A checkpoint with parameters whose order is not that of the alphabet."""
    model = {"z.weight": torch.full((2, 3), fill), "a.bias": torch.arange(4.0), "b.scale": torch.tensor(7.0)}
    state = {"velocity": torch.linspace(0, 1, 11)}
    header = {"step": 12, "n": 60, "run": {"seed": 3, "tags": ["a", None]}, "loss": {"high": 4.0}}
    trace = {"energy": torch.linspace(1, 2, 5), "pending.energy": torch.empty(0)}
    return Checkpoint(header=header, model=model, state=state, trace=trace)


def checkpoint(folder):
    path = folder / "checkpoint.safetensors"
    save_checkpoint(path, example())
    return path


def contents(found):
    parts = (found.model, found.state, found.trace)
    tensors = [{name: (x.dtype, x.shape, x.numpy().tobytes()) for name, x in part.items()} for part in parts]
    return json.dumps(dict(found.header), sort_keys=True), tensors


def weights(name, **how):
    state = {"0.weight": torch.ones(3, 2), "0.bias": torch.zeros(3), "count": torch.tensor(4)}

    def make(folder):
        path = folder / name
        if path.suffix == ".safetensors":
            save_file(state, path)
        else:
            torch.save({"state_dict": state}, path, **how)
        return path

    return make


def state_dict(found, whole):
    strided = all(x.layout == torch.strided and x.numel() == len(x.flatten().tolist()) for x in found.values())
    return strided and all(isinstance(name, str) for name in found)


def ledger(ending):
    def make(folder):
        Ledger.create(folder / "books").correct(event=EVENT, unit="example", label="by hand")
        return next((folder / "books").glob(f"*{ending}"))

    return make


def record(folder):
    claim = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="approximate accountant")
    made = bounds.printed.private_pac_bayes(risk=0.1, kl_nats=3.0, n=100, failure_prob=0.05, privacy=claim)
    return put(folder / "certificate.json", made.to_json())


def certificate(found, whole):
    shared = sum(found.budget.values()) <= found.failure_prob * (1 + 1e-12)
    inside = 0.0 <= found.value <= 1.0 and 0.0 < found.failure_prob < 1.0 and found.total_nats >= 0.0
    told = found.status == ("optimistic" if found.unproved else "rigorous")
    return shared and inside and told and bounds.Certificate.from_json(found.to_json()) == found and hash(found) != 0.5


def recorded(folder):
    Folder(folder).keep_rows(up_to_step=-1)
    for step in range(4):
        Folder(folder).append_row({"step": step, "loss": 1.0 / (step + 1), "x": None})
    return Folder(folder).metrics


def row_hashes():
    made = Rows.of(np.arange(27, dtype=np.float32).reshape(9, 3), np.arange(9)).to_arrays()
    return {name: np.array(value) for name, value in made.items()}


def arrays(name, save, **named):
    def make(folder):
        save(folder / name, **named)
        return folder / name

    return make


def registered(path):
    """The content of a data file, which is the registered one."""
    registry._verify(path, _KNOWN)
    return path.read_bytes()


def features(folder):
    return backbone_cache.entry(np.zeros((3, 1, 2, 2), np.float32), weights_sha256="0" * 64, dim=2, folder=folder)


def same_entries(found, whole):
    return found.entries == whole.entries


def positive(found, whole):
    return min(found) > 0


def put(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def holding(name, content):
    """A file of that name and content."""
    return lambda folder: put(folder / name, content)


def text(path):
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:  # none of the reader's, which is given text
        raise ValueError(str(error)) from error


_CELLS = np.arange(900, dtype=np.uint8).tobytes()
_KNOWN = registry.FileEntry(size=900, sha256=hashlib.sha256(_CELLS).hexdigest())


def known(path):
    """What ``--seen`` reads."""
    return foreign.seen(str(path))


LOADERS = {
    "checkpoint": Loader(
        checkpoint, load_checkpoint, "safetensors", lambda found, whole: contents(found) == contents(whole)
    ),
    "weights": Loader(weights("a.safetensors"), read_weights, "safetensors", state_dict),
    "weights, pt": Loader(weights("a.pt"), read_weights, "pt", state_dict),
    "weights, old pt": Loader(
        weights("a.pt", _use_new_zipfile_serialization=False), read_weights, "pt", state_dict
    ),
    "ledger": Loader(ledger(".jsonl"), lambda path: Ledger.load(path.parent), "json", same_entries),
    "head of a ledger": Loader(ledger(".head"), lambda path: Ledger.load(path.parent), "json", same_entries),
    "certificate": Loader(record, lambda path: bounds.Certificate.from_json(text(path)), "json", certificate),
    "event": Loader(holding("event.json", event_to_json(EVENT)), lambda path: event_from_json(text(path)), "json",
                    lambda found, whole: event_from_json(event_to_json(found)) == found),
    "configuration": Loader(
        holding("config.json", json.dumps(serial.to_dict(run("sgld", "digits2", scale="smoke")))),
        lambda path: serial.from_dict(Run, read_json(path)), "json",
    ),
    "rows of a run": Loader(recorded, lambda path: Folder(path.parent).rows(), "json",
                            lambda found, whole: found == whole[: len(found)]),
    "schedule": Loader(holding("s.json", "[1.0, 2, 3.5]"), calculator.read_schedule, "json", positive),
    "schedule, lines": Loader(holding("s.csv", "2.0\n3.0\n"), calculator.read_schedule, "csv", positive),
    "row hashes": Loader(arrays("r.npz", np.savez, **row_hashes()), known, "npz"),
    "indices": Loader(arrays("i.npy", np.save, arr=np.arange(12)), known, "npy"),
    "registered data": Loader(holding("cells", _CELLS), registered, "npz", operator.eq),
    "what pacdp wrote": Loader(holding(LIST, "\nconfig.json\n"), lambda path: written(path.parent), "json"),
    "cached features": Loader(
        lambda folder: backbone_cache.kept_rows(features(folder), np.ones((3, 2), np.float32)) is not None
        and features(folder).path,
        lambda path: backbone_cache.read_rows(features(path.parent)), "safetensors",
        lambda found, whole: found is None or np.array_equal(found, whole),
    ),
}  # fmt: skip
