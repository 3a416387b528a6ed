"""Attaches the PyTorch collector (src/collect/torch) to this process: finds or compiles it, loads it, turns it on and off.

    attached = attach(shapes=True, memory=True)
    ...
    attached.detach()

The collector is C++ against the headers of the PyTorch that is in use, so it is compiled where that PyTorch is: once, in about
20 seconds, into a cache (MTPROF_CACHE, else XDG_CACHE_HOME/mtprof, else ~/.cache/mtprof). Without a compiler, or with a PyTorch
whose headers do not fit, ops are recorded through PyTorch's ITT ranges, which have names only.

This file stands on its own: Python 3.8 and the standard library. `mtprof run` loads it by its path into interpreters for which
mtprof itself was not built.
"""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading

INPUTS, MEMORY, COMMS = 1, 2, 4  # MTP_TORCH_*
_HERE = os.path.dirname(os.path.abspath(__file__))
# In the source tree, and installed beside the package
_SOURCE_FOLDERS = (os.path.join(_HERE, "..", ".."), os.path.join(_HERE, "source"))
_SOURCES = ("ops.cpp", "inputs.cpp", "memory.cpp", "comms.cpp")
_HEADERS = ("collector.h", "comms.h", "inputs.h")
_PUBLIC = ("mtprof.h", "mtprof_trace.h", "mtprof_analysis.h", "mtprof_live.h", "mtprof_digest.h", "mtprof_ranks.h", "mtprof_tools.h")
_OURS = ("LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "INTEL_LIBITTNOTIFY64", "NVTX_INJECTION64_PATH", "OPENCL_LAYERS")
_lock = threading.Lock()
_library = None  # the loaded collector


class Unavailable(Exception):
    """The collector cannot be had; the text says why, and what to do."""


def _say(text):
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"mtprof: {text}\n")
        sys.stderr.flush()


# ------------------------------------------------------------------------------------------------ where things are


def _sources():
    """The folder of src/collect, and the one of mtprof.h."""
    for folder in _SOURCE_FOLDERS:
        for include in (os.path.join(folder, "..", "include"), os.path.join(folder, "include"), os.path.join(_HERE, "..", "include")):
            if all(os.path.exists(os.path.join(folder, "collect", "torch", name)) for name in _SOURCES + _HEADERS) and \
                    all(os.path.exists(os.path.join(include, name)) for name in _PUBLIC):
                return os.path.realpath(folder), os.path.realpath(include)
    raise Unavailable("the collector's source files are missing: install mtprof again")


def loaded_library():
    """The libmtprof of this process: the collector must record into that one. None: there is none."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith("libmtprof.so"):
                return "/" + path
    return None


def _private(folder):
    """Creates the folder. Code that others could have put there is not loaded."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise Unavailable(f"the cache {folder} belongs to another user, or others may write there: set MTPROF_CACHE to a folder of "
                          f"your own")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{folder} is not writable")
    return folder


def cache_folder():
    """Where compiled collectors are kept."""
    chosen = os.environ.get("MTPROF_CACHE")
    if chosen:
        return _private(os.path.abspath(chosen))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    try:
        return _private(os.path.join(home, "mtprof"))
    except OSError:  # no home, or a read-only one
        return _private(os.path.join(tempfile.gettempdir(), f"mtprof-cache-{os.geteuid()}"))


def _compiler():
    given = os.environ.get("CXX", "").split()
    for command in ([given] if given else []) + [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return [shutil.which(command[0]), *command[1:]]
    raise Unavailable("there is no C++ compiler (c++, g++ or clang++; Debian: apt-get install g++)")


# ----------------------------------------------------------------------------------------------------- compiling


def _flags(torch, include, source):
    package = os.path.dirname(torch.__file__)
    headers = os.path.join(package, "include")
    if not os.path.exists(os.path.join(headers, "ATen", "record_function.h")):
        raise Unavailable(f"PyTorch {torch.__version__} has no headers in {headers} (a packaged build may have them in a package of "
                          f"its own)")
    flags = ["-O2", "-fPIC", "-fno-plt", "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
             "-I" + include, "-I" + source, "-isystem", headers,
             "-isystem", os.path.join(headers, "torch", "csrc", "api", "include")]
    if not getattr(torch.version, "debug", False):
        flags.append("-DNDEBUG")  # RecordFunction has one more member without it
    return flags, os.path.join(package, "lib")


def _digest(parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part + b"\0")
    return digest.hexdigest()[:12]


def _source_key(torch, include, source):
    """What the file is made of; a file of other sources must not be loaded."""
    names = [os.path.join(source, "collect", "torch", name) for name in _SOURCES + _HEADERS]
    parts = [torch.__version__.encode(), str(torch.version.git_version).encode()]
    for name in names + [os.path.join(include, name) for name in _PUBLIC]:
        with open(name, "rb") as file:
            parts.append(file.read())
    return _digest(parts)


def _environment():
    """The compiler is not part of the program: it is not profiled."""
    return {key: value for key, value in os.environ.items() if key not in _OURS and not key.startswith("MTPROF_")}


def _run_all(commands):
    """Runs them at once; the first that fails raises."""
    running = [subprocess.Popen(command, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT) for command in commands]
    failed = None
    for command, process in zip(commands, running):
        output = process.communicate()[0].decode(errors="replace")
        if process.returncode != 0 and failed is None:
            first = next((line for line in output.splitlines() if "error" in line), output.strip()[-300:])
            failed = Unavailable(f"the compiler failed ({os.path.basename(command[0])}, code {process.returncode}): {first}")
    if failed is not None:
        raise failed


def _compile(torch, compiler, flags, source, libraries, out):
    mine = loaded_library()
    if mine is None:
        raise Unavailable("libmtprof is not loaded in this process")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(out), prefix="build-") as work:
        objects = [os.path.join(work, name.replace(".cpp", ".o")) for name in _SOURCES]

        def compile_as(*standard):
            _run_all([[*compiler, *standard, *flags, "-c", os.path.join(source, "collect", "torch", name), "-o", made]
                      for name, made in zip(_SOURCES, objects)])

        ways = (("-std=c++20",), ("-std=c++17",),  # an older compiler, with an older PyTorch
                ("-std=c++20", "-DMTP_WITHOUT_COMMS"), ("-std=c++17", "-DMTP_WITHOUT_COMMS"))  # one without torch.distributed
        for way in ways:
            try:
                compile_as(*way)
                break
            except Unavailable:
                if way is ways[-1]:
                    raise
        made = os.path.join(work, "collector.so")
        # libmtprof is found by its soname: whichever is loaded
        _run_all([[*compiler, "-shared", *objects, "-o", made, "-L" + libraries, "-lc10", "-ltorch_cpu", mine]])
        os.rename(made, out)


def find():
    """The path of the collector for the PyTorch of this process, compiled if need be. Raises Unavailable."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise Unavailable("torch is not imported")
    source, include = _sources()
    try:
        compiler = _compiler()
        missing = None
    except Unavailable as why:  # one that was compiled elsewhere would do
        compiler, missing = [], why
    flags, libraries = _flags(torch, include, source)
    folder = cache_folder()
    name = f"mtprof_torch-{torch.__version__}-{_source_key(torch, include, source)}-"
    if missing is not None:
        found = sorted(entry for entry in os.listdir(folder) if entry.startswith(name) and entry.endswith(".so"))
        if not found:
            raise missing
        return os.path.join(folder, found[-1])
    out = os.path.join(folder, name + _digest(part.encode() for part in compiler + flags) + ".so")
    if not os.path.exists(out):
        with open(out + ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that start together, one compiles
            if not os.path.exists(out):
                _say(f"compiling the collector for PyTorch {torch.__version__}: once, about 20 seconds")
                _compile(torch, compiler, flags, source, libraries, out)
    return out


# ------------------------------------------------------------------------------------------------------ attaching


def load():
    """The collector as a ctypes library. Raises Unavailable."""
    global _library
    with _lock:
        if _library is None:
            path = find()
            try:
                library = ctypes.CDLL(path)
            except OSError as error:
                raise Unavailable(f"the collector {path} cannot be loaded: {error}") from None
            library.mtp_torch_version.restype = ctypes.c_char_p
            built_for = library.mtp_torch_version().decode()
            if built_for != sys.modules["torch"].__version__.partition("+")[0]:
                raise Unavailable(f"{path} was compiled for PyTorch {built_for}, and this is {sys.modules['torch'].__version__}")
            _library = library
        return _library


class Attached:
    """What is connected: kind is "callbacks" (everything), "itt" (names only) or None (nothing)."""

    def __init__(self, kind, why=None, shapes=False, memory=False, end=None):
        self.kind, self.why, self.shapes, self.memory, self._end = kind, why, shapes, memory, end

    def detach(self):
        end, self._end = self._end, None  # once: others may be attached, too
        if end is not None:
            end()


def _is_distributed():
    """Does this process talk to others, or will it? Launchers say so in the environment."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    try:
        return int(os.environ.get("WORLD_SIZE", "1")) > 1 or (distributed is not None and distributed.is_available() and distributed.is_initialized())
    except ValueError:
        return False


def attach(shapes=False, memory=False, quiet=False):
    """From now on PyTorch's ops are recorded, whenever a profile runs. Never raises: kind and why of the result tell what
    happened, and so does a line on stderr if it is not what was asked for."""
    try:
        library, flags = load(), (INPUTS if shapes else 0) | (MEMORY if memory else 0) | (COMMS if _is_distributed() else 0)
        took = library.mtp_torch_attach(flags)
        if memory and not took & MEMORY and not quiet:
            _say("memory is not recorded: this PyTorch does not report its allocations in a way that we know")
        return Attached("callbacks", None, shapes, bool(took & MEMORY), lambda: library.mtp_torch_detach(flags))
    except (Unavailable, OSError) as error:
        why = str(error)
    attached = _attach_itt(why)
    if not quiet:
        _say(f"PyTorch's ops are recorded by name only, and only the main thread's, through ITT: {why}" if attached.kind else
             f"PyTorch's ops are not recorded: {why}; {attached.why}")
    return attached


def hide_steps():
    """For who marks the program's steps: those of PyTorch's own profiler are not recorded from now on."""
    if _library is not None:
        _library.mtp_torch_hide_steps()


def _attach_itt(why):
    """PyTorch's own ITT ranges. They must be on before PyTorch is loaded: see mtprof/pytorch/__init__.py and `mtprof run`."""
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch.profiler.itt, "is_available", bool)():
        return Attached(None, "this PyTorch has no ITT either")
    if "mtprof_itt" not in os.environ.get("INTEL_LIBITTNOTIFY64", ""):
        return Attached(None, "ITT must be set up before PyTorch is loaded: import mtprof.pytorch first, or use `mtprof run`")
    emit = torch.autograd.profiler.emit_itt()
    try:
        emit.__enter__()
    except RuntimeError as error:
        return Attached(None, f"ITT cannot be used: {error}")
    return Attached("itt", why, end=lambda: emit.__exit__(None, None, None))
