"""`pacdp certify` for weights that pacdp did not train: the user's own network and data, by `module:callable`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from pacdp.certify import (
    BoundSet,
    DataFree,
    HeldOut,
    MonteCarlo,
    Prior,
    Report,
    Settings,
    Surrogate,
    certify,
)
from pacdp.certify.foreign import file_hash, law_of, load_into, read_weights
from pacdp.cli.commands.certify import Foreign
from pacdp.cli.compressing import finished
from pacdp.cli.folder import provenance
from pacdp.cli.foreign_inputs import called, examples_of, indices_in, loss_of, rows_in
from pacdp.cli.runtime import Certifying, Runtime
from pacdp.cli.serial import Values


def certify_foreign(path: Path, given: Foreign, runtime: Runtime, how: Certifying) -> Values:
    """The report ``pacdp-certificates/2`` of a Gaussian around the weights in ``path``, or of the network as it is.

    Raises:
        ValueError: something is missing or does not fit.
    """
    runtime.apply()
    if given.model is None or given.data is None:
        raise ValueError(
            "weights that pacdp did not train need --model and --data: the network, and the examples that the bound "
            "rests on; --prior adds weights near these that did not see the examples"
        )
    source = _source(given)
    if given.surrogate is not None and (given.prior or given.test or how.tried != 1):
        raise ValueError(
            "--surrogate goes without --prior, --test and --tried: its folder says what is known"
        )
    module = called(given.model, "model")
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"--model {given.model} returned {type(module).__name__}: return a torch.nn.Module"
        )
    if given.loss is not None and (given.prior or given.surrogate):
        raise ValueError("--loss goes without --prior and --surrogate: these bound the 0-1 error")
    common: Values = {"failure_prob": how.failure_prob or 0.05, "seen": source}
    more = {"settings": Settings.tried(how.tried, how.by), "device": runtime.device}
    if given.surrogate is not None:
        found = _beside(module, path, given.surrogate, examples_of(given.data, "data"), common)
    elif given.prior is None:
        network = load_into(module, read_weights(path), source=str(path)).to(runtime.device)
        data = called(given.data, "data")
        test = None if given.test is None else called(given.test, "test")
        loss = None if given.loss is None else loss_of(given.loss)
        found = certify(
            network, data, test=test, loss=loss, ask=given.ask or None, **common, **more
        )
    else:
        if source is None:
            raise ValueError(
                "say where the prior came from: --prior-data or --prior-rows give the examples that it saw, "
                "--prior-indices lists them, --prior-is-data-free says that it saw none"
            )
        examples = examples_of(given.data, "data")
        test = None if given.test is None else examples_of(given.test, "test")
        prior_std = given.std if given.prior_std is None else given.prior_std
        posterior = law_of(module, path, std=given.std)
        law = law_of(module, given.prior, std=prior_std)
        found = certify(
            posterior, examples, prior=Prior(law=law, source=source), network=module, test=test,
            monte_carlo=MonteCarlo(passes=given.passes), seed=how.seed, progress=how.progress,
            failure_prob=common["failure_prob"], **more,
        )  # fmt: skip
        stds = {"std": given.std, "prior_std": prior_std, "prior_checkpoint": str(given.prior)}
        found = replace(found, details={**found.details, **stds})
    prior = {} if given.prior is None else {"prior_hash": file_hash(given.prior)}
    subject = {"checkpoint": str(path), "content_hash": file_hash(path), **prior}
    return found.to_dict(
        subject=subject, provenance=provenance(device=runtime.device, seed=how.seed)
    )


def _beside(
    module: nn.Module, path: Path, folder: Path, examples: BoundSet, common: Values
) -> Report:
    """By a network that was compressed: half of the failure probability for its certificate, half for the count."""
    source = common["seen"]
    if examples.people is not None:
        raise ValueError(
            "--data must be independent examples with --surrogate, not people's: leave out the people"
        )
    if source is not None and (isinstance(source, DataFree) or source.rows is None):
        raise ValueError(
            "give the rows that --model saw by --prior-data or --prior-rows with --surrogate, or none"
        )
    _, other = finished(folder, Runtime())
    if other.trace.best is None:
        raise ValueError(
            f"the sample of {folder} ran out, so that nothing is certified: compress with smaller groups"
        )
    made = other.certificate(0.5 * common["failure_prob"])
    network = load_into(module, read_weights(path), source=str(path))
    own = Surrogate(network=other.network, certificate=made, saw=other.saw)
    return certify(
        network, examples.inputs, surrogate=own, seen=source and source.rows,
        failure_prob=common["failure_prob"],
    )  # fmt: skip


def _source(given: Foreign) -> DataFree | HeldOut | None:
    """What the prior saw, or the network where there is none."""
    made: dict[str, Callable[[Any], DataFree | HeldOut]] = {
        "prior_data": lambda name: HeldOut(rows=examples_of(name, "prior-data").rows),
        "prior_rows": lambda file: HeldOut(rows=rows_in(file)),
        "prior_indices": lambda file: HeldOut(indices=indices_in(file)),
        "prior_is_data_free": lambda _: DataFree(),
    }
    used = [name for name in made if getattr(given, name) not in (None, False)]
    if len(used) > 1:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in used)
        raise ValueError(f"{flags} all say what the prior saw: give one of them")
    return made[used[0]](getattr(given, used[0])) if used else None
