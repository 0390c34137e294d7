"""`pacdp train` for private recipes. Opacus is imported when one is trained, not before."""

import json
from pathlib import Path
from typing import Any

from bounds.sentence import up
from pacdp import load_checkpoint
from pacdp.cli.config import Runtime
from pacdp.cli.console import DownloadBar, progress
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.overrides import overridden
from pacdp.cli.parsing import no_more
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.recipes import private_recipe
from pacdp.cli.serial import from_dict, to_dict
from pacdp.cli.terminal import messages, output, word


def holds_private_run(out: Path) -> bool:
    """Whether the folder's configuration is a private run's."""
    config = Folder(out).config
    return config.is_file() and "budget" in read_json(config)


def is_private(path: Path) -> bool:
    """Whether the checkpoint is a private run's."""
    return str(load_checkpoint(path).header.get("kind", "")).startswith("private-run/")


def train_private_recipe(
    name: str | None, rest: list[str], *, scale: str, out: Path | None, seed: int, runtime: Runtime, resume: bool,
    force: bool, as_json: bool, show: bool, fields: bool, alone: bool,
    ledger: Path | None = None, uncounted: bool = False,
) -> None:  # fmt: skip
    """Train the private recipe of that name, or go on with the private run in ``out``.

    Steps are counted in ``ledger``, by default the one beside ``out``, unless ``uncounted``.

    Raises:
        ValueError: several chains or workers (``alone`` is False), which private recipes do not have.
    """
    if name is not None:
        rest = ["--help"] if fields else rest
        config = overridden(private_recipe(name, scale=scale, seed=seed), rest)
        if config.method.by_person and any(word.endswith("ghost") for word in rest):
            raise ValueError(
                "sampling.grad_sample_mode 'ghost' clips gradients of single examples, and "
                f"{config.algorithm} what a person contributes, which is taken by the reference: leave it out"
            )
        out = out or Path("runs") / f"{name}-{scale}"
    else:
        assert out is not None
        no_more(rest)
        config = from_dict(PrivateConfig, read_json(Folder(out).config))
    if show:
        print(json.dumps(to_dict(config), indent=2))
        return
    if not alone:
        raise ValueError("a private recipe is one run: leave --chains, --workers and --backend; every further run on "
                         "the same data spends its own epsilon")  # fmt: skip
    if ledger is not None and uncounted:
        raise ValueError("--ledger and --no-ledger contradict each other: give one of them")
    from pacdp.cli.private.books import beside
    from pacdp.cli.private.run import train_private

    counted_in = None if uncounted else ledger or beside(out)
    with progress(f"{config.algorithm} on {config.dataset}", config.sampling.steps) as advance:

        def report(step: int, steps: int, row: dict[str, Any] | None) -> None:
            advance(
                step, f"step {row['step']}/{steps}, epsilon {up(row['epsilon'])}" if row else None
            )

        result = train_private(config, out, runtime, resume=resume, force=force, report=report,
                               progressbar=DownloadBar(), ledger=counted_in)  # fmt: skip
    if as_json:
        print(json.dumps(result, allow_nan=False))
    else:
        print_result(result)
    tell_private(out, counted_in)


def tell_private(out: Path, ledger: Path | None) -> None:
    """Say that a private run is finished, which ledger counts it, and what may be done with it."""
    counted = (
        "counted in no ledger" if ledger is None else f"counted in {ledger} (pacdp ledger show)"
    )
    messages.print(f"finished {out}, {counted}; the folder is private")
    messages.print(
        f"next: pacdp certify {word(out)} for your eyes, pacdp export {word(out)} OUT for what may be published"
    )


def print_result(result: dict[str, Any]) -> None:
    """Accuracy, calibration and privacy of a private run, in lines on standard output."""
    out, spent, test = output(), result["privacy"], result["test"]
    halted = f", halted by the budget before step {result['steps'] + 1}" if result["halted"] else ""
    out.print(f"{result['algorithm']}: {result['steps']} steps{halted}, {result['parameters']} parameters, "
              f"{result['seconds']:.0f} s")  # fmt: skip
    out.print(f"test ({result['n_test']} examples): accuracy {test['accuracy']:.4f}, AUC {_number(test['macro_auc'])}, "
              f"ECE {test['ece']:.4f}, NLL {_number(test['nll_nats'])}, Brier {test['brier']:.4f}")  # fmt: skip
    out.print(f"privacy: epsilon <= {up(spent['upper'])} at delta {spent['delta']:g}, {spent['adjacency']} neighbours "
              f"(one {spent['unit']} among {spent['units']}); {spent['status']}; noise: {spent['noise']}")  # fmt: skip
    if spent["units_are"] == "public":
        of = spent["of_budget"]
        out.print(f"  sampling.public_size is 0, and so the weights tell n, which counts each {spent['unit']} once: "
                  f"only data sets of equal size are neighbours; {up(of['epsilon'])} of the budget is spent, "
                  f"{of['adjacency']}")  # fmt: skip
    if "published_accounting" in spent:
        out.print(
            f"  the paper's accounting of this run: {spent['published_accounting']['epsilon']:.3f} (optimistic)"
        )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
