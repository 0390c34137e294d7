"""The command that certifies a checkpoint, a run or a stranger's weights: certify."""

from dataclasses import replace
from pathlib import Path

import tyro

from pacdp.cli.runtime import Certifying, Runtime, require_unset
from pacdp.cli.serial import record
from pacdp.cli.terminal import answer, require_failure_prob


@record
class Foreign:
    """Weights of your own network: --model and --data name callables as package.module:name, --prior another file."""

    model: str | None = None
    """Called without arguments, returns the network; what the weight file does not hold must be alike at every call."""
    data: str | None = None
    """Called without arguments, returns the examples that the bound rests on: (inputs, labels) or (inputs, labels,
    people), a BoundSet, a Dataset, or a DataLoader, which is read once. With people, the number of each example's
    person, people are counted."""
    test: str | None = None
    """Likewise, examples that neither weights nor prior saw."""
    loss: str | None = None
    """In place of the 0-1 error: absolute:2 or squared:2, an error of regression clipped at 2 and printed as a share of
    that, or module:name of a function of outputs and labels with one loss in [0, 1] an example. Not with --prior."""
    ask: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Without --prior, what to certify of the network as it is, once for each, as for --predictions; by default all."""
    prior: Path | None = None
    """State dict at the prior's mean. Without a prior the network is certified as it is, by examples new to it."""
    seen: str | None = None
    """What the prior saw (without --prior: the network), so that the bound's examples are proved not to be among them:
    a callable like --data's, a .npz file of pacdp.data.Rows.of(...).to_arrays(), which holds hashes of examples alone,
    or a .npy file of which examples of the data set they are, for which the bound's are needed too. "nothing" where the
    prior was fixed before any of the data were looked at; you say so."""


@record
class Certify:
    """Certify a checkpoint: every bound that applies, the optimistic ones labelled, and why the others do not.

    Weights that pacdp did not train: pacdp certify weights.safetensors --model package.module:factory --data
    package.module:bound_set, on examples that are new to them; and with --prior prior.safetensors --std 0.01 and how
    the prior was made, on examples that the weights may have seen.

    Predictions of any model, without its weights: pacdp certify --predictions FILE, whose options are listed by
    pacdp certify --predictions FILE --help.
    """

    path: tyro.conf.Positional[Path]
    """A checkpoint or the run folder that holds it."""
    out: Path | None = None
    """Where to write the report; by default certificates.json beside the checkpoint. An earlier report that differs is
    kept as NAME.1, NAME.2, ...; another file is not overwritten."""
    json: bool = False
    """Print the report as JSON instead of a table."""
    how: tyro.conf.OmitArgPrefixes[Certifying] = Certifying()
    foreign: tyro.conf.OmitArgPrefixes[Foreign] = Foreign()
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = Runtime()

    def __call__(self) -> None:
        """Certify the run, or a network of a stranger's, and write the report."""
        from pacdp.cli.console import progress, told
        from pacdp.cli.folder import followed, require_replaceable, write_report

        require_failure_prob(self.how.failure_prob)
        require_unset(self.runtime, "batching", "bfloat16", "checkpoint_seconds",
                      by="by pacdp certify, which evaluates in float32")  # fmt: skip
        path = followed(self.path) if self.path.is_symlink() else self.path
        folder = path if path.is_dir() else path.parent
        out = self.out or folder / "certificates.json"
        require_replaceable(out)
        with progress("certifying", 1000) as advance:
            how = replace(self.how, progress=lambda done, total: advance(1000 * done // total))
            if self.foreign != Foreign():
                from pacdp.cli.foreign import certify_foreign

                report = certify_foreign(path, self.foreign, self.runtime, how)
            else:
                from pacdp.cli.kinds import certified

                report = certified(path, self.runtime, how)
        write_report(out, report)
        answer(report, told(report), as_json=self.json)
