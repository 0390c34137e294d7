"""The command that writes down settings before the runs that they are chosen by: choices."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import tyro

from pacdp.canonical import canonical
from pacdp.choices import Choices as List
from pacdp.choices import flat
from pacdp.cli.folder import read_json
from pacdp.cli.overrides import overridden
from pacdp.cli.parsing import no_more
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.recipes import Scale, recipe
from pacdp.cli.serial import to_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Start a list, with the runs of a recipe: every combination of the values of --vary, and other fields as given.

    pacdp choices create list.jsonl --recipe sgld-mnist2 --vary sampler.tau=100,1000 --vary seed=0,1 --epochs 5
    """

    path: tyro.conf.Positional[Path]
    """The list's file, which must not exist."""
    recipe: str | None = None
    """Leave it out for an empty list, to be filled with pacdp choices add."""
    scale: Scale = "smoke"
    seed: int = 0
    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """FIELD=VALUE,VALUE,... of the recipe's run; give it once for each field that varies."""
    name: str = ""
    """What the list is called; by default as its file."""

    def __call__(self, rest: list[str]) -> None:
        """Create the list, with the recipe's settings if a recipe is given."""
        if self.recipe is None:
            if self.vary:
                raise ValueError("--vary changes fields of a recipe: give --recipe as well")
            no_more(rest)
            runs = []
        else:
            runs = [to_dict(run) for run in _grid(self.recipe, self.scale, self.seed, list(self.vary), rest)]
        choices = List.create(self.path, name=self.name, settings=runs)
        print(f"wrote {self.path} with {len(choices.settings)} settings; next: pacdp choices close {self.path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """Write down one more setting: a run's config.json, or any JSON object."""

    path: tyro.conf.Positional[Path]
    settings: tyro.conf.Positional[Path]

    def __call__(self, rest: list[str]) -> None:
        """Add the settings of the file to the list."""
        no_more(rest)
        number = List.load(self.path).add(read_json(self.settings))
        print(f"{self.settings} is number {number} of {self.path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Fix the number J of settings, by which the runs' certificates divide their failure probability."""

    path: tyro.conf.Positional[Path]

    def __call__(self, rest: list[str]) -> None:
        """Close the list, so that nothing can be added."""
        no_more(rest)
        choices = List.load(self.path)
        choices.close()
        print(f"closed {self.path}: J = {choices.J}, digest {choices.digest}")
        print(f"next: pacdp train ... --choices {self.path}; publish the digest to show when the list was closed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """Verify a list and print what is in it."""

    path: tyro.conf.Positional[Path]
    json: bool = False
    """Print JSON: every setting in full."""

    def __call__(self, rest: list[str]) -> None:
        """Print what the list holds."""
        no_more(rest)
        choices = List.load(self.path)
        size = choices.J if choices.closed else None
        if self.json:
            head = {"path": str(self.path), "name": choices.name, "created": choices.created, "closed": choices.closed}
            print(json.dumps({**head, "J": size, "digest": choices.digest, "settings": choices.settings}))
            return
        state = f"closed with J = {size}" if choices.closed else "open"
        print(f"{choices.name}, started {choices.created}, {state}, digest {choices.digest}")
        for number, fields in enumerate(_differences(choices.settings)):
            print(f"{number:4d}  {' '.join(fields) or 'as all others'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """A list of settings, written before the runs: what a choice among them costs, and the proof that it was paid."""

    action: tyro.conf.OmitSubcommandPrefixes[
        Annotated[Create, tyro.conf.subcommand("create")]
        | Annotated[Add, tyro.conf.subcommand("add")]
        | Annotated[Close, tyro.conf.subcommand("close")]
        | Annotated[Show, tyro.conf.subcommand("show")]
    ]

    def __call__(self, rest: list[str]) -> None:
        """Carry out the action that was named."""
        self.action(rest)


def _grid(name: str, scale: Scale, seed: int, vary: list[str], rest: list[str]) -> Iterator[Any]:
    """The recipe's run with every combination of the given values."""
    make = private_recipe if name in PRIVATE_RECIPES else recipe
    first = overridden(make(name, scale=scale, seed=seed), rest)
    axes = []
    for given in vary:
        field, equals, values = given.partition("=")
        if not (field and equals and all(values.split(","))):
            raise ValueError(f"expected --vary FIELD=VALUE,VALUE,... such as sampler.tau=1,10, got {given!r}")
        axes.append([[f"--{field.replace('_', '-')}", value] for value in values.split(",")])
    for chosen in product(*axes):
        yield overridden(first, [word for pair in chosen for word in pair])


def _differences(settings: tuple[dict[str, Any], ...]) -> list[list[str]]:
    """For each setting, the fields in which not all agree."""
    each = [{name: canonical(value) for name, value in flat(one).items()} for one in settings]
    names = sorted({name for one in each for name in one})
    varying = [name for name in names if len({one.get(name) for one in each}) > 1]
    return [[f"{name}={one[name]}" for name in varying if name in one] for one in each]
