"""The command `pacdp`: finds the command that its first word names, runs it, turns errors into one sentence.

The modules of the commands import what they need when they are called, since torch takes seconds to import: help and
the questions to `bounds` alone do without. Command lines are read, and refused, by tyro.
"""

import os
import sys
from importlib.metadata import version
from typing import Any

import tyro

from pacdp.cli.commands.audit import Audit
from pacdp.cli.commands.bounds import Bound, Privacy
from pacdp.cli.commands.certify import Certify
from pacdp.cli.commands.control import Control, Watch
from pacdp.cli.commands.data import Data
from pacdp.cli.commands.demo import Demo
from pacdp.cli.commands.export import Export
from pacdp.cli.commands.ledger import Ledger
from pacdp.cli.commands.pages import Plot, Report
from pacdp.cli.commands.predictions import CertifyPredictions
from pacdp.cli.commands.train import Compress, Train
from pacdp.cli.commands.verify import Verify
from pacdp.cli.extensions import extension
from pacdp.cli.parsing import nearest
from pacdp.cli.terminal import messages, output, table, usage

COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "train": Train,
    "compress": Compress,
    "ledger": Ledger,
    "certify": Certify,
    "export": Export,
    "verify": Verify,
    "audit": Audit,
    "bound": Bound,
    "control": Control,
    "monitor": Watch,
    "privacy": Privacy,
    "plot": Plot,
    "report": Report,
    "data": Data,
} | (extension().COMMANDS if extension() else {})
"""Every command by the word that calls it, in the order of the help; those of extensions come last."""
_ABOUT = "Risk certificates for trained networks, and what their training reveals."


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit status: 0 success, 1 an error (one sentence on standard error), 2 usage, 130 Ctrl-C."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
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


def _run(words: list[str]) -> None:
    """Run the command that the words call."""
    name, *given = words or [""]
    if "" in given:
        usage("an empty word stands on the command line: leave it out, or give a value")
    if name == "--version":
        print(f"pacdp {version('pacdp')}")
    elif name in ("--help", "-h"):
        lines = ((word, kind.__doc__.partition("\n")[0]) for word, kind in COMMANDS.items())
        output().print(table(_ABOUT, ("pacdp COMMAND --help", "what it does"), lines))
    elif name not in COMMANDS:
        asked = f"there is no command {name!r}: {nearest(name, COMMANDS)}"
        usage(asked if name else f"give a command: one of {', '.join(COMMANDS)}")
    else:
        kind, prog = COMMANDS[name], f"pacdp {name}"
        if kind is Certify and any(word.split("=")[0] == "--predictions" for word in given):
            kind, prog = CertifyPredictions, f"{prog} --predictions"
        fields = getattr(kind, "FIELDS", False)
        how: dict[str, Any] = {"prog": prog, "config": (tyro.conf.FlagCreatePairsOff,)}
        made: Any = tyro.cli(kind, args=given, return_unknown_args=fields, **how)
        made[0](made[1]) if fields else made()
