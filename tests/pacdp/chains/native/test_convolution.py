"""The compiled convolution block against PyTorch's autograd, and the laws it promises."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from pacdp.chains.native.convolution import ConvBlock

CONV_FIRST = {"in_channels": 1, "out_channels": 20, "kernel": 5, "pool": 3, "relu": True, "height": 28, "width": 28}
CONV_SECOND = {"in_channels": 20, "out_channels": 50, "kernel": 5, "pool": 2, "relu": True, "height": 8, "width": 8}
LINEAR = {"in_channels": 3, "out_channels": 7, "kernel": 3, "pool": 0, "relu": False, "height": 6, "width": 9}
UNEVEN = {"in_channels": 2, "out_channels": 4, "kernel": 2, "pool": 3, "relu": True, "height": 12, "width": 6}
ONE_PIXEL = {"in_channels": 6, "out_channels": 11, "kernel": 1, "pool": 2, "relu": False, "height": 5, "width": 4}
SHAPES = [CONV_FIRST, CONV_SECOND, LINEAR, UNEVEN, ONE_PIXEL]
NAMES = ["output", "input gradient", "weight gradient", "bias gradient"]


def problem(shape: dict[str, Any], *, examples: int, dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs, outputs, size = shape["in_channels"], shape["out_channels"], shape["kernel"]
    x = torch.randn(examples, inputs, shape["height"], shape["width"], generator=generator, dtype=torch.float64)
    weight = torch.randn(outputs, inputs, size, size, generator=generator, dtype=torch.float64) / size
    bias = torch.randn(outputs, generator=generator, dtype=torch.float64)
    pool = max(shape["pool"], 1)
    rows, columns = (shape["height"] - size + 1) // pool, (shape["width"] - size + 1) // pool
    grad_out = torch.randn(examples, outputs, rows, columns, generator=generator, dtype=torch.float64)
    return [tensor.to(dtype) for tensor in (x, weight, bias, grad_out)]


def by_autograd(shape: dict[str, Any], arguments: list[torch.Tensor]) -> list[np.ndarray]:
    x, weight, bias = (tensor.clone().requires_grad_() for tensor in arguments[:3])
    out = functional.conv2d(x, weight, bias)
    out = functional.relu(out) if shape["relu"] else out
    out = functional.max_pool2d(out, shape["pool"]) if shape["pool"] else out
    out.backward(arguments[3])
    return [tensor.detach().numpy() for tensor in (out, x.grad, weight.grad, bias.grad) if tensor is not None]


def block_of(shape: dict[str, Any], *, batch: int, dtype: torch.dtype, needs_input_gradient: bool = True) -> ConvBlock:
    name = str(dtype).removeprefix("torch.")
    return ConvBlock(**shape, needs_input_gradient=needs_input_gradient, batch=batch, dtype=name)


def by_block(block: ConvBlock, arguments: list[torch.Tensor]) -> list[np.ndarray]:
    x, weight, bias, grad_out = (tensor.numpy() for tensor in arguments)
    weight_grad, bias_grad = np.full_like(weight, np.nan), np.full_like(bias, np.nan)
    out = block.forward(x, weight, bias)
    grad_in = block.backward(grad_out, weight, weight_grad=weight_grad, bias_grad=bias_grad)
    assert grad_in is not None
    return [out.copy(), grad_in.copy(), weight_grad, bias_grad]


def assert_close(results: list[np.ndarray], expected: list[np.ndarray], *, tolerance: float) -> None:
    for name, one, other in zip(NAMES, results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max(), err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("examples", [1, 7, 128])
def test_agrees_with_autograd(shape: dict[str, Any], examples: int) -> None:
    arguments = problem(shape, examples=examples, dtype=torch.float64)
    results = by_block(block_of(shape, batch=128, dtype=torch.float64), arguments)
    assert_close(results, by_autograd(shape, arguments), tolerance=1e-10)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_agrees_with_autograd_on_any_shape(data: st.DataObject) -> None:
    size, pool = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 4))
    side = size - 1 + max(pool, 1)
    shape = {
        "in_channels": data.draw(st.integers(1, 9)),
        "out_channels": data.draw(st.integers(1, 12)),
        "kernel": size,
        "pool": pool,
        "relu": data.draw(st.booleans()),
        "height": data.draw(st.integers(side, side + 9)),
        "width": data.draw(st.integers(side, side + 9)),
    }
    examples = data.draw(st.integers(1, 40))
    arguments = problem(shape, examples=examples, dtype=torch.float64, seed=examples)
    results = by_block(block_of(shape, batch=examples, dtype=torch.float64), arguments)
    assert_close(results, by_autograd(shape, arguments), tolerance=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_single_precision_is_as_close_as_its_rounding(shape: dict[str, Any]) -> None:
    """Against double precision with the same input; a tie broken the other way would show as a large difference."""
    arguments = problem(shape, examples=33, dtype=torch.float32)
    results = by_block(block_of(shape, batch=33, dtype=torch.float32), arguments)
    expected = by_autograd(shape, [tensor.double() for tensor in arguments])
    assert_close(results, expected, tolerance=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [CONV_FIRST, CONV_SECOND, UNEVEN])
def test_bits_do_not_depend_on_threads_or_history(shape: dict[str, Any], dtype: torch.dtype) -> None:
    arguments = problem(shape, examples=100, dtype=dtype)
    other = problem(shape, examples=128, dtype=dtype, seed=1)
    block = block_of(shape, batch=128, dtype=dtype)
    once = by_block(block, arguments)
    before = torch.get_num_threads()
    try:
        for threads in (2, 1, 2):
            torch.set_num_threads(threads)
            by_block(block, [torch.full_like(tensor, torch.nan) for tensor in other])
            again = by_block(block, arguments)
            assert [array.tobytes() for array in again] == [array.tobytes() for array in once]
    finally:
        torch.set_num_threads(before)
    fresh = by_block(block_of(shape, batch=100, dtype=dtype), arguments)
    assert [array.tobytes() for array in fresh] == [array.tobytes() for array in once]


def test_an_example_is_served_alike_in_any_batch() -> None:
    arguments = problem(CONV_SECOND, examples=40, dtype=torch.float32)
    block = block_of(CONV_SECOND, batch=40, dtype=torch.float32)
    together = by_block(block, arguments)
    x, weight, bias, grad_out = arguments
    alone = by_block(block, [x[37:38], weight, bias, grad_out[37:38]])
    for one, other in zip(alone[:2], together[:2], strict=True):
        np.testing.assert_array_equal(one[0], other[37])


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("place", ["x", "weight", "bias", "grad_out"])
def test_nan_is_passed_on(relu: bool, place: str) -> None:
    shape = CONV_SECOND | {"relu": relu}
    arguments = problem(shape, examples=20, dtype=torch.float64)
    poisoned = arguments[["x", "weight", "bias", "grad_out"].index(place)]
    poisoned.view(-1)[poisoned.numel() // 2] = torch.nan
    results = by_block(block_of(shape, batch=20, dtype=torch.float64), arguments)
    expected = by_autograd(shape, arguments)
    np.testing.assert_array_equal(np.isnan(results[0]), np.isnan(expected[0]))
    if place != "grad_out":
        assert np.isnan(results[0]).any()
    alive = place != "grad_out" or not relu or by_autograd(shape, arguments)[0].reshape(-1)[poisoned.numel() // 2] > 0
    if place in ("x", "grad_out") and alive:
        assert np.isnan(results[2]).any()


def test_a_nan_is_not_hidden_by_a_later_larger_sum() -> None:
    shape = {"in_channels": 1, "out_channels": 1, "kernel": 1, "pool": 2, "relu": True, "height": 2, "width": 2}
    block = block_of(shape, batch=4, dtype=torch.float32)
    x = np.ones((4, 1, 2, 2), np.float32)
    x.reshape(4, 4)[np.arange(4), np.arange(4)] = np.nan
    out = block.forward(x, np.ones((1, 1, 1, 1), np.float32), np.zeros(1, np.float32))
    assert np.isnan(out).all()


def test_infinities_come_out_as_they_are() -> None:
    shape = {"in_channels": 1, "out_channels": 1, "kernel": 1, "pool": 2, "relu": False, "height": 2, "width": 2}
    block = block_of(shape, batch=2, dtype=torch.float64)
    x = np.stack([np.full((1, 2, 2), -np.inf), np.array([[[1.0, np.inf], [2.0, 3.0]]])])
    out = block.forward(x, np.ones((1, 1, 1, 1)), np.zeros(1))
    assert out.reshape(-1).tolist() == [-np.inf, np.inf]


def test_ties_go_to_the_first_position() -> None:
    """Constant images: every window ties, in exact arithmetic and in floating point alike."""
    shape = {"in_channels": 2, "out_channels": 3, "kernel": 3, "pool": 2, "relu": True, "height": 9, "width": 8}
    arguments = problem(shape, examples=9, dtype=torch.float64)
    arguments[0] = torch.ones_like(arguments[0])
    arguments[1] = arguments[1].abs()
    results = by_block(block_of(shape, batch=9, dtype=torch.float64), arguments)
    assert_close(results, by_autograd(shape, arguments), tolerance=1e-12)


def test_an_inactive_relu_stops_gradients() -> None:
    arguments = problem(CONV_SECOND, examples=8, dtype=torch.float64)
    arguments[2] -= 1e3
    results = by_block(block_of(CONV_SECOND, batch=8, dtype=torch.float64), arguments)
    assert all((array == 0).all() for array in results)


def test_first_block_returns_no_input_gradient() -> None:
    arguments = problem(CONV_FIRST, examples=5, dtype=torch.float32)
    x, weight, bias, grad_out = (tensor.numpy() for tensor in arguments)
    block = block_of(CONV_FIRST, batch=5, dtype=torch.float32, needs_input_gradient=False)
    full = by_block(block_of(CONV_FIRST, batch=5, dtype=torch.float32), arguments)
    flat = np.empty(weight.size + bias.size, np.float32)  # gradients are views into one buffer
    weight_grad, bias_grad = flat[: weight.size].reshape(weight.shape), flat[weight.size :]
    block.forward(x, weight, bias)
    assert block.backward(grad_out, weight, weight_grad=weight_grad, bias_grad=bias_grad) is None
    np.testing.assert_array_equal(weight_grad, full[2])
    np.testing.assert_array_equal(bias_grad, full[3])


def test_evaluation_takes_any_number_of_examples() -> None:
    x, weight, bias, _ = (tensor.numpy() for tensor in problem(UNEVEN, examples=1000, dtype=torch.float32))
    block = block_of(UNEVEN, batch=16, dtype=torch.float32)
    out = block.forward(x, weight, bias, keep=False)
    for begin in range(0, 1000, 250):
        part = block.forward(x[begin : begin + 16], weight, bias)
        np.testing.assert_array_equal(out[begin : begin + 16], part)


def test_strided_input_is_read_right() -> None:
    x, weight, bias, _ = (tensor.numpy() for tensor in problem(UNEVEN, examples=10, dtype=torch.float64))
    block = block_of(UNEVEN, batch=10, dtype=torch.float64)
    expected = block.forward(x, weight, bias).copy()
    np.testing.assert_array_equal(block.forward(np.asfortranarray(x), weight, bias), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": 0}, "kernel >= 1"),
        ({"pool": -1}, "pool >= 0"),
        ({"batch": 0}, "batch >= 1"),
        ({"height": 2}, "at least 4"),
        ({"dtype": np.int64}, "float32 or float64"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], message: str) -> None:
    sound = {**UNEVEN, "needs_input_gradient": True, "batch": 4, "dtype": np.float32}
    with pytest.raises(ValueError, match=message):
        ConvBlock(**(sound | change))


def test_bad_calls_are_refused() -> None:
    x, weight, bias, grad_out = (tensor.numpy() for tensor in problem(UNEVEN, examples=5, dtype=torch.float64))
    block = block_of(UNEVEN, batch=4, dtype=torch.float64)
    with pytest.raises(ValueError, match="at most batch=4"):
        block.forward(x, weight, bias)
    with pytest.raises(ValueError, match="x of shape"):
        block.forward(x[:, :1], weight, bias)
    with pytest.raises(ValueError, match="float64, got"):
        block.forward(x, weight.astype(np.float32), bias)
    block.forward(x, weight, bias, keep=False)
    with pytest.raises(ValueError, match="call forward first"):
        block.backward(grad_out, weight, weight_grad=weight.copy(), bias_grad=bias.copy())


ALTERNATION = """
import numpy as np, torch
from pacdp.chains.native.convolution import ConvBlock
block = ConvBlock(in_channels=2, out_channels=5, kernel=3, pool=2, relu=True, height=8, width=8,
                  needs_input_gradient=True, batch=64, dtype=np.float32)
x, weight, bias = np.ones((64, 2, 8, 8), np.float32), np.ones((5, 2, 3, 3), np.float32), np.ones(5, np.float32)
matrix = torch.ones(300, 300)
for threads in (1, 2):
    torch.set_num_threads(threads)
    for _ in range(20):
        assert (block.forward(x, weight, bias) == 19).all()
        assert (matrix @ matrix == 300).all()
    assert torch.get_num_threads() == threads
"""


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_alternates_with_torch_under_each_threading_layer(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting Numba's OpenMP layer resets the thread count of the OpenMP runtime it shares with PyTorch."""
    monkeypatch.setenv("NUMBA_THREADING_LAYER", layer)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    subprocess.run([sys.executable, "-c", ALTERNATION], check=True, timeout=120)
