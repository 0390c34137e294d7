"""`pacdp certify` for weights that pacdp did not train: the user's own network and data, by `module:callable`."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from pacdp.certify import (
    BoundSet,
    DataFree,
    HeldOut,
    MonteCarlo,
    Prior,
    Report,
    Settings,
    certify,
)
from pacdp.certify.foreign import file_hash, law_of, load_into, read_weights
from pacdp.cli.commands.certify import Foreign
from pacdp.cli.compressing import finished
from pacdp.cli.folder import reported
from pacdp.cli.foreign_inputs import called, examples_of, loss_of, seen
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
    source = None if given.seen is None else seen(given.seen)
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
    failure_prob = how.failure_prob or 0.05
    common: Values = {
        "failure_prob": failure_prob, "settings": Settings.tried(how.tried, how.by), "device": runtime.device
    }  # fmt: skip
    details: Values = {}
    test = given.test
    if given.surrogate is not None:
        found = _beside(
            module, path, given.surrogate, examples_of(given.data, "data"), source, failure_prob
        )
    elif given.prior is None:
        network = load_into(module, read_weights(path), source=str(path)).to(runtime.device)
        found = certify(
            network, called(given.data, "data"), test=test and called(test, "test"), seen=source,
            loss=loss_of(given.loss), ask=given.ask or None, **common,
        )  # fmt: skip
    else:
        if source is None:
            raise ValueError(
                "say what the prior saw: --seen names its examples, their hashes or their indices, or nothing"
            )
        examples, fresh = examples_of(given.data, "data"), test and examples_of(test, "test")
        prior_std = how.std if given.prior_std is None else given.prior_std
        law = law_of(module, given.prior, std=prior_std)
        found = certify(
            law_of(module, path, std=how.std), examples, prior=Prior(law=law, source=source), network=module,
            test=fresh, monte_carlo=MonteCarlo(passes=given.passes), seed=how.seed, progress=how.progress, **common,
        )  # fmt: skip
        details = {"std": how.std, "prior_std": prior_std, "prior_checkpoint": str(given.prior)}
    prior = {} if given.prior is None else {"prior_hash": file_hash(given.prior)}
    return reported(
        replace(found, details={**found.details, **details}), device=runtime.device, seed=how.seed,
        checkpoint=str(path), content_hash=file_hash(path), **prior,
    )  # fmt: skip


def _beside(
    module: nn.Module, path: Path, folder: Path, examples: BoundSet, source: DataFree | HeldOut | None,
    failure_prob: float,
) -> Report:  # fmt: skip
    """By a network that was compressed: half of the failure probability for its certificate, half for the count."""
    if examples.people is not None:
        raise ValueError(
            "--data must be independent examples with --surrogate, not people's: leave out the people"
        )
    if source is not None and (isinstance(source, DataFree) or source.rows is None):
        raise ValueError(
            "give the rows that --model saw by --seen with --surrogate, or leave it out"
        )
    _, other = finished(folder, Runtime())
    if other.trace.best is None:
        raise ValueError(
            f"the sample of {folder} ran out, so that nothing is certified: compress with smaller groups"
        )
    network = load_into(module, read_weights(path), source=str(path))
    return other.certify_other(
        network, examples.inputs, seen=source and source.rows, failure_prob=failure_prob
    )
