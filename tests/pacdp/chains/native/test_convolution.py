"""The compiled convolution block against PyTorch's autograd, and the laws it promises."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn import functional
from toys import dtypes, seeded

from pacdp.chains.native.convolution import ConvLayer, Geometry
from tests.marks import every_case, parametrize, slow

CONV_FIRST = Geometry(1, 28, 28, size=5, pool=3, relu=True), 20
CONV_SECOND = Geometry(20, 8, 8, size=5, pool=2, relu=True), 50
UNEVEN = Geometry(2, 12, 6, size=2, pool=3, relu=True), 4
SHAPES = [CONV_FIRST, CONV_SECOND, UNEVEN]
"""Blocks, and how many channels they put out."""
NAMES = ["output", "input gradient", "weight gradient", "bias gradient"]


def problem(shape, *, examples, dtype, seed=0):
    generator, (geometry, outputs) = seeded(seed), shape
    inputs, height, width, size, pool, _ = geometry

    def drawn(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    x, weight, bias = drawn(examples, inputs, height, width), drawn(outputs, inputs, size, size) / size, drawn(outputs)
    grad_out = drawn(examples, outputs, (height - size + 1) // pool, (width - size + 1) // pool)
    return [tensor.to(dtype) for tensor in (x, weight, bias, grad_out)]


def by_autograd(shape, arguments):
    x, weight, bias = (tensor.clone().requires_grad_() for tensor in arguments[:3])
    out = functional.conv2d(x, weight, bias)
    out = functional.relu(out) if shape[0].relu else out
    out = functional.max_pool2d(out, shape[0].pool)
    out.backward(arguments[3])
    return [tensor.detach().numpy() for tensor in (out, x.grad, weight.grad, bias.grad) if tensor is not None]


def block_of(shape):
    return ConvLayer(*shape, first=False)


def by_block(block, arguments, squares=None):
    x, weight, bias, grad_out = (tensor.numpy() for tensor in arguments)
    weight_grad, bias_grad = np.full_like(weight, np.nan), np.full_like(bias, np.nan)
    out = block.forward(x, weight, bias)
    grad_in = block.backward(grad_out.reshape(len(x), -1), weight, weight_grad, bias_grad, squares)
    return [out.copy(), grad_in.reshape(x.shape).copy(), weight_grad, bias_grad]


def assert_close(results, expected, *, tolerance):
    for name, one, other in zip(NAMES, results, expected, strict=True):
        assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max(), err_msg=name)


every_shape = parametrize("shape", SHAPES)


@every_shape
def test_agrees_with_autograd_in_single_precision(shape):
    """In single precision as closely as that rounds; a tie broken the other way would show as a large difference."""
    block = block_of(shape)
    for examples in (1, 33, 70):
        single = problem(shape, examples=examples, dtype=torch.float32)
        expected = by_autograd(shape, [tensor.double() for tensor in single])
        assert_close(by_block(block, single), expected, tolerance=2e-5)


@settings(max_examples=40)
@given(data=st.data())
def test_agrees_with_autograd_on_any_shape(data):
    size, pool = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    side = st.integers(size - 1 + pool, size + 8 + pool)
    sides = data.draw(st.integers(1, 9)), data.draw(side), data.draw(side)
    shape = Geometry(*sides, size, pool, data.draw(st.booleans())), data.draw(st.integers(1, 12))
    examples = data.draw(st.integers(1, 40))
    arguments = problem(shape, examples=examples, dtype=torch.float64, seed=examples)
    results = by_block(block_of(shape), arguments)
    assert_close(results, by_autograd(shape, arguments), tolerance=1e-10)


@dtypes
@every_shape
def test_bits_do_not_depend_on_threads_or_history(shape, dtype):
    arguments = problem(shape, examples=100, dtype=dtype)
    other = problem(shape, examples=128, dtype=dtype, seed=1)
    block = block_of(shape)
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
    fresh = by_block(block_of(shape), arguments)
    assert [array.tobytes() for array in fresh] == [array.tobytes() for array in once]


def test_an_example_is_served_alike_in_any_batch_and_any_number_is_evaluated():
    x, weight, bias, grad_out = problem(CONV_SECOND, examples=100, dtype=torch.float32)
    block = block_of(CONV_SECOND)
    together = by_block(block, [x[:40], weight, bias, grad_out[:40]])
    alone = by_block(block, [x[37:38], weight, bias, grad_out[37:38]])
    for one, other in zip(alone[:2], together[:2], strict=True):
        assert_array_equal(one[0], other[37])
    every = block.forward(np.asfortranarray(x.numpy()), weight.numpy(), bias.numpy(), keep=False)
    assert_array_equal(every[:40], together[0])
    assert_array_equal(every[90:], block.forward(x[90:].numpy(), weight.numpy(), bias.numpy()))


@every_case("place", range(4), ids=["x", "weight", "bias", "grad_out"])
def test_nan_is_passed_on(place):
    for relu in (True, False):
        shape = CONV_SECOND[0]._replace(relu=relu), 50
        arguments = problem(shape, examples=20, dtype=torch.float64)
        arguments[place].view(-1)[arguments[place].numel() // 2] = torch.nan
        results, expected = (
            by_block(block_of(shape), arguments),
            by_autograd(shape, arguments),
        )
        assert_array_equal(np.isnan(results[0]), np.isnan(expected[0]))
        assert np.isnan(results[0]).any() == (place < 3)
        assert np.isnan(results[2]).any() or place in (1, 2) or (relu and place == 3)


@dtypes
@every_shape
def test_squared_norms_of_examples_gradients_are_added_and_the_gradients_stay(shape, dtype):
    arguments, squares = problem(shape, examples=21, dtype=dtype), np.ones(21)
    x, weight, bias, grad_out = arguments
    block = block_of(shape)
    with_squares = by_block(block, arguments, squares)
    alone = [by_block(block, [x[i : i + 1], weight, bias, grad_out[i : i + 1]]) for i in range(21)]
    exact = [1.0 + sum(float((one.astype(np.float64) ** 2).sum()) for one in found[2:]) for found in alone]
    assert_allclose(squares, exact, rtol=1e-6)
    assert_close(with_squares, by_block(block, arguments), tolerance=2e-5 if dtype == torch.float32 else 1e-12)


def test_no_nan_is_hidden_by_a_later_larger_sum():
    shape = Geometry(1, 2, 2, size=1, pool=2, relu=True), 1
    x = np.ones((4, 1, 2, 2))
    x.reshape(4, 4)[np.arange(4), np.arange(4)] = np.nan
    block = block_of(shape)
    assert np.isnan(block.forward(x, np.ones((1, 1, 1, 1)), np.zeros(1))).all()


def test_ties_go_to_the_first_position():
    """Constant images: every window ties, in exact arithmetic and in floating point alike."""
    shape = Geometry(2, 9, 8, size=3, pool=2, relu=True), 3
    arguments = problem(shape, examples=9, dtype=torch.float64)
    arguments[0] = torch.ones_like(arguments[0])
    arguments[1] = arguments[1].abs()
    results = by_block(block_of(shape), arguments)
    assert_close(results, by_autograd(shape, arguments), tolerance=1e-12)


ALTERNATION = """
import numpy as np, torch
from pacdp.chains.native.convolution import ConvLayer, Geometry
from tests.pacdp.toys import seeded
block = ConvLayer(Geometry(2, 8, 8, size=3, pool=2, relu=True), 5, first=False)
x, weight, bias = np.ones((64, 2, 8, 8), np.float32), np.ones((5, 2, 3, 3), np.float32), np.ones(5, np.float32)
matrix = torch.ones(300, 300)
for threads in (1, 2):
    torch.set_num_threads(threads)
    for _ in range(5):
        assert (block.forward(x, weight, bias) == 19).all()
        assert (matrix @ matrix == 300).all()
    assert torch.get_num_threads() == threads
"""


@pytest.mark.slow
@parametrize("layer", [slow("workqueue"), "omp"])
def test_alternates_with_torch_under_each_threading_layer(layer, monkeypatch):
    """Starting Numba's OpenMP layer resets the thread count of the OpenMP runtime it shares with PyTorch."""
    monkeypatch.setenv("NUMBA_THREADING_LAYER", layer)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    subprocess.run([sys.executable, "-c", ALTERNATION], check=True, timeout=120)
