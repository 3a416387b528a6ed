"""What the rest of the package shares: hook handles, profiler scopes, and the data loader."""

from . import hooks
from . import data

__all__ = ["hooks", "data"]
