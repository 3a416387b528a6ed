"""What the file names of Python frames are shortened by: the directories that modules are imported from, as PyTorch does."""
import os
import site
import sys


def prefixes():
    """Each ends with a separator; of two that fit a name the longer comes first."""
    try:
        ours = site.getsitepackages() + [site.getuserbase(), site.getusersitepackages()]
    except AttributeError:  # a virtual environment with a site module of its own
        ours = []
    roots = {os.path.abspath(p) for p in [*ours, *sys.path, os.path.dirname(os.path.dirname(__file__))] if isinstance(p, str)}
    return [root.rstrip(os.sep) + os.sep for root in sorted(roots, reverse=True)]
