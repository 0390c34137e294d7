"""What a run is made of: learners of what people have, a training function, a scikit-learn estimator; and its rules.

When a run picks how many records, and when it stops, is fixed beforehand, whatever the sample.
"""

import copy
import hashlib
import random
import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from pacdp.certify.examples import python_number
from pacdp.certify.outputs import logits_of
from pacdp.errors import naming, said
from pacdp.models import require_shapes
from pacdp.store.record import record
from pacdp.trials import kept_draws


def whole_numbers(given: Any) -> Any:
    """A list, range or array of numbers as a tuple, without types of NumPy; anything else as it is."""
    several = isinstance(given, list | tuple | range | np.ndarray)
    return tuple(map(python_number, given)) if several else given


@record
class Groups:
    """How many records each round picks, by how many were picked before.

    Smaller groups need fewer records and more rounds. Nothing else may decide the size: a group that depended on how
    many errors are left would break the theorem.
    """

    sizes: tuple[int, ...] = (10,)
    """The sizes, in the order in which they take turns."""
    starts: tuple[int, ...] = (0,)
    """How many records are picked when each of them begins; the first begins at 0."""

    def __post_init__(self) -> None:
        for name in ("sizes", "starts"):
            object.__setattr__(self, name, whole_numbers(getattr(self, name)))
        whole = bool(self.sizes) and all(type(g) is int and g >= 1 for g in self.sizes)
        rising = list(self.starts) == sorted({0, *self.starts})
        if not whole or not rising or len(self.starts) != len(self.sizes):
            raise ValueError(
                f"expected sizes that are whole numbers >= 1, and a start for each, rising from 0, got {self}"
            )

    def at(self, picked: int) -> int:
        """The size of the group that is picked when so many records are."""
        return self.sizes[bisect(self.starts, picked) - 1]


@record
class Stop:
    """When the run ends.

    With ``no_errors_left`` it ends when the network errs on no record that it has not picked. With ``rounds`` it ends
    after the last of them, and each of them is an end that may be reported: those J ends share the failure probability.
    With both, whichever comes first.
    """

    no_errors_left: bool = True
    rounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole_numbers(self.rounds))
        given: Any = self.rounds
        rounds = [*given] if isinstance(given, tuple | list) else [None]
        rising = rounds == sorted({r for r in rounds if isinstance(r, int) and r >= 1})
        if self.no_errors_left not in ((True, False) if rounds else (True,)) or not rising:
            raise ValueError(
                f"expected no_errors_left as True or False, True without rounds, and rounds that rise from 1: {self}"
            )

    @property
    def ends(self) -> int:
        """J, how many ends share the failure probability."""
        return max(1, len(self.rounds))

    def may_end(self, number: int, errors: int) -> bool:
        """Whether a run may end after this round, with so many errors left."""
        return number in self.rounds or (self.no_errors_left and not errors)

    @property
    def last(self) -> float:
        """The last round; infinite where errors alone decide."""
        return float(self.rounds[-1]) if self.rounds else float("inf")


ANSWERS = ("decision_function", "predict_proba", "predict")
"""What an estimator may answer by, the most telling first."""
_FEW = (
    "; it has seen none but the records picked so far: if these are too few, or lack a class or category, take larger "
    "groups, or settings that allow it"
)
State = Any
"""What training leaves: tensors by name, or anything else, which a resumed run then makes again from the picks."""


def of_tensors(state: State) -> bool:
    """Whether a state is tensors by name."""
    return isinstance(state, Mapping) and all(isinstance(one, Tensor) for one in state.values())


@runtime_checkable
class Learner(Protocol):
    """A learner: its state after a round is a function of the records picked so far, and of nothing else of the data.

    Attributes:
        record: JSON values that determine the learner, for the run's file.
    """

    @property
    def record(self) -> Mapping[str, Any]:
        """Return the JSON values that determine the learner."""
        ...

    def view(self, inputs: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "n ..."]:
        """What the network is given of each record: a fixed map, record by record."""
        ...

    def train(
        self,
        state: State | None,
        inputs: Shaped[Tensor, "n ..."],
        labels: Int64[Tensor, " n"],
        *,
        round: int,
        seed: int,
    ) -> State:
        """The state after a round, from that before it and all records picked, in their order, the newest last.

        Args:
            state: the one before; None in the first round. It is not changed.
            round: counted from 1; with ``seed`` it says which random numbers are drawn.
        """
        ...

    def outputs(self, state: State, viewed: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
        """One logit a class, or one logit for two classes, for each record by itself."""
        ...


@contextmanager
def seeded(seed: int, round: int) -> Iterator[None]:
    """The global random numbers of torch, NumPy and Python are those of this round; afterwards they go on as before."""
    drawn = np.random.SeedSequence([seed, round]).generate_state(3, np.uint64)
    first = torch.Generator().manual_seed(int(drawn[0] >> np.uint64(1)))
    with kept_draws() as of_numpy:
        torch.set_rng_state(first.get_state())
        of_numpy.set_state(np.random.RandomState(np.random.MT19937(int(drawn[1]))).get_state())
        random.setstate(random.Random(int(drawn[2])).getstate())
        yield


def is_estimator(model: Any, *, by: Collection[str] = ("predict",)) -> bool:
    """Whether a model is fitted, and answers by one of these methods, like an estimator of scikit-learn.

    Those of its class count too: some estimators, as stacks of others, say only once they are fitted what they have.
    """
    said = any(callable(getattr(one, name, None)) for name in by for one in (model, type(model)))
    return said and callable(getattr(model, "fit", None))


def unfitted(estimator: Any) -> Any:
    """A copy of an estimator without what it learnt before, as ``clone`` of scikit-learn makes it.

    One that cannot be cloned keeps that.

    Raises:
        ValueError: there is no copy of it.
    """
    try:
        # no scikit-learn, or an estimator without get_params
        with suppress(ImportError, TypeError):
            from sklearn.base import clone

            return clone(estimator)
        return copy.deepcopy(estimator)
    except Exception as error:  # a stranger's class
        raise ValueError(
            f"{type(estimator).__name__} must be something that can be copied: make locks, files and generators in fit "
            f"or forward, and keep what __init__ is given under the same names ({said(error)})"
        ) from error


@record
class Torch:
    """A network and a function that trains it, as people write them.

    Attributes:
        network: the network with its first weights. Each round goes on from the weights of the round before it.
        train_network: trains a network in place on the records picked so far, (network, inputs, labels), or returns
            another one with the same parameters and buffers, as a copy of the best. Global random numbers are seeded
            before each call.
        name: what the run's file calls the function.
    """

    network: nn.Module
    train_network: Callable[[nn.Module, Tensor, Tensor], object]
    name: str = "a training function"

    def __post_init__(self) -> None:
        require_shapes(self.network, "network")
        for name, kept in self.network.state_dict().items():
            if not isinstance(kept, Tensor):
                raise ValueError(
                    f"network keeps {type(kept).__name__} as {name!r} of its state_dict: register tensors as buffers, "
                    "in place of get_extra_state"
                )

    @property
    def record(self) -> Mapping[str, Any]:
        """The name, the network's parameters by shape, and a hash of their first values."""
        first = self.network.state_dict()
        shapes = {name: list(tensor.shape) for name, tensor in first.items()}
        own = hashlib.sha256()
        for one in first.values():
            own.update(one.detach().cpu().flatten().view(torch.uint8).numpy())
        return {
            "kind": "Torch",
            "name": self.name,
            "parameters": shapes,
            "values": own.hexdigest(),
        }

    def view(self, inputs: Tensor) -> Tensor:
        """The inputs as they are."""
        return inputs

    def train(
        self, state: State | None, inputs: Tensor, labels: Tensor, *, round: int, seed: int
    ) -> State:
        """The weights and buffers after one more call of the function."""
        network = self._at(state).train()
        with seeded(seed, round), naming("train_network"):
            made = self.train_network(network, inputs, labels)
        if isinstance(made, nn.Module) and {*made.parameters()} != {*network.parameters()}:
            network = made  # not a wrapper of the one that was trained in place
        trained = network.state_dict()
        own, left = (
            {n: one.shape for n, one in of.items()} for of in (self.network.state_dict(), trained)
        )
        if odd := [name for name in own | left if own.get(name) != left.get(name)]:
            raise ValueError(
                f"train_network left a network whose {odd[0]!r} has another shape than that of network, or is in one "
                "of them alone: exchange layers before network is handed over, and return none with "
                "other layers or names"
            )
        return {name: tensor.detach().clone() for name, tensor in trained.items()}

    @torch.no_grad()
    def outputs(self, state: State, viewed: Tensor) -> Tensor:
        """The outputs of the network in eval mode."""
        with naming("network"):
            # a copy, on which the network may write
            return logits_of(self._at(state).eval()(viewed.clone()))

    def _at(self, state: State | None) -> nn.Module:
        network = copy.deepcopy(self.network)
        if state is not None:
            network.load_state_dict(state)
        return network


@record
class Estimator:
    """A classifier of scikit-learn, or one that is called like it, fitted anew in every round.

    Attributes:
        estimator: with ``fit`` and one of ``decision_function``, ``predict_proba`` and ``predict``; a copy is fitted
            that knows nothing yet (:func:`unfitted`).
        classes: how many classes there are; one that no picked record has is never answered.
    """

    estimator: Any
    classes: int

    @property
    def record(self) -> Mapping[str, Any]:
        """The estimator's parameters, as it prints them but for addresses of memory."""
        name, asked = type(self.estimator).__name__, getattr(self.estimator, "get_params", dict)
        settings = {
            key: re.sub(" at 0x[0-9a-f]+", "", repr(value))
            for key, value in sorted(asked().items())
        }
        return {
            "kind": "Estimator",
            "estimator": name,
            "settings": settings,
            "classes": self.classes,
        }

    def view(self, inputs: Tensor) -> Tensor:
        """Rows of numbers."""
        return inputs[:, None].flatten(1)

    def train(
        self, state: State | None, inputs: Tensor, labels: Tensor, *, round: int, seed: int
    ) -> State:
        """A fitted copy; where all records have one class, that class."""
        if len(labels.unique()) == 1:
            return int(labels[0])
        made = unfitted(self.estimator)
        with seeded(seed, round), naming("fit", hint=_FEW):
            made.fit(self.view(inputs).numpy(), labels.numpy())
        if not hasattr(made, "classes_"):
            raise ValueError(
                f"learner must be a classifier, which has classes_ once fitted, got {type(made).__name__}"
            )
        return made

    def outputs(self, state: State, viewed: Tensor) -> Tensor:
        """A column a class; minus infinity for classes that were not picked.

        Where ``predict`` answers another class than the largest output's, all but that class have minus infinity.
        """
        found = torch.full((len(viewed), self.classes), -torch.inf, dtype=torch.float64)
        if isinstance(state, int):
            found[:, state] = 0.0
        if isinstance(state, int) or not len(viewed):  # as what a head start kept that errs on none
            return found
        rows, places = viewed.numpy(), torch.from_numpy(np.asarray(state.classes_, dtype=np.int64))
        said = next(getattr(state, name) for name in ANSWERS if hasattr(state, name))
        with naming(said.__name__, hint=_FEW):
            values = np.asarray(said(rows.copy()), dtype=np.float64)
        if said.__name__ == "predict":
            values = (values[:, None] == state.classes_).astype(np.float64)
        if said.__name__ != "decision_function":  # logits whose softmax is what was said
            values = np.log(np.maximum(values, np.finfo(np.float64).tiny))
        if values.ndim == 1:  # one number for two classes
            values = np.stack([-values, values], axis=1)
        last = state
        while hasattr(last, "steps") or hasattr(
            last, "best_estimator_"
        ):  # of pipelines and searches
            last = last[-1] if hasattr(last, "steps") else last.best_estimator_
        of_pairs = getattr(last, "decision_function_shape", None) == "ovo"  # of three classes three
        if values.shape != (len(rows), len(places)) or (of_pairs and len(places) > 2):
            raise ValueError(
                f"{type(self.estimator).__name__} gave outputs of shape {values.shape} for {len(rows)} records and "
                f"{len(places)} classes: set decision_function_shape='ovr', or wrap it in a class with predict alone"
            )
        if said.__name__ != "predict" and hasattr(state, "predict"):
            # which answers by a threshold of its own, say: it is what the certificate is about
            answered = np.asarray(state.predict(rows.copy())).reshape(-1, 1) == state.classes_
            other = ~answered[np.arange(len(rows)), values.argmax(axis=1)]
            values[other] = np.where(answered[other], 0.0, -np.inf)
        found[:, places] = torch.from_numpy(values)
        return found
