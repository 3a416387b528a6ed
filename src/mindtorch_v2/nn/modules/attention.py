"""MultiheadAttention."""

import mindtorch_v2 as torch
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


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
        key_padding_mask = F._canonical_mask(
            key_padding_mask, "key_padding_mask", F._none_or_dtype(attn_mask), "attn_mask", query.dtype
        )
        attn_mask = F._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        turned = self.batch_first and query.dim() == 3
        if turned:  # those that are one tensor stay one
            same_key, same_query = key is value, query is key
            query = query.transpose(1, 0)
            key = query if same_query else key.transpose(1, 0)
            value = key if same_key else value.transpose(1, 0)
        separate = {}
        if not self._qkv_same_embed_dim:
            names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
            separate = {"use_separate_proj_weight": True, **{name: getattr(self, name) for name in names}}
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate,
        )  # fmt: skip
        return (out.transpose(1, 0) if turned else out), weights

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """Both masks as one, and which there were: 0 attn_mask, 1 key_padding_mask, 2 both; None: neither."""
        if key_padding_mask is None:
            return (None, None) if attn_mask is None else (attn_mask, 0)
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = query.shape[:2]
        whole = (batch, -1, length, length) if attn_mask.dim() == 3 else (1, 1, length, length)
        attn_mask = attn_mask.view(*whole).expand(batch, self.num_heads, -1, -1)
        return attn_mask + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1), 2
