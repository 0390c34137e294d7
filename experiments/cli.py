"""The command `pacdp`: parses, runs, turns errors into one sentence.

What asks `bounds` alone is told apart by the first word and imported alone, since torch takes seconds to import.
"""

import sys
from typing import Any

import tyro

from experiments.terminal import messages

_OF_BOUNDS = ("bound", "privacy")


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit status: 0 success, 1 an error (one sentence on standard error), 2 usage, 130 Ctrl-C."""
    words = sys.argv[1:] if arguments is None else arguments
    command, rest = tyro.cli(
        _commands_of_bounds() if words[:1] and words[0] in _OF_BOUNDS else _all_commands(),
        args=words, prog="pacdp", return_unknown_args=True,
        config=(tyro.conf.FlagCreatePairsOff,),
        description="Risk certificates for trained networks, and what their training reveals.",
    )  # fmt: skip
    try:
        command(rest)
    except (ValueError, RuntimeError, OSError) as error:
        messages.print(f"pacdp: {error}", style="red" if messages.is_terminal else None, markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        messages.print(
            "pacdp: stopped; a training run goes on with --resume from its last checkpoint, an experiment without"
        )
        sys.exit(130)


def _commands_of_bounds() -> Any:
    from experiments.commands_bounds import Command

    return Command


def _all_commands() -> Any:
    from experiments.commands import Command

    return Command


def __getattr__(name: str) -> Any:
    if name == "Command":
        return _all_commands()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    main()
