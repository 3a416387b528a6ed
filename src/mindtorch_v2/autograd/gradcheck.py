"""Checks derivatives against finite differences."""
from mindtorch_v2 import _C


def _numeric(function, inputs, which, output, eps):
    """The Jacobian of one output with respect to one input, as a list of rows: one per element of the input."""
    x = inputs[which]
    rows = []
    flat = x.detach().reshape(-1)
    for i in range(x.numel()):
        sides = []
        for step in (eps, -eps):
            moved = flat.clone()
            moved[i] = moved[i] + step
            changed = list(inputs)
            changed[which] = moved.reshape(list(x.shape))
            result = function(*changed)
            sides.append((result if isinstance(result, tuple) else (result,))[output].detach().reshape(-1))
        rows.append(((sides[0] - sides[1]) / (2 * eps)).tolist())
    return rows


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Do the derivatives of func agree with central differences? Inputs should be float64."""
    from mindtorch_v2 import autograd

    inputs = (inputs,) if isinstance(inputs, _C.Tensor) else tuple(inputs)
    outputs = func(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, _C.Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for o, out in enumerate(outputs):
        if not out.requires_grad:
            continue
        numeric = {i: _numeric(func, inputs, i, o, eps) for i in wanted}
        for k in range(out.numel()):
            seed = _C.ops.zeros([out.numel()], dtype=out.dtype)
            seed[k] = 1
            grads = autograd.grad(out, [inputs[i] for i in wanted], seed.reshape(list(out.shape)), retain_graph=True,
                                  allow_unused=True)
            for i, g in zip(wanted, grads):
                analytic = [0.0] * inputs[i].numel() if g is None else g.detach().reshape(-1).tolist()
                for j, a in enumerate(analytic):
                    n = numeric[i][j][k]
                    if not abs(a - n) <= atol + rtol * abs(n):
                        if raise_exception:
                            raise RuntimeError(
                                f"Jacobian mismatch for output {o} with respect to input {i}: element ({j}, {k}) is "
                                f"numerically {n}, analytically {a}"
                            )
                        return False
    return True
