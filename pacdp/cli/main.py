"""The command `pacdp`: finds the command that its first word names, runs it, turns errors into one sentence.

A command's module is imported when the command is called, since torch takes seconds to import: help and the questions
to `bounds` alone do without.
"""

import os
import sys
from importlib.metadata import version
from typing import Any

import tyro

from pacdp.cli.extensions import Entry, extension
from pacdp.cli.parsing import nearest, parsed, tried
from pacdp.cli.terminal import messages, output, table, usage

COMMANDS: dict[str, Entry] = {
    "demo": Entry(
        "pacdp.cli.commands.demo",
        "Demo",
        "Train a network on the embedded digits, certify its error on new ones, draw it beside Entropy-SGLD's bound.",
    ),
    "train": Entry(
        "pacdp.cli.commands.train",
        "Train",
        "Train a recipe. Any field of its run can be set: --epochs 5 --sampler.tau 100 --problem.random-labels 1.",
    ),
    "compress": Entry(
        "pacdp.cli.commands.train",
        "Compress",
        "Run a learner on examples that it picks itself and certify it on all of them: no prior, nothing held out.",
    ),
    "ledger": Entry(
        "pacdp.cli.commands.ledger",
        "Ledger",
        "The privacy ledger of a data set: everything that was ever released about its rows, paid before it is drawn.",
    ),
    "certify": Entry(
        "pacdp.cli.commands.certify",
        "Certify",
        "Certify a checkpoint: every bound that applies, the optimistic ones labelled, and why the others do not.",
    ),
    "export": Entry(
        "pacdp.cli.commands.export",
        "Export",
        "Write the only folder of a private run that may be published: weights, settings, certificates.",
    ),
    "verify": Entry(
        "pacdp.cli.commands.verify",
        "Verify",
        "Recompute every number of a report or of a run: it follows, does not follow, or cannot be checked and why.",
    ),
    "audit": Entry(
        "pacdp.cli.commands.audit",
        "Audit",
        "Audit the mechanism of a private recipe or run: noise, divisor, batches, sensitivity, accounts, resuming.",
    ),
    "bound": Entry(
        "pacdp.cli.commands.bounds",
        "Bound",
        "A calculator: one bound from its ingredients, all that apply compared, or what a target takes.",
    ),
    "control": Entry(
        "pacdp.cli.commands.control",
        "Control",
        "Choose a threshold at which a risk stays below a target: when to answer, when to sound an alarm.",
    ),
    "monitor": Entry(
        "pacdp.cli.commands.control",
        "Watch",
        "Watch the losses of a deployed predictor: limits of its running risk, and an alarm above what was promised.",
    ),
    "privacy": Entry(
        "pacdp.cli.commands.bounds",
        "Privacy",
        "An accountant: the epsilon of noisy steps on Poisson batches, or the noise that a target epsilon takes.",
    ),
    "plot": Entry(
        "pacdp.cli.commands.pages",
        "Plot",
        "Draw the figure of a run (training and certificates) or of a study's table, into its folder.",
    ),
    "report": Entry(
        "pacdp.cli.commands.pages",
        "Report",
        "Write one HTML page of a run, its certificates or a study: values, assumptions, costs, privacy, provenance.",
    ),
    "data": Entry(
        "pacdp.cli.commands.data",
        "Data",
        "Find, verify and if need be download data sets; print what they are.",
    ),
} | (extension().COMMANDS if extension() else {})
"""Every command by the word that calls it, in the order of the help; those of extensions come last."""
PREDICTIONS = Entry(
    "pacdp.cli.commands.predictions",
    "CertifyPredictions",
    "Certify a model by what it predicted: a table with the columns label and prediction, or an evaluation log.",
)
"""What `certify --predictions` calls, which starts without torch."""
_CONFIG = (tyro.conf.FlagCreatePairsOff,)
_ABOUT = "Risk certificates for trained networks, and what their training reveals."


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit status: 0 success, 1 an error (one sentence on standard error), 2 usage, 130 Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        tried.clear()  # of an earlier command line
        command, rest = _parsed(words)
        command(rest)
    except (ValueError, RuntimeError, OSError) as error:
        messages.print(f"pacdp: {_sentence(error)}", style="red" if messages.is_terminal else None)
        sys.exit(1)
    except KeyboardInterrupt:
        messages.print(
            "pacdp: stopped; a training run goes on with --resume from its last checkpoint, an experiment without"
        )
        sys.exit(130)


def _sentence(error: Exception) -> str:
    """What an error says; the system's own errors name the file first."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split("\n")) or type(error).__name__


def _parsed(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words call, and those that it did not take."""
    if "" in words:
        usage("an empty word stands on the command line: leave it out, or give a value")
    if (
        words[:1] == ["bound"] and words[1:2] and not words[1].startswith("-")
    ):  # then help is about that bound
        words = [{"--help": "--options", "-h": "--options"}.get(word, word) for word in words]
    if words[:1] == ["certify"] and any(word.split("=")[0] == "--predictions" for word in words):
        prog = "pacdp certify --predictions"
        return parsed(
            PREDICTIONS.load(), words[1:], prog=prog, config=_CONFIG, repeatable=("--ask",)
        )
    if words and words[0] in COMMANDS:
        return parsed(
            COMMANDS[words[0]].load(), words[1:], prog=f"pacdp {words[0]}", config=_CONFIG
        )
    if words[:1] == ["--version"]:
        print(f"pacdp {version('pacdp')}")
        sys.exit(0)
    if words[:1] in (["--help"], ["-h"]):
        lines = ((word, entry.headline) for word, entry in COMMANDS.items())
        output().print(table(_ABOUT, ("pacdp COMMAND --help", "what it does"), lines))
        sys.exit(0)
    if words and not words[0].startswith("-"):
        usage(f"there is no command {words[0]!r}: {nearest(words[0], COMMANDS)}")
    usage(f"give a command: one of {', '.join(COMMANDS)}")
