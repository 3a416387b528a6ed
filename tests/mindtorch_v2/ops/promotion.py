"""PyTorch's rules for the dtype of a result, written down: b bool, i int32, l int64, f float32, d float64."""

# Both operands have dims, or neither has. Row: one, column: the other.
EQUALS = {"b": dict(zip("bilfd", "bilfd")),
          "i": dict(zip("bilfd", "iilfd")),
          "l": dict(zip("bilfd", "lllfd")),
          "f": dict(zip("bilfd", "ffffd")),
          "d": dict(zip("bilfd", "ddddd"))}

# Row: a tensor with dims, column: one without.
ZERO_DIM = {"b": dict(zip("bilfd", "bilfd")),
            "i": dict(zip("bilfd", "iiifd")),
            "l": dict(zip("bilfd", "lllfd")),
            "f": dict(zip("bilfd", "fffff")),
            "d": dict(zip("bilfd", "ddddd"))}

# Row: a tensor, column: a Python bool, int or float.
NUMBER = {"b": dict(zip("BLF", "blf")),
          "i": dict(zip("BLF", "iif")),
          "l": dict(zip("BLF", "llf")),
          "f": dict(zip("BLF", "fff")),
          "d": dict(zip("BLF", "ddd"))}

NUMBERS = {"B": True, "L": 2, "F": 2.0}
KINDS = ("tensor_tensor", "tensor_zero", "zero_tensor", "zero_zero", "tensor_number", "zero_number")


def promoted(kind, a, b):
    """The dtype that a and b compute in."""
    if kind.endswith("number"):
        return NUMBER[a][b]
    if kind == "tensor_zero":
        return ZERO_DIM[a][b]
    if kind == "zero_tensor":
        return ZERO_DIM[b][a]
    return EQUALS[a][b]


def floating(letter):
    return letter if letter in "fd" else "f"


def truth(letter):
    return "b"


def itself(letter):
    return letter


# op -> (of the promoted dtype: the result's, those promoted dtypes that it refuses, takes numbers?)
BINARY = {"add": (itself, "", True), "sub": (itself, "", True), "mul": (itself, "", True), "div": (floating, "", True),
          "floor_divide": (itself, "b", True), "remainder": (itself, "b", True), "pow_tensor": (itself, "b", False),
          "maximum": (itself, "", False), "minimum": (itself, "", False), "atan2": (floating, "", False),
          "eq": (truth, "", True), "ne": (truth, "", True), "lt": (truth, "", True), "le": (truth, "", True),
          "gt": (truth, "", True), "ge": (truth, "", True), "logical_and": (truth, "", False),
          "logical_or": (truth, "", False), "logical_xor": (truth, "", False), "bitwise_and": (itself, "fd", True),
          "bitwise_or": (itself, "fd", True), "bitwise_xor": (itself, "fd", True), "xlogy": (floating, "", False)}
