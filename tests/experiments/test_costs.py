"""Costs: operations of layers, by hand."""

from torch import nn
from torch.nn import Linear, ReLU, Sequential

from experiments import costs


def test_operations_of_linear_and_convolutional_layers_are_those_by_hand():
    assert costs.forward(Linear(30, 7), (30,), 5).arithmetic == 2 * 5 * 30 * 7
    convolution = nn.Conv2d(3, 8, 3, padding=1, bias=False)
    assert costs.forward(convolution, (3, 6, 6), 2).arithmetic == 2 * 2 * 36 * 8 * 27
    layers = Sequential(Linear(30, 7), ReLU(), Linear(7, 3))
    once = costs.forward(layers, (30,), 5).arithmetic
    assert costs.gradient(layers, (30,), 5).arithmetic == 3 * once - 2 * 5 * 30 * 7, "inputs need no gradient"
    assert all(not p.is_meta and p.grad is None for p in layers.parameters()), "the network itself is left alone"
