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
    there = [p for p in [*ours, *sys.path, os.path.dirname(os.path.dirname(__file__))] if isinstance(p, str)]
    try:
        roots = {os.path.abspath(p) for p in there}
    except FileNotFoundError:  # the current folder is gone
        roots = {p for p in there if os.path.isabs(p)}
    return [root.rstrip(os.sep) + os.sep for root in sorted(roots, reverse=True)]
