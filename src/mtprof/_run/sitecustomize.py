"""Runs at the start of each Python interpreter under `mtprof run`, in any environment: Python's functions are recorded, and PyTorch's
ops once the program imports torch. Then the program's own sitecustomize, if there is one, runs as it would have.

The program must not notice: nothing here raises, prints, or imports more than it needs. Any Python from 2.7 on can read this file.
"""
import sys

_torch = None  # _Torch, once the program has imported torch
_stepping = []  # a weak reference to the optimizer that ends steps: the first that is used, of any framework
_OLDEST = (3, 10)  # that mtprof._native can be built for; PyTorch's ops are recorded from 3.8 on


def _folder():
    import os
    return os.path.dirname(os.path.abspath(__file__))


def _say(text):
    """A line for the user, which `mtprof run` prints when the program has ended."""
    try:
        import ctypes
        ctypes.CDLL(None).mtp_run_note(text.encode("utf-8", "replace"))
    except Exception:
        pass


class _Package(object):
    """Finds the package mtprof where this file is, in environments that do not have it."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name != "mtprof":
            return None
        from _frozen_importlib_external import spec_from_file_location
        return spec_from_file_location("mtprof", self.folder + "/__init__.py", submodule_search_locations=[self.folder])


class _Loader(object):
    """Loads a module as its own loader does, then calls after(module)."""

    def __init__(self, loader, after):
        self.loader, self.after = loader, after

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.after(module)


class _AfterImport(object):
    """Waits for a module to be imported: before() runs right before, after(module) right after."""

    def __init__(self, name, before, after):
        self.name, self.before, self.after = name, before, after

    def find_spec(self, name, path=None, target=None):
        if name != self.name or path is not None:
            return None
        spec = None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.before()
        spec.loader = _Loader(spec.loader, self.after)
        return spec


def _count_steps(register, hide=lambda: None):
    """A training step ends when the first optimizer that is used has stepped. register(function): optimizers call it then; hide():
    others who mark steps no longer do."""
    import atexit
    import ctypes
    import weakref
    step = ctypes.CDLL(None).mtp_run_step

    def stepped(optimizer, args, kwargs):
        if not _stepping:
            hide()
        if not _stepping or _stepping[0]() is None:
            _stepping[:] = [weakref.ref(optimizer)]
        if _stepping[0]() is optimizer:
            step(1)

    register(stepped)
    atexit.register(step, 0)


def _count_steps_of(framework):
    """Of mindtorch_v2, which records all else itself."""
    try:
        _count_steps(framework.optim.optimizer.register_optimizer_step_post_hook)
    except Exception as error:
        _say("training steps are not seen: %s: %s" % (type(error).__name__, error))


class _Torch(object):
    """PyTorch's ops, by mtprof/pytorch/collector.py, which needs nothing of the package: on while a recording runs, so that they cost
    nothing while none does."""

    SHAPES, MEMORY, MODULES = 0x100, 0x400, 0x1000  # MTP_WITH_*

    def __init__(self, folder, torch, native):
        import ctypes
        self.torch, self.native, self.attached, self.quiet = torch, native, None, False
        self.collector = self.load(folder)
        library = ctypes.CDLL(None)
        self.calls = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(self.begin), ctypes.CFUNCTYPE(None)(self.end)
        library.mtp_run_hook.restype = ctypes.c_uint32
        now = library.mtp_run_hook(*self.calls)
        if now:
            self.begin(now)
        else:
            self.get_ready()

    def load(self, folder):
        import os
        from _frozen_importlib_external import spec_from_file_location
        from importlib.util import module_from_spec
        file = os.path.join(os.path.dirname(folder), "pytorch", "collector.py")
        if not os.path.exists(file):
            _say("PyTorch's ops are not recorded: %s is missing" % file)
            return None
        spec = spec_from_file_location("_mtprof_torch_collector", file)
        collector = module_from_spec(spec)
        sys.modules[spec.name] = collector
        spec.loader.exec_module(collector)
        return collector

    def get_ready(self):
        """Compiles the collector, if need be: later somebody waits, or the seconds to record pass meanwhile."""
        try:
            self.collector.load()
        except Exception:
            pass  # begin() says why

    def begin(self, recording):
        try:
            profiler = self.torch.autograd.profiler
            self.was_enabled = getattr(profiler, "_is_profiler_enabled", False)
            if hasattr(profiler, "_set_is_profiler_enabled"):
                profiler._set_is_profiler_enabled(True)  # PyTorch names the steps of optimizers and loaders only then
            if self.native is not None and recording & self.MODULES:
                self.native.set_module_call(self.torch.nn.Module.__call__.__code__)
            if self.collector is not None:
                self.attached = self.collector.attach(shapes=bool(recording & self.SHAPES), memory=bool(recording & self.MEMORY),
                                                      quiet=self.quiet)
            self.quiet = True
        except Exception as error:
            _say("PyTorch's ops are not recorded: %s: %s" % (type(error).__name__, error))

    def end(self):
        try:
            attached, self.attached = self.attached, None
            if attached is not None:
                attached.detach()
            if hasattr(self.torch.autograd.profiler, "_set_is_profiler_enabled"):
                self.torch.autograd.profiler._set_is_profiler_enabled(self.was_enabled)
        except Exception:
            pass


def _attach_torch(folder, torch, native):
    global _torch
    try:
        _torch = _Torch(folder, torch, native)
    except Exception as error:
        _say("PyTorch's ops are not recorded: %s: %s" % (type(error).__name__, error))
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook
        _count_steps(register_optimizer_step_post_hook, lambda: _torch.collector.hide_steps() if _torch and _torch.collector else None)
    except Exception as error:
        _say("training steps are not seen: %s: %s" % (type(error).__name__, error))


def _name_threads(native):
    import threading
    if hasattr(threading.Thread, "_set_os_name"):
        return  # Python 3.14 names them itself
    original = threading.Thread._set_native_id

    def _set_native_id(self):
        original(self)
        native.name_thread(self._name)

    threading.Thread._set_native_id = _set_native_id


def _without_functions(why):
    """Says that they are missing; the agent would guess the reason."""
    import ctypes
    _say("its Python functions are not recorded: " + why)
    ctypes.CDLL(None).mtp_run_python(None)


def _too_old():
    return "this is Python %d.%d, and mtprof follows those of 3.10 and later" % sys.version_info[:2]


def _of_others():
    """Where the program would import another project's mtprof from, such as the thread profiler of that name on PyPI; or None."""
    import os
    from _frozen_importlib_external import PathFinder
    spec = PathFinder.find_spec("mtprof")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if spec is None or any(os.path.exists(os.path.join(folder, "_run")) for folder in folders):
        return None
    return spec.origin or (folders + ["?"])[0]


def _native(folder):
    """mtprof._native, or None where it is not built for this interpreter, which is said."""
    import os
    from _imp import extension_suffixes
    home = os.path.dirname(folder)
    if sys.version_info < _OLDEST:
        _without_functions(_too_old())
        return None
    if "t" in sys.abiflags:
        _without_functions("this Python %d.%d is free-threaded, and mtprof follows those with the GIL" % sys.version_info[:2])
        return None
    if not any(os.path.exists(os.path.join(home, "_native" + suffix)) for suffix in extension_suffixes()):
        how = "install mtprof for it, too, and use that one: %s -m pip" if os.path.exists(os.path.join(home, "bin", "mtprof")) else "make build PYTHON=%s"
        _without_functions("mtprof is not built for this Python %d.%d: " % sys.version_info[:2] + how % sys.executable)
        return None
    other = _of_others()
    if other is not None:
        _without_functions("another package named mtprof is in its way: " + other)
        return None
    sys.meta_path.append(_Package(home))
    from mtprof import _native as native
    return native


def _attach_python(folder, words):
    """Returns mtprof._native, or None, and a function that ends the recording of Python's functions, or None."""
    functions = "python" in words
    native = _native(folder)
    if native is None:
        return None, None
    native.hide_file(_attach_python.__code__.co_filename)
    _name_threads(native)
    native.attach(functions)
    if not functions:
        return native, None
    import atexit
    import gc
    gc.callbacks.append(native.gc_event)

    def end(stays=False):
        """stays: collections are still recorded, for they stop the program's ops."""
        if not stays and native.gc_event in gc.callbacks:
            gc.callbacks.remove(native.gc_event)
        if not native.detach():
            _say("its Python functions are recorded only until it set a profiler of its own (sys.setprofile, cProfile)")

    atexit.register(end)
    return native, end


def _start():
    import os
    words = os.environ.get("MTPROF_RUN_OPTIONS", "").split()
    if "MTPROF_RUN" not in os.environ:
        return
    if sys.version_info < (3, 8):
        if "python" in words:
            _without_functions(_too_old())
        return
    folder, native, end = _folder(), None, None
    if "python" in words or "stacks" in words or "wait" in words:
        try:
            native, end = _attach_python(folder, words)
        except Exception as error:
            _without_functions("%s: %s" % (type(error).__name__, error))
    if "torch" in words and "torch" not in sys.modules:
        before = (lambda: end(stays=True)) if end is not None and "until-torch" in words else lambda: None
        sys.meta_path.insert(0, _AfterImport("torch", before, lambda module: _attach_torch(folder, module, native)))
        sys.meta_path.insert(0, _AfterImport("mindtorch_v2", lambda: None, _count_steps_of))


def _leave_path():
    """The program sees the sys.path that it would have seen."""
    ours = _folder()
    import os
    sys.path[:] = [p for p in sys.path if not (isinstance(p, str) and os.path.abspath(p) == ours)]


try:
    _start()
except Exception:
    pass
_leave_path()
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401  the program's own; without one, site.py expects this ImportError
