"""multi_head_attention_forward, step by step as PyTorch's: the same ops, so the same profile and the same random numbers."""

import math
import warnings

import mindtorch_v2 as torch
from . import functional as F


def _require(condition, message):
    if not condition:
        raise AssertionError(message)


def canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask to add to scores: of a bool mask, -inf where it is true."""
    if mask is None:
        return None
    floating = mask.is_floating_point()
    _require(floating or mask.dtype == torch.bool, f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.", stacklevel=3
        )
    return mask if floating else torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def none_or_dtype(input):
    return None if input is None else input.dtype


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Is the input batched?"""
    rank = query.dim()
    _require(rank in (2, 3), f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    begin = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected "
    _require(
        key.dim() == rank and value.dim() == rank,
        f"{begin}`key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively",
    )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"{begin}`key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"{begin}`attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
            )
        wanted = (num_heads, query.shape[0], key.shape[0])
        if rank == 2 and attn_mask.dim() == 3 and attn_mask.shape != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}")
    return rank == 3


def _parts(projected, count, width):
    """(..., count * width) as `count` tensors (..., width), each contiguous."""
    return projected.unflatten(-1, (count, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()


def _in_projection_packed(q, k, v, w, b=None):
    width = q.size(-1)
    if k is v and q is k:
        parts = _parts(F.linear(q, w, b), 3, width)
        return parts[0], parts[1], parts[2]
    if k is v:
        w_q, w_kv = w.split([width, width * 2])
        b_q, b_kv = (None, None) if b is None else b.split([width, width * 2])
        q = F.linear(q, w_q, b_q)
        parts = _parts(F.linear(k, w_kv, b_kv), 2, width)
        return q, parts[0], parts[1]
    biases = (None, None, None) if b is None else b.chunk(3)
    return tuple(F.linear(*three) for three in zip((q, k, v), w.chunk(3), biases))


def _in_projection(tensors, weights, biases):
    width, names = tensors[0].size(-1), ("query", "key", "value")
    for name, t, w in zip(names, tensors, weights):
        wanted = (width, t.size(-1))
        _require(w.shape == wanted, f"expecting {name} weights shape of {wanted}, but got {w.shape}")
    for name, b in zip(names, biases):
        if b is not None:
            _require(b.shape == (width,), f"expecting {name} bias shape of {(width,)}, but got {b.shape}")
    return tuple(F.linear(*three) for three in zip(tensors, weights, biases))


def _projected(tensors, packed, bias, separate):
    if separate is None:
        _require(packed is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(*tensors, packed, bias)
    for name, w in zip("qkv", separate):
        _require(w is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
    return _in_projection(tensors, separate, (None,) * 3 if bias is None else bias.chunk(3))


def _mask_of_rank_3(attn_mask, heads, queries, keys):
    """heads: those of the whole batch."""
    if attn_mask is None:
        return None
    wanted = (queries, keys) if attn_mask.dim() == 2 else (heads, queries, keys)
    if attn_mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
    if attn_mask.shape != wanted:
        raise RuntimeError(f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {wanted}.")
    return attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask


def _longer(masks):
    """The masks for one more key, which is not masked."""
    return [None if mask is None else F.pad(mask, (0, 1)) for mask in masks]


def _with_bias(k, v, bias_k, bias_v, static, masks):
    if bias_k is None or bias_v is None:
        _require(bias_k is None, "bias_k is set but bias_v is None")
        _require(bias_v is None, "bias_v is set but bias_k is None")
        return k, v, masks
    _require(static[0] is None, "bias cannot be added to static key.")
    _require(static[1] is None, "bias cannot be added to static value.")
    batch = k.shape[1]
    k, v = torch.cat([k, bias_k.repeat(1, batch, 1)]), torch.cat([v, bias_v.repeat(1, batch, 1)])
    return k, v, _longer(masks)


def _by_heads(t, static, name, heads, width):
    """(length, batch, heads * width) as (batch * heads, length, width)."""
    if static is None:
        return t.contiguous().view(t.shape[0], heads, width).transpose(0, 1)
    _require(static.size(0) == heads, f"expecting {name}.size(0) of {heads}, but got {static.size(0)}")
    _require(static.size(2) == width, f"expecting {name}.size(2) of {width}, but got {static.size(2)}")
    return static


def _merged(attn_mask, padding, batch, num_heads, keys):
    if padding is None:
        return attn_mask
    for i, wanted in enumerate((batch, keys)):
        _require(
            padding.shape[i] == wanted, f"Expected key_padded_mask.shape[{i}] to be {wanted}, but got {padding.shape[i]}"
        )
    padding = padding.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, keys)
    return padding if attn_mask is None else attn_mask + padding


def _weighted(q, k, v, mask, dropout_p):
    """The values, and the weights that they have in the result."""
    scaled = q * math.sqrt(1.0 / float(q.shape[-1]))
    turned = k.transpose(-2, -1)
    scores = torch.bmm(scaled, turned) if mask is None else torch.baddbmm(mask, scaled, turned)
    weights = F.softmax(scores, dim=-1)
    if dropout_p > 0.0:
        weights = F.dropout(weights, p=dropout_p)
    return torch.bmm(weights, v), weights


def _fused(q, k, v, mask, dropout_p, is_causal, batch, num_heads):
    """Without the weights: by scaled_dot_product_attention, which wants four dims."""
    if mask is not None:
        one = mask.size(0) == 1 and mask.dim() == 3
        mask = mask.unsqueeze(0) if one else mask.reshape(batch, num_heads, -1, k.size(1))
    q, k, v = (t.reshape(batch, num_heads, t.size(1), t.size(2)) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p,
    out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
    use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
    average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """Shapes: (length, batch, width), or (length, width). Returns the output and the weights, or None."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = key is value, query is key
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if all(same):  # they stay one tensor: one product projects all
            key = value = query
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    queries, batch, width = query.shape
    padding = canonical_mask(key_padding_mask, "key_padding_mask", none_or_dtype(attn_mask), "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and padding is None
    _require(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    _require(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    if separate is None:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
    elif key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    q, k, v = _projected((query, key, value), in_proj_weight, in_proj_bias, separate)
    masks = _mask_of_rank_3(attn_mask, batch * num_heads, queries, key.shape[0]), padding
    k, v, masks = _with_bias(k, v, bias_k, bias_v, (static_k, static_v), masks)
    q = _by_heads(q, None, "", batch * num_heads, head)
    k = _by_heads(k, static_k, "static_k", batch * num_heads, head)
    v = _by_heads(v, static_v, "static_v", batch * num_heads, head)
    if add_zero_attn:
        zeros = torch.zeros((batch * num_heads, 1, head), dtype=k.dtype, device=k.device)
        k, v, masks = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1), _longer(masks)
    mask = _merged(*masks, batch, num_heads, k.size(1))
    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        out, weights = _weighted(q, k, v, mask, dropout_p)
        out = out.transpose(0, 1).reshape(queries * batch, width)
        weights = weights.view(batch, num_heads, queries, k.size(1))
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        out = _fused(q, k, v, mask, dropout_p, is_causal, batch, num_heads)
        out = out.permute(2, 0, 1, 3).reshape(batch * queries, width)
    out = F.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(queries, batch, out.size(1))
    if batched:
        return out, weights
    return out.squeeze(1), None if weights is None else weights.squeeze(0)
