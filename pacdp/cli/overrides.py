"""Fields of a configuration set on the command line."""

from typing import TypeVar

import tyro

Config = TypeVar("Config")


def overridden(config: Config, rest: list[str]) -> Config:
    """``config`` with the fields that ``rest`` names, such as ``--epochs 5``; ``--help`` lists them and exits."""
    if not rest:
        return config
    return tyro.cli(
        type(config),
        default=config,
        args=rest,
        prog="pacdp train RECIPE --fields",
        config=(tyro.conf.AvoidSubcommands,),
    )
