"""Runs that are one function call: a configuration goes in, a result comes out, a folder is left."""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.config import Runtime
from experiments.folder import Folder, provenance, write_json
from experiments.serial import to_dict
from experiments.studies.study import Kind, Outcome

Compute = Callable[[Any, Runtime, Path], dict[str, Any]]
"""compute(config, runtime, folder): the values of result.json; it may keep what it needs for resuming in the folder."""


def single(compute: Compute) -> Kind:
    """The kind of runs that ``compute``, a function of a module, carries out one by one; the configuration has a
    ``seed``.
    """
    return Kind(carry_out=functools.partial(_each, compute=compute))


def _each(configs: Sequence[Any], outs: Sequence[Path], runtime: Runtime, *, compute: Compute) -> list[Outcome]:
    return [_one(config, Folder(out), runtime, compute) for config, out in zip(configs, outs, strict=True)]


def _one(config: Any, folder: Folder, runtime: Runtime, compute: Compute) -> Outcome:
    try:
        with folder.lock():
            folder.require_free(config, resume=True)
            runtime.apply()
            made_by = provenance(device=runtime.device, seed=config.seed)
            write_json(folder.provenance, made_by | {"runtime": runtime.recorded()})
            write_json(folder.config, to_dict(config))
            started = time.monotonic()
            result = compute(config, runtime, folder.path)
            # a report of certificates has room for other things under its details
            result.get("details", result)["seconds"] = round(time.monotonic() - started, 2)
            write_json(folder.result, result)
    except (ValueError, RuntimeError, OSError) as error:
        return error
    return None
