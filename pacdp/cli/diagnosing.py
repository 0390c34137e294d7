"""Diagnostics of a run's chains from the traces in their checkpoints: they can refute stationarity, never prove it."""

from collections.abc import Sequence
from pathlib import Path

from pacdp import load_checkpoint
from pacdp.chains import Diagnosis, Trace
from pacdp.chains.diagnostics import diagnose
from pacdp.store.checkpoint import Checkpoint


def chain_folder(out: Path, chain: int) -> Path:
    """Where chain number ``chain`` of several has its folder."""
    return out / f"chain-{chain:02d}"


def diagnose_checkpoints(checkpoints: Sequence[Checkpoint]) -> Diagnosis | None:
    """The diagnosis of chains of one run at one step; None where nothing was recorded."""
    traces = [checkpoint.trace for checkpoint in checkpoints]
    if not traces or not all(traces):
        return None
    # the width of a window does not enter the diagnostics
    return diagnose(Trace.of(1, traces).arrays())


def siblings(path: Path) -> list[Checkpoint]:
    """The checkpoint at ``path`` and those of the other chains of its run that stand at the same step."""
    folder = path if path.is_dir() else path.parent
    own = load_checkpoint(path)
    found = [own]
    if folder.name.startswith("chain-"):
        for other in sorted(folder.parent.glob("chain-*/checkpoint.safetensors")):
            if other.parent.resolve() != folder.resolve():
                checkpoint = load_checkpoint(other)
                if _same_run(own, checkpoint):
                    found.append(checkpoint)
    return found


def _same_run(one: Checkpoint, other: Checkpoint) -> bool:
    shared = ("problem", "sampler", "step", "data", "seed")
    alike = all(one.header.get(name) == other.header.get(name) for name in shared)
    return alike and {n: t.shape for n, t in one.trace.items()} == {
        n: t.shape for n, t in other.trace.items()
    }
