"""`pacdp certify` for weights that pacdp did not train: the user's own network and data, by `module:callable`."""

from collections.abc import Mapping
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
from pacdp.certify.gaussian import Progress
from pacdp.cli.commands.certify import Foreign
from pacdp.cli.compressing import finished
from pacdp.cli.folder import provenance
from pacdp.cli.foreign_inputs import called, examples_of, fitting, indices_in, loss_of, rows_in
from pacdp.cli.runtime import Runtime


def certify_foreign(
    path: Path,
    given: Foreign,
    runtime: Runtime,
    *,
    failure_prob: float,
    seed: int = 0,
    tried: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report ``pacdp-certificates/2`` of a Gaussian around the weights in ``path``, or of the network as it is.

    ``tried`` is how many settings were tried on these examples, each of which the certificates pay for.

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
    if given.surrogate is not None and (given.prior or given.test or tried != 1):
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
    common: dict[str, Any] = {
        "failure_prob": failure_prob,
        "settings": Settings.tried(tried),
        "device": runtime.device,
    }
    if given.surrogate is not None:
        found = _beside(
            module, path, given.surrogate, examples_of(given.data, "data"), source, failure_prob
        )
    elif given.prior is None:
        found = _as_it_is(module, path, given, source, common)
    else:
        examples = examples_of(given.data, "data")
        common["test"] = None if given.test is None else examples_of(given.test, "test")
        how = {"monte_carlo": MonteCarlo(passes=given.passes), "seed": seed, "progress": progress}
        found = _around(module, path, given.prior, given, examples, source, common | how)
    prior = {} if given.prior is None else {"prior_hash": file_hash(given.prior)}
    subject = {"checkpoint": str(path), "content_hash": file_hash(path), **prior}
    return found.to_dict(subject=subject, provenance=provenance(device=runtime.device, seed=seed))


def _as_it_is(
    module: nn.Module,
    path: Path,
    given: Foreign,
    source: DataFree | HeldOut | None,
    common: Mapping[str, Any],
) -> Report:
    """What examples that are new to the network say of it."""
    assert given.data is not None
    network = load_into(module, read_weights(path), source=str(path)).to(common["device"])
    return certify(
        network, called(given.data, "data"), test=None if given.test is None else called(given.test, "test"),
        loss=None if given.loss is None else loss_of(given.loss), ask=given.ask or None, seen=source, **common,
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
            "give the rows that --model saw by --prior-data or --prior-rows with --surrogate, or none"
        )
    other = finished(folder, Runtime())
    made = next(
        (one for one in other.assess(0.5 * failure_prob).certificates if one.name == "compression"),
        None,
    )
    if made is None:
        raise ValueError(
            f"the sample of {folder} ran out, so that nothing is certified: compress with smaller groups"
        )
    network = load_into(module, read_weights(path), source=str(path))
    fitting(network, "cpu", examples)
    own = Surrogate(network=other, certificate=made, saw=other.saw)
    return certify(
        network, examples.inputs, surrogate=own, failure_prob=failure_prob,
        seen=None if source is None else source.rows,
    )  # fmt: skip


def _around(
    module: nn.Module,
    path: Path,
    prior_path: Path,
    given: Foreign,
    examples: BoundSet,
    source: DataFree | HeldOut | None,
    common: Mapping[str, Any],
) -> Report:
    """The randomised network and what goes with it."""
    if source is None:
        raise ValueError(
            "say where the prior came from: --prior-data or --prior-rows give the examples that it saw, "
            "--prior-indices lists them, --prior-is-data-free says that it saw none"
        )
    prior_std = given.std if given.prior_std is None else given.prior_std
    posterior = law_of(module, path, std=given.std)
    law = law_of(module, prior_path, std=prior_std)
    fitting(module, "cpu", examples, common["test"])
    found = certify(
        posterior, examples, prior=Prior(law=law, source=source), network=module, **common
    )
    stds = {"std": given.std, "prior_std": prior_std, "prior_checkpoint": str(prior_path)}
    return replace(found, details={**found.details, **stds})


def _source(given: Foreign) -> DataFree | HeldOut | None:
    """What the prior saw, or the network where there is none."""
    options = {
        "--prior-data": given.prior_data is not None,
        "--prior-rows": given.prior_rows is not None,
        "--prior-indices": given.prior_indices is not None,
        "--prior-is-data-free": given.prior_is_data_free,
    }
    named = [name for name, used in options.items() if used]
    if len(named) > 1:
        raise ValueError(
            f"expected one of {', '.join(options)}, got {' and '.join(named)}: give one of them"
        )
    if given.prior_data is not None:
        return HeldOut(rows=examples_of(given.prior_data, "prior-data").rows)
    if given.prior_rows is not None:
        return HeldOut(rows=rows_in(given.prior_rows))
    if given.prior_indices is not None:
        return HeldOut(indices=indices_in(given.prior_indices))
    return DataFree() if given.prior_is_data_free else None
