"""Prefixes stripped from the file names of Python frames: the directories that modules are imported from, as in PyTorch."""
import os
import site
import sys


def prefixes():
    """Each ends with a separator; of two that match a name, the longer comes first."""
    try:
        ours = site.getsitepackages() + [site.getuserbase(), site.getusersitepackages()]
    except AttributeError:  # a virtual environment with its own site module
        ours = []
    there = [p for p in [*ours, *sys.path, os.path.dirname(os.path.dirname(__file__))] if isinstance(p, str)]
    try:
        roots = {os.path.abspath(p) for p in there}
    except FileNotFoundError:  # the current directory was deleted
        roots = {p for p in there if os.path.isabs(p)}
    return [root.rstrip(os.sep) + os.sep for root in sorted(roots, reverse=True)]
