"""Imported by the process that others are forked from: what is compiled or loaded at first use is there in each."""

import contextlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numba
import torch

from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli.config import recipe
from pacdp.cli.figures import style
from pacdp.cli.private.config import private_recipe
from pacdp.cli.private.run import train_private
from pacdp.cli.run import train
from pacdp.cli.runtime import Training
from pacdp.models import Architecture

torch.set_num_threads(1)
numba.config.THREADING_LAYER = "workqueue"  # the one that lives through a fork
with tempfile.TemporaryDirectory() as _folder, contextlib.redirect_stderr(io.StringIO()):
    _effort, _runtime = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2), Training(threads=1)
    _run = recipe("entropy-sgld-digits2", scale="smoke")
    _problem = replace(_run.problem, architecture=Architecture(hidden=(8,)))
    train(replace(_run, problem=_problem, epochs=1.0, records=1, track=_effort), Path(_folder, "chain"), _runtime)
    _drawn, _grid = style.figure(1, 1)
    _grid[0][0].set_title("fonts are read at first use")
    style.save(_drawn, Path(_folder, "figure"))
    _private = private_recipe("dp-sgd-mnist", scale="smoke")
    train_private(replace(_private, sampling=replace(_private.sampling, steps=1), records=1),
                  Path(_folder, "private"), replace(_runtime, ledger=Path(_folder, "ledger")))  # fmt: skip
