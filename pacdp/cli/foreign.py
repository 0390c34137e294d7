"""`pacdp certify` for weights that pacdp did not train: the user's own network and data, by `module:callable`."""

from dataclasses import replace
from pathlib import Path

from torch import nn

from pacdp.certify import MonteCarlo, Prior, Settings, certify
from pacdp.certify.foreign import file_hash, law_of, load_into, read_weights
from pacdp.cli.commands.certify import Foreign
from pacdp.cli.folder import reported
from pacdp.cli.foreign_inputs import called, examples_of, loss_of, seen
from pacdp.cli.runtime import Certifying, Runtime
from pacdp.cli.serial import Values

PASSES = 5
"""Over the examples, with fresh weights for each."""


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
    module = called(given.model, "model")
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"--model {given.model} returned {type(module).__name__}: return a torch.nn.Module"
        )
    if given.loss is not None and given.prior:
        raise ValueError("--loss goes without --prior: it bounds the 0-1 error")
    common: Values = {
        "failure_prob": how.failure_prob or 0.05, "settings": Settings.tried(how.tried, how.by),
        "device": runtime.device,
    }  # fmt: skip
    details: Values = {}
    test = given.test
    if given.prior is None:
        how.require_no_spread("weights without --prior")
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
        law = law_of(module, given.prior, std=how.spread)
        found = certify(
            law_of(module, path, std=how.spread), examples, prior=Prior(law=law, source=source), network=module,
            test=fresh, monte_carlo=MonteCarlo(passes=PASSES), seed=how.seed, progress=how.progress, **common,
        )  # fmt: skip
        details = {"std": how.spread, "prior_std": how.spread, "prior_checkpoint": str(given.prior)}
    prior = {} if given.prior is None else {"prior_hash": file_hash(given.prior)}
    return reported(
        replace(found, details={**found.details, **details}), device=runtime.device, seed=how.seed,
        checkpoint=str(path), content_hash=file_hash(path), **prior,
    )  # fmt: skip
