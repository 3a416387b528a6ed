"""Explains why one of our extensions cannot be imported."""
import importlib.machinery
import os
import sys
import sysconfig


def missing(file, name, error):
    """An ImportError for the extension `name` ("mtprof._native") that lies beside `file`, in place of `error`."""
    folder, module = os.path.dirname(os.path.abspath(file)), name.rpartition(".")[2]
    if not os.path.isdir(folder):
        return ImportError(f"{name} cannot be loaded from a zip, as {folder} is in: install it with {sys.executable} -m pip", name=name)
    found = sorted(f for f in os.listdir(folder) if f.startswith(module + ".") and f.endswith(".so"))
    ours = [module + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    if "t" in sys.abiflags:
        return ImportError(f"mtprof does not support free-threaded Python ({sys.executable}): use one with the GIL", name=name)
    if "does not support loading in subinterpreters" in str(error):  # Python's words
        return ImportError(f"{error} with a GIL of their own", name=name)
    if os.path.exists(os.path.join(folder, "lib")):  # a wheel
        return ImportError(f"{error}: {folder} is damaged, or of another Python or system than {sys.executable} ({sysconfig.get_config_var('SOABI')}): "
                           f"install it again with {sys.executable} -m pip", name=name)
    if any(f in ours for f in found):
        return ImportError(f"{error} ({name} is in {folder}; if its build folder was deleted or moved, rebuild: make build)",
                           name=name)
    if found:
        built = ", ".join(f[len(module) + 1:-len(".so")] for f in found)
        return ImportError(f"{name} was built for {built}, and this is {sysconfig.get_config_var('SOABI')} ({sys.executable}): run the Python "
                           f"that it was built for, or type `make build` where python3 is this one", name=name)
    return ImportError(f"{name} is not built ({folder} has none): type `make build` where python3 is {sys.executable}", name=name)
