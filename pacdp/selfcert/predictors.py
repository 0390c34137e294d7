"""What is trained and what predicts: scikit-learn estimators as they are, torch modules with a sane default."""

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from pacdp.backprop.fit import Examples, FitSettings, fit
from pacdp.certify.examples import Device
from pacdp.certify.outputs import classes_of
from pacdp.certify.reading import Function, Network, Reading
from pacdp.compress.learner import is_estimator, seeded, unfitted
from pacdp.errors import Diverged, naming
from pacdp.selfcert.examples import Given
from pacdp.store.record import Values, record
from pacdp.trials import column, settle, twin

Train = Callable[[nn.Module, Tensor, Tensor], object]
"""Trains a module in place on inputs and labels; what it returns is used where it is a module."""


@record(eq=False)
class Net:
    """A network with fixed weights, as a function from inputs to a row of logits an example.

    Attributes:
        names: the names of the classes, in the order of the outputs.
        dtype: of the inputs that the certificate is about; others are made such, since a network may scale bytes alone.
    """

    function: Function
    names: np.ndarray
    device: Device = "cpu"
    dtype: torch.dtype = torch.float32

    def outputs(self, inputs: Any) -> Tensor:
        """Logits [n, classes], on the CPU.

        Raises:
            ValueError: numbers that its inputs cannot be.
        """
        given, law = tensor(inputs), Network(network=self.function)
        made = given.to(self.dtype)
        if not (made.is_floating_point() or torch.equal(made.to(given.dtype), given)):
            raise ValueError(
                f"inputs must be whole numbers of {self.dtype}, as those that the network was trained on"
            )
        return Reading(law=law, device=self.device).outputs(made)

    def predict(self, inputs: Any) -> np.ndarray:
        """The class of the largest logit."""
        return self.names[self.outputs(inputs).argmax(dim=1).numpy()]

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """[n, classes]: the softmax of the logits."""
        return torch.softmax(self.outputs(inputs).double(), dim=1).numpy()


def is_network(model: Any) -> TypeGuard[nn.Module]:
    """Whether a model is a torch module without fit and predict of its own."""
    return isinstance(model, nn.Module) and not is_estimator(model)


def tensor(inputs: Any) -> Tensor:
    """Arrays as floats of 32 bits; whole numbers in a tensor stay what they are, for networks that take words.

    Raises:
        ValueError: they are not.
    """
    if isinstance(inputs, Tensor):
        return inputs.float() if inputs.dtype == torch.float64 else inputs
    try:
        if np.iscomplexobj(inputs):
            raise TypeError("they are complex")
        return torch.tensor(np.ascontiguousarray(inputs), dtype=torch.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"inputs must be numbers for a network, got {type(inputs).__name__}: {error}"
        ) from error


def fitted(estimator: Any, learning: Given, *, seed: int) -> Any:
    """A copy of the estimator, fitted on the training part."""
    made, own = unfitted(estimator), learning.at(np.arange(learning.n))  # into which fit may write
    told = _told(made, learning)
    with seeded(seed, 1), naming("fit"):
        made.fit(own.inputs, own.labels, **told)
    made = twin(made)  # the caller may go on with what is frozen in it
    with naming("predict"):
        settle(made, learning.at(np.arange(learning.n)).inputs)
    return made


def _told(estimator: Any, learning: Given) -> Values:
    """What fit is told beside the examples: whose they are, where a search validates by group.

    Raises:
        ValueError: nobody said whose they are, or folds are lists of rows of all examples.
    """
    if not hasattr(estimator, "__sklearn_tags__"):
        return {}
    from sklearn.frozen import FrozenEstimator

    from pacdp.estimators.certified import require_no_rows, takes_groups

    # which fits nothing, and has the folds of what is in it
    if isinstance(estimator, FrozenEstimator):
        return {}
    require_no_rows(estimator)
    if not takes_groups(estimator):
        return {}
    if learning.people is None:
        raise ValueError(
            "the estimator validates by group: say whose each example is, with people="
        )
    return {"groups": learning.people}


def class_names(
    learning: Given, module: nn.Module, inputs: Tensor, *, device: Device
) -> tuple[np.ndarray, np.ndarray]:
    """The class that each output of a network stands for, and the place of every label among them.

    Numbers are places; other names are those of all labels, in order, whether or not training sees each.

    Raises:
        ValueError: fewer than two outputs, more classes than outputs, or a number that is no place.
    """
    trial = copy.deepcopy(module).to(device).eval()
    outputs = Reading(law=Network(network=trial), device=device).outputs(inputs[:4])
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise ValueError(f"the network must give one logit for each class, [n, classes], got {tuple(outputs.shape)}: "
                         "for two classes give it two outputs")  # fmt: skip
    names, count = learning.classes, classes_of(outputs)
    if names.dtype.kind in "iu":
        low, high = int(names[0]), int(names[-1])
        if low < 0 or high >= count:
            raise ValueError(f"labels must be from 0 to {count - 1}, as the network's {count} outputs say, got "
                             f"{low} to {high}")  # fmt: skip
        names = np.arange(count)
    if len(names) != count:
        raise ValueError(f"the network must have one output for each class, got {count} outputs and the classes "
                         f"{', '.join(map(str, names[:10]))}: build it with {len(names)}")  # fmt: skip
    return names, places(learning.labels, names)


def first_error(model: Any, examples: Given, *, device: Device) -> float | None:
    """The share of examples on which a model errs as it was given; None where it says nothing before it is fitted."""
    with suppress(Exception), seeded(0, 1):  # which an unfitted estimator raises
        made = unfitted(model)
        if is_network(made):
            inputs = tensor(examples.inputs)
            names, _ = class_names(examples, made, inputs, device=device)
            made = Net(
                function=made.to(device).eval(), names=names, device=device, dtype=inputs.dtype
            )
        said = column(made.predict(examples.at(np.arange(examples.n)).inputs))
        return float(np.mean(said != examples.labels))
    return None


def places(labels: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The place of every label among the names."""
    return np.searchsorted(names, labels).astype(np.int64)


def trained(
    module: nn.Module, learning: Given, *, train: Train | None, settings: FitSettings, seed: int,
    device: Device
) -> Net:  # fmt: skip
    """A copy of the module, trained on the training part alone, in eval mode.

    Raises:
        ValueError: outputs that are not one logit a class.
        Diverged: a weight is not finite after training.
    """
    inputs = tensor(learning.inputs)
    if not bool(torch.isfinite(inputs).all()):
        raise ValueError(
            "inputs must be finite numbers for a network, got NaN or infinity: fill gaps in first"
        )
    names, codes = class_names(learning, module, inputs, device=device)
    labels = torch.from_numpy(codes)
    if train is None:
        generator = torch.Generator().manual_seed(seed)
        made = fit(module, Examples(inputs, labels), settings=settings, generator=generator, device=device)  # fmt: skip
    else:
        made = copy.deepcopy(module).to(device).train()
        with seeded(seed, 1), naming("train"):
            returned = train(made, inputs.clone(), labels.clone())
        made = returned if isinstance(returned, nn.Module) else made
    own, made = made, twin(made)  # train may keep its own, and go on with it
    if made is own:
        raise ValueError(
            "train must leave a network that can be copied: keep locks, iterators and generators out of it"
        )
    made = made.to(device).eval()
    state = [one for one in made.state_dict().values() if isinstance(one, Tensor)]
    if not all(bool(torch.isfinite(one).all()) for one in state if one.is_floating_point()):
        raise Diverged(0, "a weight")
    names, _ = class_names(
        learning, made, inputs, device=device
    )  # train may return another network
    return Net(function=made, names=names, device=device, dtype=inputs.dtype)
