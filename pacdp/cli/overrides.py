"""Fields of a configuration set on the command line."""

from typing import TypeVar

import tyro

from pacdp.cli.parsing import no_more, parsed

Config = TypeVar("Config")


def overridden(config: Config, rest: list[str]) -> Config:
    """``config`` with the fields that ``rest`` names, such as ``--epochs 5``; ``--help`` lists them and exits."""
    if not rest:
        return config
    found, unknown = parsed(
        type(config),
        rest,
        prog="pacdp train RECIPE --fields",
        config=(tyro.conf.AvoidSubcommands,),
        default=config,
    )
    no_more(unknown)
    return found
