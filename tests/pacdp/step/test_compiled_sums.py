"""Clipped sums of many chains by compiled layers: their laws, their slow twin, and faults that are found out."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from toys import keys_of, seeded, sparse_data, toy_data, toy_objective

from pacdp.chains import Keys
from pacdp.chains.native import dense, products, threads
from pacdp.chains.native.network import NativeNetwork
from pacdp.chains.native.products import product
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture
from pacdp.objective import Objective
from pacdp.step import compiled
from pacdp.step.clip import Clipping
from pacdp.step.compiled import CompiledSums

WIDE = Architecture(hidden=(130, 150))  # products of 128 rows and more go to oneDNN
CONV = Architecture(name="conv")
KINDS: dict[str, Callable[[], tuple[Dataset, Architecture, int]]] = {
    "small": lambda: (toy_data(n=80), Architecture(hidden=(7, 6)), 20),
    "classes": lambda: (toy_data(n=80, classes=4), Architecture(hidden=(7,)), 20),
    "sparse": lambda: (sparse_data(n=80), Architecture(hidden=(9, 8)), 20),
    "wide": lambda: (sparse_data(n=300, shape=(1, 12, 12)), WIDE, 130),
    "wide and dense": lambda: (toy_data(n=300, shape=(120,)), WIDE, 130),
    "conv": lambda: (toy_data(n=60, shape=(1, 28, 28)), CONV, 40),
}


def objective_of(kind: str, clip_norm: float = 0.3) -> Objective:
    data, architecture, size = KINDS[kind]()
    found = toy_objective(data, architecture=architecture, batch_size=size, clip_norm=clip_norm)
    assert found._sums is not None
    return found


def weights_of(objective: Objective, chains: int = 3) -> Tensor:
    own = objective.weights()
    spread = torch.randn(chains, objective.dim, generator=seeded(3), dtype=torch.float64).to(own.dtype)
    return own + 0.5 * own.square().mean().sqrt() * spread


def twin(objective: Objective, weights: Tensor, examples: Tensor, labels: Tensor) -> tuple[Tensor, float]:
    """Float64, every example's gradient by torch.func, clipped and added one by one; and their sizes."""
    model = objective.model.double()
    views = {name: value.double() for name, value in objective.layout.views(weights).items()}

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return objective.loss.function(functional_call(model, parameters, (x[None],)), y[None])[0]

    inputs = objective.examples[0][examples].double()
    rows = vmap(grad(loss), in_dims=(None, 0, 0))(views, inputs, labels[examples])
    model.float()
    flat = torch.stack([objective.layout.flatten({k: v[i] for k, v in rows.items()}) for i in range(len(examples))])
    assert objective.clip_norm is not None
    factors = (objective.clip_norm / flat.norm(dim=1)).clamp(max=1.0)
    each = factors[:, None] * flat / objective.batch_size
    return each.sum(dim=0), float(each.norm(dim=1).sum())


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("clip_norm", [0.05, 0.6], ids=["clipped", "hardly clipped"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_s_sum_is_that_of_its_slow_twin(kind: str, clip_norm: float) -> None:
    objective, keys = objective_of(kind, clip_norm), Keys.derive([5, 6, 6], [0, 0, 0])
    weights = weights_of(objective)
    gradient, losses, errors = objective.estimate(weights, keys, 3)[:3]
    drawn, group = objective.draw(keys, 3)
    assert len(drawn) == 2
    for k, g in enumerate(group):
        expected, size = twin(objective, weights[k], drawn[g], objective.examples[1])
        assert (gradient[k].double() - expected).norm() < 1e-5 * size
        views = objective.layout.views(weights[k])
        outputs = functional_call(objective.model, views, (objective.examples[0][drawn[g]],))
        assert float(losses[k]) == pytest.approx(
            float(objective.loss(outputs, objective.examples[1][drawn[g]]).mean()), rel=1e-5
        )
        assert 0.0 <= float(errors[k]) <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_has_the_same_bits_alone_beside_others_in_any_order_and_on_two_threads(
    kind: str, two_threads: None
) -> None:
    objective, keys = objective_of(kind), keys_of(1, 2, 1, 4, 5)
    weights = weights_of(objective, 5)
    together = [x.clone() for x in objective.estimate(weights, keys, 7)[:3]]
    torch.set_num_threads(1)
    one = [x.clone() for x in objective.estimate(weights, keys, 7)[:3]]
    assert all(torch.equal(*pair) for pair in zip(together, one, strict=True))
    order = [3, 0, 4, 2, 1]
    moved = objective.estimate(weights[order].clone(), keys.select(order), 7)[:3]
    assert all(torch.equal(x, y[order]) for x, y in zip(moved, together, strict=True))
    torch.set_num_threads(2)
    for k in range(5):
        alone = objective.estimate(weights[k : k + 1].clone(), keys.select([k]), 7)[:3]
        assert all(torch.equal(x, y[k : k + 1]) for x, y in zip(alone, together, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 15, 16, 17, 33])
def test_padding_changes_nothing(kind: str, count: int) -> None:
    """A batch's sum is that of its examples, each alone; shapes before and after a multiple of the padding."""
    objective = objective_of(kind, 0.2)
    weights = objective.weights()

    def sum_of(chosen: list[int]) -> Tensor:
        objective.draw = lambda keys, tick: ([torch.tensor(chosen)], np.zeros(1, np.int64))
        return objective.estimate(weights, keys_of(0), 0).gradient[0].double()

    whole = sum_of(list(range(count)))
    each = [sum_of([i]) for i in range(count)]
    assert max(float(one.norm()) for one in each) <= 0.2 / objective.batch_size
    assert (whole - torch.stack(each).sum(dim=0)).norm() < 1e-5 * sum(float(one.norm()) for one in each)


def test_a_chain_with_an_empty_batch_stands_still_beside_others() -> None:
    objective = toy_objective(toy_data(), batch_size=1, clip_norm=1.0)
    keys = keys_of(*range(6))
    sizes = [len(objective.draw(keys.select([k]), 0)[0][0]) for k in range(6)]
    assert 0 in sizes
    assert max(sizes) > 0
    gradient, losses, errors = objective.estimate(weights_of(objective, 6), keys, 0)[:3]
    for k, size in enumerate(sizes):
        assert bool(gradient[k].any()) == bool(losses[k] > 0) == (size > 0)
        assert size or not errors[k]


@pytest.mark.parametrize("kind", ["sparse", "conv"])
def test_an_example_without_a_finite_gradient_is_the_reference_s_affair_in_its_own_chain_alone(kind: str) -> None:
    data, architecture, size = KINDS[kind]()
    whole = toy_objective(data, architecture=architecture, batch_size=size, clip_norm=0.3)
    inputs = data.inputs.copy()
    inputs[7] = 3e38 if kind == "sparse" else 0.0
    data = Dataset("broken", inputs, data.labels, data.classes)
    broken = toy_objective(data, architecture=architecture, batch_size=size, clip_norm=0.3)
    if kind == "conv":  # no record of a data set is
        broken._inputs[7] = torch.inf
    assert broken._sums is not None
    weights, keys = weights_of(broken, 2), keys_of(0, 1)
    everyone = list(keys.noise)

    def found_by(objective: Objective, first: list[int]) -> Tensor:
        batches = [torch.tensor(first), torch.tensor([4, 5])]

        def draw(keys: Keys, tick: object) -> tuple[list[Tensor], np.ndarray]:
            return batches, np.array([everyone.index(key) for key in keys.noise])

        objective.draw = draw
        return objective.estimate(weights, keys, 0).gradient.clone()

    found, expected = found_by(broken, [7, 1, 2]), found_by(whole, [1, 2])
    assert torch.equal(found[1], expected[1])
    assert (found[0] - expected[0]).norm() < 1e-4 * expected[0].norm()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0])
def test_no_example_contributes_more_than_the_clip_norm_through_convolutions(scale: float) -> None:
    data = toy_data(n=8, shape=(1, 28, 28))
    data = Dataset("scaled", data.inputs * np.float32(scale), data.labels, 2)
    objective = toy_objective(data, architecture=CONV, batch_size=1, clip_norm=0.01)
    norms = []
    for i in range(8):
        objective.draw = lambda keys, tick, i=i: ([torch.tensor([i])], np.zeros(1, np.int64))
        norms.append(float(objective.estimate(objective.weights(), keys_of(0), 0).gradient.double().norm()))
    assert 0.01 * (1 - 2e-5) < max(norms) <= 0.01


@pytest.mark.parametrize("compiled_form", [True, False], ids=["compiled", "reference"])
@pytest.mark.parametrize("clip_norm", [1.0, 1e-3, 1e-5])
def test_subnormal_factors_do_not_bring_a_gradient_out_of_its_ball(clip_norm: float, compiled_form: bool) -> None:
    ratios = []
    for share in np.linspace(0.05, 3.3, 40):
        data = toy_data(n=300)
        inputs = data.inputs.copy()
        inputs[299] = np.float32([share * 1e38, 0.0, 0.0, 0.0, 0.0])
        model = nn.Sequential(nn.Linear(5, 1))
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
        loss = bounded_cross_entropy(classes=2)
        data = Dataset("far", inputs, data.labels, 2)
        objective = Objective(model, loss, data, batch_size=128, clip_norm=clip_norm)
        assert isinstance(objective.network, NativeNetwork)
        objective._sums = CompiledSums(objective.network, model, loss) if compiled_form else None
        objective.draw = lambda keys, tick: ([torch.tensor([299])], np.zeros(1, np.int64))
        for output in (0.0, 20.0):  # the derivative by the output is about a half, or 1e-9
            weights = objective.weights()
            weights[0, -1] = output
            moved = float(objective.estimate(weights, keys_of(0), 0).gradient.double().norm())
            ratios.append(moved * 128 / clip_norm)
    assert max(ratios) <= 1.0


def test_batches_go_through_in_chunks_of_a_fixed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = objective_of("sparse")
    weights, keys = weights_of(objective), keys_of(0, 1, 2)
    whole = objective.estimate(weights, keys, 0).gradient.clone()
    assert objective._sums is not None
    monkeypatch.setattr(objective._sums, "_most", 6)
    assert (objective.estimate(weights, keys, 0).gradient - whole).norm() < 1e-6 * whole.norm()


def test_a_loss_without_a_compiled_form_goes_example_by_example() -> None:
    data, architecture, size = KINDS["classes"]()
    ours = toy_objective(data, architecture=architecture, batch_size=size, clip_norm=0.2)
    plain = Objective(ours.model, replace(ours.loss, compiled=None), data, batch_size=size, clip_norm=0.2)
    weights, keys = weights_of(ours), keys_of(0, 1, 2)
    left = [x.clone() for x in ours.estimate(weights, keys, 0)[:3]]
    for one, other in zip(left, plain.estimate(weights, keys, 0)[:3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def ones_as_inputs(patch: pytest.MonkeyPatch) -> None:
    """Padding that is not zero."""

    def leaking(rows: np.ndarray, count: int) -> np.ndarray:
        whole = np.ones((count, rows.shape[1]), rows.dtype)
        whole[: len(rows)] = rows
        return whole

    patch.setattr(compiled, "_fill", leaking)


def ones_as_slopes(patch: pytest.MonkeyPatch) -> None:
    """Slopes of padding that come out of every layer."""
    true = dense.clipped.through_layer

    def leaking(slope: np.ndarray, out: np.ndarray, relu: bool, inputs: np.ndarray, squares: np.ndarray) -> None:
        true(slope, out, relu, inputs, squares)
        slope[len(squares) :] = 1.0

    patch.setattr(dense.clipped, "through_layer", leaking)


def a_padded_row(patch: pytest.MonkeyPatch) -> None:
    """The planted fault: both together, without which a padded row adds nothing."""
    ones_as_inputs(patch)
    ones_as_slopes(patch)


def of_the_chain_before() -> Callable[..., Clipping]:
    """The planted fault: factors by the norms of the chain that came before."""
    kept: dict[int, Clipping] = {}
    true = compiled.clip_factors

    def faulty(norms: Tensor, clip_norm: float, dtype: torch.dtype) -> Clipping:
        own = true(norms, clip_norm, dtype)
        before, kept[len(norms)] = kept.get(len(norms), own), own
        return before

    return faulty


def one_for_all(norms: Tensor, clip_norm: float, dtype: torch.dtype) -> Clipping:
    """The planted fault: every example's gradient is scaled alike."""
    return Clipping((clip_norm / norms.mean()).clamp(max=1.0).expand(len(norms)), torch.isfinite(norms))


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a padded row leaks": a_padded_row,
    "a norm of another chain": lambda patch: patch.setattr(compiled, "clip_factors", of_the_chain_before()),
    "one factor for all": lambda patch: patch.setattr(compiled, "clip_factors", one_for_all),
    "biases left out of the norm": lambda patch: patch.setattr(
        dense.clipped, "through_layer",
        lambda slope, out, relu, inputs, squares, true=dense.clipped.through_layer: true(
            slope, out, relu, inputs - 1.0, squares
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("far", [None, 3e38])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_at_set_up_and_the_reference_runs(
    fault: str, far: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without a finite gradient, among those that are looked at first, hide nothing."""
    data, architecture, size = KINDS["small"]()
    if far is not None:
        inputs = data.inputs.copy()
        inputs[[26, 52]] = far
        data = replace(data, inputs=inputs)
    honest = toy_objective(data, architecture=architecture, batch_size=size, clip_norm=0.2)
    assert honest._sums is not None
    weights, keys = weights_of(honest), keys_of(0, 1, 2)
    expected = honest.estimate(weights, keys, 0).gradient.clone()
    FAULTS[fault](monkeypatch)
    with pytest.warns(UserWarning, match=r"not taken by compiled layers .* each clipped by itself"):
        objective = toy_objective(data, architecture=architecture, batch_size=size, clip_norm=0.2)
    monkeypatch.undo()
    found = objective.estimate(weights, keys, 0).gradient
    assert (found - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize("half", [ones_as_inputs, ones_as_slopes])
def test_padding_adds_nothing_unless_inputs_and_slopes_both_leak(
    half: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = objective_of("small", 0.2)
    weights, keys = weights_of(objective), keys_of(0, 1, 2)
    expected = objective.estimate(weights, keys, 0).gradient.clone()
    half(monkeypatch)
    assert torch.equal(objective.estimate(weights, keys, 0).gradient, expected)


def test_networks_without_compiled_layers_go_through_the_reference() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
    objective = Objective(model, toy_objective(toy_data()).loss, toy_data(), batch_size=10, clip_norm=0.3)
    assert objective._sums is None
    assert objective.estimate(objective.weights().repeat(2, 1), keys_of(0, 1), 0).gradient.any(dim=1).all()


@pytest.mark.parametrize("shape", [(5, 7, 3), (128, 150, 130), (150, 128, 130)])
def test_products_are_true_without_onednn_too_and_do_not_depend_on_threads(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, two_threads: None
) -> None:
    rows, inner, columns = shape
    left, right = (torch.randn(size, generator=seeded(1)) for size in ((inner, rows), (columns, inner)))
    bias, out = torch.randn(columns, generator=seeded(2)), torch.empty(rows, columns)
    exact = left.double().T @ right.double().T + bias.double()
    two = product(left.mT, right.mT, bias=bias)
    assert product(left.mT, right.mT, bias=bias, out=out) is out
    torch.set_num_threads(1)
    assert torch.equal(two, product(left.mT, right.mT, bias=bias))
    torch.set_num_threads(2)
    monkeypatch.setattr(products, "_linear", None)
    for found in (two, out, product(left.mT, right.mT, bias=bias)):
        assert (found.double() - exact).norm() < 1e-6 * exact.norm()


def test_jobs_are_shared_out_once_each_and_an_error_comes_back(two_threads: None) -> None:
    objective_of("sparse")  # a parallel loop has run: numba's threading layer is known
    assert [list(part) for part in threads.shares(5)] in ([[0, 1], [2, 3, 4]], [[0, 1, 2, 3, 4]])
    assert [list(part) for part in threads.shares(1)] == [[0]]
    seen: list[tuple[int, int]] = []

    def run(number: int, part: object) -> None:
        seen.append((number, torch.get_num_threads()))
        if number:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        threads.spread(run, [range(2), range(2, 4)])
    assert sorted(seen) == [(0, 1), (1, 1)]
