"""The command `pacdp`: finds the command that its first word names, runs it, turns errors into one sentence.

A command's module is imported when the command is called, and imports what it needs when it runs, since torch takes
seconds to import: help and the questions to `bounds` alone do without. Command lines are read, and refused, by tyro.
"""

import errno
import importlib
import os
import sys
from importlib.metadata import version
from typing import Any

import tyro

from pacdp.cli.extensions import extension
from pacdp.cli.terminal import messages, nearest, output, table, usage

PREDICTIONS = "pacdp.cli.commands.predictions:CertifyPredictions"
"""What `certify --predictions` calls, which starts without torch."""
COMMANDS: dict[str, str] = {
    "demo": "pacdp.cli.commands.demo:Demo",
    "train": "pacdp.cli.commands.train:Train",
    "compress": "pacdp.cli.commands.train:Compress",
    "ledger": "pacdp.cli.commands.ledger:Ledger",
    "certify": "pacdp.cli.commands.certify:Certify",
    "export": "pacdp.cli.commands.export:Export",
    "verify": "pacdp.cli.commands.verify:Verify",
    "audit": "pacdp.cli.commands.audit:Audit",
    "bound": "pacdp.cli.commands.bounds:Bound",
    "control": "pacdp.cli.commands.control:Control",
    "monitor": "pacdp.cli.commands.control:Watch",
    "privacy": "pacdp.cli.commands.bounds:Privacy",
    "plot": "pacdp.cli.commands.pages:Plot",
    "report": "pacdp.cli.commands.pages:Report",
    "data": "pacdp.cli.commands.data:Data",
} | (extension().COMMANDS if extension() else {})
"""Where every command's class stands, by the word that calls it, in the order of the help; those of extensions come
last."""
_CONFIG = (tyro.conf.FlagCreatePairsOff, tyro.conf.SuppressFixed)
"""Functions among the fields are for Python alone: no command line gives them."""
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
        said = f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"
        closed = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        return f"{said}; copy the folder to where you may read and write" if closed else said
    return " ".join(str(error).split("\n")) or type(error).__name__


def _loaded(where: str) -> Any:
    """The class of a command."""
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


def _run(words: list[str]) -> None:
    """Run the command that the words call."""
    name, *given = words or [""]
    if "" in given:
        usage("an empty word stands on the command line: leave it out, or give a value")
    if name == "--version":
        print(f"pacdp {version('pacdp')}")
    elif name in ("--help", "-h"):
        lines = ((word, _loaded(at).__doc__.partition("\n")[0]) for word, at in COMMANDS.items())
        output().print(table(_ABOUT, ("pacdp COMMAND --help", "what it does"), lines))
    elif name not in COMMANDS:
        asked = f"there is no command {name!r}: {nearest(name, COMMANDS)}"
        usage(asked if name else f"give a command: one of {', '.join(COMMANDS)}")
    else:
        where, prog = COMMANDS[name], f"pacdp {name}"
        files = [word.split("=")[0] for word in given].count("--predictions")
        if name == "certify" and files:
            where, prog = PREDICTIONS, f"{prog} --predictions"
            if files > 1:
                usage(
                    "--predictions goes with one file: certify each by itself, or join the tables"
                )
        kind = _loaded(where)
        fields = getattr(kind, "FIELDS", False)
        how: dict[str, Any] = {"prog": prog, "config": _CONFIG}
        made: Any = tyro.cli(kind, args=given, return_unknown_args=fields, **how)
        made[0](made[1]) if fields else made()
