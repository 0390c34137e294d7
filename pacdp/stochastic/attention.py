"""Transformers with weights drawn anew for every example: attention, and tokens or positions that are parameters.

All tokens of an example see one draw of the weights. Queries, keys and values are rows of one matrix W [3 E, E], so
that their joint law is that of X Wᵀ for the tokens X [T, E]: row by row Gaussian with covariance s_o² X Xᵀ. It is drawn
through a root of X Xᵀ where tokens are few beside E, and through W itself where that is cheaper, as for any linear
layer over steps (:func:`pacdp.stochastic.layers.linear`); both are exact.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pacdp.stochastic.law import Law
from pacdp.stochastic.layers import NotByExample, linear, require_batch
from pacdp.stochastic.noise import Draws


def multi_head_attention(
    draws: Draws,
    query: Float[Tensor, "tokens batch features"],
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Law | None,
    in_proj_bias: Law | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Law,
    out_proj_bias: Law | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Float[Tensor, "tokens batch features"], Tensor | None]:
    """What ``nn.MultiheadAttention`` calls; the examples are the second axis."""
    odd = (bias_k, bias_v, q_proj_weight, k_proj_weight, v_proj_weight, static_k, static_v)
    if (
        in_proj_weight is None
        or use_separate_proj_weight
        or add_zero_attn
        or any(one is not None for one in odd)
        or not query is key is value
    ):
        raise NotByExample(
            "attention to other tokens, or with keys or projections of its own kind, has no form by example"
        )
    if query.ndim != 3 or (training and dropout_p > 0) or (is_causal and attn_mask is None):
        raise NotByExample(
            "attention without a batch, with dropout or with an implied mask has no form by example"
        )
    own = query.transpose(0, 1)
    require_batch(draws, own, least=3)
    projected = linear(draws, own, in_proj_weight, in_proj_bias).chunk(3, dim=-1)
    q, k, v = (each.unflatten(2, (num_heads, -1)).transpose(1, 2) for each in projected)
    mask = _mask(attn_mask, key_padding_mask, like=q)
    weights = None
    if need_weights:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
        mixed = weights @ v
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, mask)
    out = linear(draws, mixed.transpose(1, 2).flatten(2), out_proj_weight, out_proj_bias)
    return out.transpose(0, 1), weights


def _mask(
    attention: Tensor | None, padding: Tensor | None, *, like: Float[Tensor, "batch heads t d"]
) -> Tensor | None:
    """What is added to scores [batch, heads, tokens, tokens]; minus infinity where a boolean mask is true."""
    total = None
    for mask in (attention, padding):
        if mask is None:
            continue
        added = mask.to(like.dtype)
        if mask.dtype == torch.bool:
            added = torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)
        if mask is padding:
            added = added[:, None, None]
        elif mask.ndim == 3:
            added = added.unflatten(0, like.shape[:2])
        total = added if total is None else total + added
    return total


def expand(draws: Draws, weight: Law, *sizes: Any) -> Tensor:
    """A parameter [1, ...] as one token of each example: its draw for that example."""
    wanted = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    shape = tuple(weight.mean.shape)
    if len(wanted) != len(shape) or shape[0] != 1 or wanted[0] != len(draws.ticks):
        raise NotByExample(
            f"a parameter of shape {shape} is expanded to {wanted}, which is not once an example"
        )
    return weight.draw(draws)[:, 0].expand(wanted)


def plus(draws: Draws, input: Tensor, weight: Law, *, alpha: float = 1) -> Tensor:
    """Positions and other parameters that are added to every example: their draw for that example."""
    require_batch(draws, input, least=1 + min(1, weight.mean.ndim))
    shape = tuple(weight.mean.shape)
    if len(shape) > input.ndim or (len(shape) == input.ndim and shape[0] != 1):
        raise NotByExample(
            f"a parameter of shape {shape} is added to inputs {tuple(input.shape)}, not to each example"
        )
    own = weight.draw(draws)
    if len(shape) == input.ndim:
        own = own[:, 0]
    return input + alpha * own.reshape(len(own), *[1] * (input.ndim - own.ndim), *own.shape[1:])
