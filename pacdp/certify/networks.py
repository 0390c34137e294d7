"""Networks as they are: outputs, errors and calibration on examples, and the certificates of fresh examples.

Every route judges networks here: the mean of a posterior, one draw of it, the mean of a prior, a user's own network.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from bounds.hypotheses import of_the_caller
from pacdp.certify.assessment import Measured
from pacdp.certify.examples import BoundSet
from pacdp.losses import in_error
from pacdp.plain import call_with
from pacdp.probes import AT_MOST, MOST, pool, require_own_outputs

EDGES = tuple(np.linspace(0.0, 1.0, 16).tolist())
"""Of the bins of calibration errors."""
_BATCH = 500
_SLACK = 1e-4  # rounding of probabilities
_FOR_PEOPLE = (bounds.new_person_betting, bounds.new_person_kl)
Network = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one network did on some examples.

    Attributes:
        errors: examples in error; a tie is an error.
        error: their share, or the mean over people of their own shares, rounded up.
        units: independent records.
        calibration: what bounds on the calibration error need, where people are not counted and all outputs are finite.
    """

    errors: int
    error: float
    units: int
    calibration: bounds.CalibrationSample | None
    data: BoundSet
    wrong: np.ndarray

    def measured(self, of: str, on: str) -> Measured:
        """The error as a line of a report."""
        return Measured(of=of, on=on, loss="zero-one", mean=self.error, errors=self.errors, n=self.units)


@torch.no_grad()
def outputs_of(
    network: Network, data: BoundSet, device: torch.device | str = "cpu", *, batch_size: int = _BATCH
) -> Tensor:
    """The network's outputs on all examples, on the CPU: floats, [n] or [n, classes].

    Raises:
        ValueError: the network fails, gives no row of floats an example, or mixes the examples of a batch.
    """
    size = max(MOST, min(batch_size, AT_MOST, data.n))
    rows = pool(data.inputs[:size], size=size)
    shape = _output(network, rows[:1].to(device)).shape[1:]

    def run(inputs: Tensor) -> Tensor:
        outputs = _output(network, inputs.to(device))
        if outputs.shape[1:] != shape:
            raise ValueError(f"expected {list(shape)} outputs an example in every batch, got {list(outputs.shape[1:])}")
        return outputs

    require_own_outputs(lambda places: run(rows[places]), size=size)
    return torch.cat([run(part).cpu() for part in data.inputs.split(batch_size)])


def _output(network: Network, inputs: Tensor) -> Tensor:
    try:
        outputs = network(inputs)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"the network fails on inputs of shape {tuple(inputs.shape)} and type {inputs.dtype}, give it those that "
            f"it takes: {type(error).__name__}: {error}"
        ) from error
    if isinstance(outputs, Tensor) and outputs.is_floating_point() and outputs.shape[:1] == inputs.shape[:1]:
        if outputs.ndim == 1 or (outputs.ndim == 2 and outputs.shape[1] > 0):
            return outputs.detach()
    shape = f"{tuple(outputs.shape)} of {outputs.dtype}" if isinstance(outputs, Tensor) else type(outputs).__name__
    raise ValueError(
        f"expected one row of logits for each of {len(inputs)} examples, floats [n] or [n, classes], got {shape}"
    )


def classes_of(outputs: Tensor) -> int:
    """How many classes outputs distinguish: two for one logit."""
    return 2 if outputs.ndim == 1 or outputs.shape[1] == 1 else int(outputs.shape[1])


def with_weights(
    module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], device: torch.device | str
) -> Network:
    """The module as a function, at these weights and buffers."""
    state = {name: value.to(device) for name, value in {**buffers, **weights}.items()}
    return lambda inputs: call_with(module, state, inputs)


def judge(
    network: Network,
    data: BoundSet,
    device: torch.device | str = "cpu",
    *,
    scores: bool = False,
    batch_size: int = _BATCH,
) -> Judged:
    """Errors and calibration of a network on examples.

    Args:
        scores: the outputs are probabilities, not logits.

    Raises:
        ValueError: outputs that are not one row an example.
    """
    outputs = outputs_of(network, data, device, batch_size=batch_size)
    data.require_labels(classes_of(outputs))
    if scores:  # probabilities in place of logits leave errors as they are
        if outputs.ndim == 1 or outputs.shape[1] == 1:
            raise ValueError(f"expected probabilities of each class, [n, classes], got shape {tuple(outputs.shape)}")
        if bool(((outputs < -_SLACK) | (outputs > 1.0 + _SLACK)).any()):
            raise ValueError("expected probabilities in [0, 1], got others: give logits with scores=False")
        own = outputs.gather(1, data.labels[:, None])
        wrong = (~(outputs.scatter(1, data.labels[:, None], -1.0) < own).all(1)).numpy()
    else:
        wrong = in_error(outputs, data.labels).numpy()
    calibrated = data.unit == "example" and bool(outputs.isfinite().all())
    calibration = calibration_of(outputs, data.labels, scores=scores) if calibrated else None
    return Judged(
        errors=int(wrong.sum()),
        error=mean_of(wrong, data),
        units=data.units,
        calibration=calibration,
        data=data,
        wrong=wrong,
    )


def mean_of(wrong: np.ndarray, data: BoundSet) -> float:
    """The share of errors, or the mean over people of their own shares, rounded up."""
    if data.people is None:
        return error_share(int(wrong.sum()), data.n)
    _, owner, sizes = np.unique(data.people, return_inverse=True, return_counts=True)
    counts = np.bincount(owner, weights=wrong)
    exact = sum((Fraction(int(k), int(m)) for k, m in zip(counts, sizes, strict=True)), Fraction(0)) / len(sizes)
    share = float(exact)
    return share if Fraction(share) >= exact else math.nextafter(share, math.inf)


def error_share(errors: int, n: int) -> float:
    """errors/n, rounded up."""
    share = errors / n
    return share if Fraction(share) >= Fraction(errors, n) else math.nextafter(share, math.inf)


def calibration_of(outputs: Tensor, labels: Tensor, *, scores: bool = False) -> bounds.CalibrationSample:
    """Confidence and correctness in fixed bins; one logit counts as two classes."""
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        one = torch.sigmoid(outputs.reshape(-1).double())
        probabilities = torch.stack([1.0 - one, one], dim=1)
    else:
        probabilities = outputs.double() if scores else torch.softmax(outputs.double(), dim=1)
    confidence, predicted = probabilities.max(dim=1)
    return bounds.calibration_sample(
        confidence=confidence.clamp(0.0, 1.0).numpy(), correct=(predicted == labels).numpy(), edges=EDGES
    )


def about(made: bounds.Certificate, name: str = "", *, of: str, measures: str) -> bounds.Certificate:
    """The certificate under the name of the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, of=of, measures=measures)


def fresh_certificates(
    judged: Judged, *, of: str, failure_prob: float, name: str = "test_set"
) -> list[bounds.Certificate]:
    """What examples new to a network say of it: its error, by person where people are known, and its calibration.

    Formal guarantee: each fails with probability at most failure_prob over the examples, if the network does not depend
    on them. With people the error is that on a new person, the mean of their own error.
    """
    if judged.data.people is not None:
        sample = bounds.people_sample(losses=judged.wrong.astype(np.float64), people=judged.data.people)
        made = [form(sample=sample, failure_prob=failure_prob) for form in _FOR_PEOPLE]
        return [about(one, f"{name}_{one.name}", of=of, measures="0-1 risk of a new person") for one in made]
    found = [about(clopper_pearson(judged.errors, judged.units, failure_prob, name=name), of=of, measures="0-1 risk")]
    sample = judged.calibration
    if sample is not None:
        made = bounds.ece_second_moment(
            calibration_error=sample.calibration_error,
            mean_squared_gap=sample.mean_squared_gap,
            n=judged.units,
            failure_prob=failure_prob,
        )
        found.append(about(made, f"{name}_ece", of=of, measures="ECE"))
    return found


def clopper_pearson(errors: int, n: int, failure_prob: float, *, name: str = "test_set") -> bounds.Certificate:
    """Clopper and Pearson's bound on the 0-1 risk of a predictor that errs on ``errors`` of ``n`` examples new to it.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    return bounds.Certificate(
        name=f"{name}_clopper_pearson",
        value=bounds.clopper_pearson_upper(errors, n, failure_prob),
        failure_prob=failure_prob,
        hypotheses=of_the_caller("predictor saw none of these rows", function="clopper_pearson_upper"),
        terms={"empirical_risk": errors / n},
        budget={"test set": failure_prob},
        reference="Clopper and Pearson (1934)",
        inputs={"k": errors, "n": n, "failure_prob": failure_prob},
    )
