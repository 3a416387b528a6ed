"""The autograd graph: the nodes that Tensor.grad_fn and next_functions return."""
from mindtorch_v2 import _C

Node = _C.Node
