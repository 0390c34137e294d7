"""The command that certifies predictions, and so starts without torch: certify --predictions."""

import hashlib
from pathlib import Path

import tyro

from pacdp.cli.serial import record
from pacdp.cli.terminal import answer, messages, require_failure_prob, word


@record
class CertifyPredictions:
    """Certify a model by what it predicted: a table with the columns label and prediction, or an evaluation log.

    pacdp certify --predictions answers.csv: one true sentence on the error for new data, then everything else that the
    columns allow, all of it at once with the stated confidence. docs/predictions.md says what the columns mean.
    """

    predictions: Path
    """CSV, JSON, Parquet or npz with the columns label, and prediction or p0, p1, ... (probabilities), and if there are
    any group, person, weight, model, id, loss, loss_...; or a log of lm-evaluation-harness or inspect_ai, or
    a folder of such logs."""
    out: Path | None = None
    """Where to write the report; by default certificates.json beside the file. An earlier report that differs is kept
    as NAME.1, NAME.2, ...; another file is not overwritten."""
    json: bool = False
    """Print the report as JSON instead of a table."""
    failure_prob: float = 0.05
    """The probability with which anything in the report may be wrong."""
    ask: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """What to certify: error, recall, precision, false-alarms, groups, differences, leaderboard, brier, auc,
    calibration, bins, top-5, losses, once for each; by default all that the columns allow but top-k, auc and
    leaderboard. What is not asked is not paid for."""
    interval: bool = False
    """Give every row a lower end too, but calibration and bins, whose gaps have upper ends alone."""
    classes: tuple[str, ...] = ()
    """All classes, where the labels do not have every one, or in the order of the columns p0, p1, ..."""
    ignore: tuple[str, ...] = ()
    """Columns to leave out."""
    positive: str | None = None
    """Of two classes the one that is looked for: adds sensitivity, specificity, predictive values, F1 and balanced
    accuracy, at no cost."""
    metric: str | None = None
    """The score of an evaluation log; by default all whose range is known."""
    range: tuple[float, float] | None = None
    """The least and the largest that the score of an evaluation log can be, whatever this log holds; by default what is
    known of scores of its name. Of a table, the least and the largest that a label can be: then labels and predictions
    are real numbers, and absolute and squared errors are certified."""

    def __call__(self) -> None:
        """Certify the predictions of the file and print what they prove."""
        require_failure_prob(self.failure_prob)
        from pacdp.cli.console import told
        from pacdp.cli.folder import provenance, require_replaceable, write_report
        from pacdp.cli.predicting.logs import is_log, read_logs
        from pacdp.cli.predicting.pairing import examples_of
        from pacdp.cli.predicting.tables import read_table
        from pacdp.predictions.certify import certified

        path = self.predictions
        if not path.exists():
            raise ValueError(f"{path} is not there: give a file of predictions")
        out = self.out or (path if path.is_dir() else path.parent) / "certificates.json"
        require_replaceable(out)
        within = None
        if is_log(path):
            if self.ignore or self.classes:
                raise ValueError(
                    "--ignore and --classes go with tables: an evaluation log has no columns of its own"
                )
            table = read_logs(path, self.metric, self.range)
        else:
            if self.metric is not None:
                raise ValueError(
                    "--metric goes with evaluation logs: a table's losses are its columns loss and loss_..., in 0 to 1"
                )
            table = read_table(path, self.ignore, real=self.range is not None)
            within = self.range
        given = examples_of(path, table, self.classes, within)
        called = (one for one in given.classes if str(one) == self.positive)
        found = certified(
            given,
            failure_prob=self.failure_prob,
            ask=self.ask or None,
            interval=self.interval,
            positive=next(called, self.positive),
        )
        subject = {"predictions": str(path)}
        if path.is_file():
            with path.open("rb") as file:
                subject["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        report = found.to_dict(subject=subject, provenance=provenance(device="cpu", seed=0))
        write_report(out, report)
        answer(report, told(report), as_json=self.json)
        messages.print(f"wrote {out}; check it with pacdp verify {word(out)}")
