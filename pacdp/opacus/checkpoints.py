"""What loops of one's own write: checkpoints (:mod:`pacdp.resume`), a ledger, and what may be published."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from bounds.accounting import Event, NonPrivate, PoissonSampled
from bounds.privacy import Adjacency
from pacdp.errors import CheckpointError
from pacdp.opacus.accountant import Account, EventAccountant
from pacdp.opacus.arguments import PUBLIC_SIZE
from pacdp.opacus.epochs import OnceAnEpochSampler
from pacdp.opacus.guard import Guard
from pacdp.opacus.modules import network
from pacdp.opacus.optimizers import PrivateOptimizer
from pacdp.resume import RunState, export, load_run, save_run
from pacdp.step import event as events
from pacdp.step.noise import Randomness, SystemRandomness
from pacdp.step.processes import process_rank
from pacdp.store.files import path_of
from pacdp.store.ledger import Ledger


class Files:
    """What an engine writes and reads."""

    randomness: Randomness
    accountant: EventAccountant  # pyright: ignore[reportUninitializedInstanceVariable]
    _made: tuple[nn.Module, Any] | None = None
    _guard: Guard
    _several = False

    @property
    def event(self) -> Event | None:
        """The mechanisms that ran; None before the first step."""
        return self.accountant.event

    def last_made(self) -> tuple[nn.Module, Any]:
        """The network that was made private last, and its data.

        Raises:
            ValueError: there is none.
        """
        if self._made is None:
            raise ValueError("nothing was made private by this engine: call make_private first")
        return self._made

    def ledger(self, folder: Path | str) -> Ledger:
        """Count every step in the ledger of this folder before its noise is drawn, pass by pass, and return it.

        Steps that this engine has recorded before are entered at once, and those of a checkpoint when it is loaded, if
        no ledger counted them.

        Raises:
            ValueError: the engine counts in a ledger already; the ledger is damaged or cannot be written.
        """
        if self.accountant.books is not None:
            raise ValueError("this engine counts its steps in a ledger already: open no second one")
        self.accountant.books = book = Ledger.open(folder)
        self.accountant.enter()
        return book

    def export(self, folder: Path | str) -> Path:
        """Write the weights of the network that was made private last, with the event, into a new folder to publish.

        Of several processes the first writes. Buffers are not among the weights: they are those of ``make_private``.

        Raises:
            ValueError: nothing was released; noise from a seed, which can be subtracted, or none; weights that were
                moved since the last step; a folder that exists.
            CheckpointError: it cannot be written.
        """
        module, path = self.last_made()[0], path_of(folder=folder) / "weights.safetensors"
        if not isinstance(self.randomness, SystemRandomness):
            raise ValueError(
                "the noise came from a seed, and whoever knows it can subtract it: publish what PrivateEngine() trained"
            )
        if self.event is None:
            raise ValueError("no step was made, so that there is nothing to publish: train first")
        if any(isinstance(step, NonPrivate) for step, _ in events.runs_of(self.event)):
            raise ValueError(
                "noise_multiplier was 0 at some step, so that nothing hides an example: publish what was trained with "
                "noise at every step"
            )
        if not self._guard.weights.kept():
            raise ValueError(
                "the weights of the network that was made private last are not those that a private step of its own "
                "left, and what moved them may have seen the data: export after its steps, before they are changed"
            )
        if self._several and process_rank() > 0:
            return path
        if path.parent.exists():
            raise ValueError(f"{folder} exists: give the name of a folder that is not there yet")
        path_of(folder=path.parent, made=True)
        try:
            export(
                path,
                weights=dict(module.named_parameters()),
                event=self.event,
                adjacency=self.accountant.adjacency,
                remark=PUBLIC_SIZE if self.accountant.public_size else "",
            )
        except CheckpointError:
            path.parent.rmdir()  # the next try finds its place free
            raise
        return path

    def save_checkpoint(
        self,
        *,
        path: Path | str,
        module: nn.Module,
        optimizer: PrivateOptimizer,
        **of_opacus: Any,
    ) -> None:
        """Write weights, optimizer, event and generator states as safetensors; see :mod:`pacdp.resume`.

        Of several processes the first writes; all must call this.

        Raises:
            ValueError: further arguments of Opacus's.
        """
        state = self._state(module, optimizer, self.accountant.adjacency, **of_opacus)
        state.step, state.history = optimizer.logical_step, events.History(self.event)
        state.receipt = self.accountant.receipt
        save_run(path, state, together=optimizer.account.together)

    def load_checkpoint(
        self,
        *,
        path: Path | str,
        module: nn.Module,
        optimizer: PrivateOptimizer,
        **of_opacus: Any,
    ) -> None:
        """Read it back into ``module``, ``optimizer`` and this engine. No code runs on load.

        Raises:
            CheckpointError: no such file, another kind of file, another network, another noise schedule than the one
                that the history records, or an engine that has a history of its own, which loading would forget.
            ValueError: further arguments of Opacus's; steps that another ledger counts than this engine's, or that one
                counts where it has none.
        """
        state, account = self._state(module, optimizer, None, **of_opacus), optimizer.account
        optimizer.guard.set_up.require()  # what is read is kept as what was tried

        def check(read: RunState) -> None:
            _require_schedule(path, account, read)
            self.accountant.require(read.receipt)

        load_run(path, state, together=account.together, check=check)
        optimizer.go_on(state.step)
        self.accountant.public_size |= state.adjacency != events.ADJACENCY
        self.accountant.begin(state.history.event, state.receipt)

    def _state(
        self,
        module: nn.Module,
        optimizer: PrivateOptimizer,
        adjacency: Adjacency | None,
        **of_opacus: Any,
    ) -> RunState:
        if any(given is not None for given in of_opacus.values()):
            raise ValueError(
                f"{', '.join(of_opacus)} cannot be kept in a checkpoint, which holds tensors and numbers and no "
                "pickled objects: write yours beside it, and give make_private noise_multiplier= a function of the step"
            )
        if optimizer.account.accountant is not self.accountant:
            raise CheckpointError(
                "the optimizer is another engine's, which counts its steps: take the one that this engine's "
                "make_private returned"
            )
        if network(module) is not optimizer.guard.module:
            raise CheckpointError(
                "module is another network than optimizer trains: take both as make_private returned them"
            )
        sampler = optimizer.guard.sampler
        once = isinstance(sampler, OnceAnEpochSampler)
        return RunState(
            module=network(module),
            optimizer=optimizer.original_optimizer,
            randomness=self.randomness,
            public={
                "clip_norm": cast(float, optimizer.max_grad_norm),
                "expected_batch_size": cast(float, optimizer.expected_batch_size),
            },
            settings={"batches of an epoch": sampler.batches} if once else {},
            generators={"epoch": sampler} if once else {},
            adjacency=adjacency,
        )


def _require_schedule(path: Path | str, account: Account, read: RunState) -> None:
    """The last steps of the event are this optimizer's (earlier ones are of earlier chains)."""
    ran, made = read.history.event, read.step
    if account.once:
        made = -(-made // account.every) * account.every
    own = events.after(ran, events.steps_of(ran) - made)
    due = account.planned(0, made)
    if _each_step(own) != _each_step(due):
        raise CheckpointError(
            f"{path} records other noise multipliers for its {read.step} steps than noise_multiplier gives: "
            "resume with the schedule that it was trained with"
        )


def _each_step(event: Event | None) -> list[Event]:
    """All steps or epochs one after another, whatever the rate of Poisson batches."""
    return [
        replace(step, sample_rate=1.0) if isinstance(step, PoissonSampled) else step
        for step, count in events.runs_of(event)
        for _ in range(count)
    ]
