"""MultiheadAttention and the encoder layer built on it."""

import math

import mindtorch_v2 as torch
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .activation import Dropout
from .linear import Linear, NonDynamicallyQuantizableLinear
from .module import Module
from .normalization import LayerNorm


class MultiheadAttention(Module):
    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
        batch_first=False, device=None, dtype=None,
    ):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape):
            return Parameter(torch.empty(shape, device=device, dtype=dtype))

        packed = self._qkv_same_embed_dim
        for name, width in (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim)):
            self.register_parameter(name, None if packed else parameter(embed_dim, width))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if packed else None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", parameter(1, 1, embed_dim) if add_bias_kv else None)
        self.register_parameter("bias_v", parameter(1, 1, embed_dim) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        weights = [self.in_proj_weight] if self._qkv_same_embed_dim else self._separate()
        for weight in weights:
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for value in (self.bias_k, self.bias_v):
            if value is not None:
                init.xavier_normal_(value)

    def _separate(self):
        return [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
        is_causal=False,
    ):  # fmt: skip
        """Shapes: (length, batch, width); with batch_first (batch, length, width); unbatched (length, width)."""
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if query.dim() not in (2, 3):
            raise AssertionError(
                f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
            )
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}")
        batched = query.dim() == 3
        q, k, v = self._projected(query, key, value)
        if not batched:
            q, k, v = (t.unsqueeze(0) for t in (q, k, v))
            key_padding_mask = key_padding_mask.unsqueeze(0) if key_padding_mask is not None else None
        elif not self.batch_first:
            q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        mask = self._mask(q, k, attn_mask, key_padding_mask)
        k, v, mask = self._extended(k, v, mask)
        q, k, v = (self._heads(t) for t in (q, k, v))
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = torch.matmul(q * math.sqrt(1.0 / self.head_dim), k.transpose(-2, -1))
            weights = F.softmax(scores if mask is None else scores + mask, dim=-1)
            weights = F.dropout(weights, p) if p > 0.0 else weights
            heads = torch.matmul(weights, v)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            heads = F.scaled_dot_product_attention(q, k, v, mask, p)
        out = heads.transpose(1, 2).reshape(q.shape[0], q.shape[2], self.embed_dim)
        out = self.out_proj(out if self.batch_first or not batched else out.transpose(0, 1))
        if not batched:
            return out.squeeze(0), weights.squeeze(0) if weights is not None else None
        return out, weights

    def _projected(self, query, key, value):
        width = self.embed_dim
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(width)
        if self._qkv_same_embed_dim:
            if query is key and key is value:
                return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            weights = self.in_proj_weight.split(width)
        else:
            weights = self._separate()
        return tuple(F.linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases))

    def _heads(self, t):
        batch, length, _ = t.shape
        return t.reshape(batch, length, self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(self, q, k, attn_mask, key_padding_mask):
        """Both masks combined into one to add to the scores, (batch or 1, heads or 1, length, length), or None."""
        attn_mask = _additive(attn_mask, q.dtype, "attn_mask")
        key_padding_mask = _additive(key_padding_mask, q.dtype, "key_padding_mask")
        if attn_mask is not None:
            lengths = (q.shape[1], k.shape[1])
            if attn_mask.dim() == 2:
                if tuple(attn_mask.shape) != lengths:
                    raise RuntimeError(
                        f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {lengths}."
                    )
                attn_mask = attn_mask.unsqueeze(0).unsqueeze(0)
            elif attn_mask.dim() == 3:
                wanted = (q.shape[0] * self.num_heads, *lengths)
                if tuple(attn_mask.shape) != wanted:
                    raise RuntimeError(f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be {wanted}.")
                attn_mask = attn_mask.view(q.shape[0], self.num_heads, *lengths)
            else:
                raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
        if key_padding_mask is not None:
            wanted = (k.shape[0], k.shape[1])
            if tuple(key_padding_mask.shape) != wanted:
                raise AssertionError(f"expecting key_padding_mask shape of {wanted}, but got {key_padding_mask.shape}")
            key_padding_mask = key_padding_mask.view(k.shape[0], 1, 1, k.shape[1])
            attn_mask = key_padding_mask if attn_mask is None else attn_mask + key_padding_mask
        return attn_mask

    def _extended(self, k, v, mask):
        """Appends the learned and the zero key and value, which are never masked."""
        extra = 0
        if self.bias_k is not None:
            k, v = (torch.cat([t, b.expand(t.shape[0], 1, self.embed_dim)], 1) for t, b in ((k, self.bias_k), (v, self.bias_v)))
            extra += 1
        if self.add_zero_attn:
            k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
            extra += 1
        return k, v, F.pad(mask, (0, extra)) if extra and mask is not None else mask


def _additive(mask, dtype, name):
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != torch.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, -math.inf)


class TransformerEncoderLayer(Module):
    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
        batch_first=False, norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **made)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        if isinstance(activation, str):
            if activation not in ("relu", "gelu"):
                raise RuntimeError(f"activation should be relu/gelu, not {activation}")
            activation = getattr(F, activation)
        self.activation = activation

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = src
        if self.norm_first:
            x = x + self._attended(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._fed(self.norm2(x))
        x = self.norm1(x + self._attended(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._fed(x))

    def _attended(self, x, mask, padding, is_causal):
        x, _ = self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return self.dropout1(x)

    def _fed(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
