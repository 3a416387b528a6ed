"""Ops in place that follow from another op (Y() in include/mindtorch_ops.h): its cases whose result fits self."""
import numpy as np

import mindtorch_v2 as mindtorch

from .case import CASES, by_op, copy


def fits(case):
    """Can the result be written to self? (Not if others broadcast it.)"""
    self = case.args[0]
    if 0 not in case.real():
        return False
    args = [a.astype(np.int64) if case.typed and i in case.real() else a for i, a in enumerate(case.args)]
    with np.errstate(all="ignore"):
        return np.shape(case.want(*args, **case.kwargs)) == self.shape


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def in_place(case):
    """Its result has self's dtype: where the op's is floating, self must be."""
    if case.op in COMPARISONS:  # in place they have a derivative: zero
        node = None if isinstance(case.args[1], np.ndarray) else case.op.capitalize() + "Backward0"
        return copy(case, op=case.op + "_", out="same", grad=[0] if case.label not in ("ties", "nan") else False, second=False, node=node)
    if case.op == "cumsum":  # bool cannot hold the sums; dtype= must be self's
        dtype = case.kwargs.get("dtype")
        return copy(case, op="cumsum_", out="same", dtypes="" if dtype else case.dtypes.replace("b", ""))
    letters = "".join(letter for letter in case.dtypes if letter in "fd") if case.out == "float" else case.dtypes
    return copy(case, op=case.op + "_", dtypes=letters, out="same")


rows = {id for id, name, schema, *_ in mindtorch._C._op_table() if "(a!)" in schema}
cases = by_op()
for op in sorted(set(cases) & {id[:-1] for id in rows} - {id[:-1] for id in cases if id.endswith("_")}):
    CASES.extend(in_place(case) for case in cases[op] if fits(case))
