"""Keyword arguments of a scope, as its event shows them."""
import json
import math
import warnings


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


def members(keywords: dict) -> str:
    """Members of the event's JSON object, as libmtprof takes them (MTP_ARGS_MEMBERS); unsupported values are "NULL"."""
    out = {}
    for key, value in keywords.items():
        if _is_plain(value) or (isinstance(value, (list, tuple)) and all(map(_is_plain, value))):
            out[str(key)] = value
        else:
            warnings.warn(f"Unable to infer type of value for keyword: {key}", stacklevel=3)
            out[str(key)] = "NULL"
    return "\1" + json.dumps(out)[1:-1]
