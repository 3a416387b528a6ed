#!/usr/bin/env python3
"""Unit: `mtprof run` with each Python on this machine, started in every way: programs behave as without us. Those of the Python that
mtprof was built for are recorded; for others one line says that they are not.

usage: tests/unit/test_interpreters.py MTPROF PYTHON       speaks TAP; PYTHON: the one that mtprof was built for, or ""
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from programs import check, finish, said

MTPROF = str(pathlib.Path(sys.argv[1]).resolve())
PROGRAM = """
import sys
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def test_fib():
    assert fib(10) == 55
sys.stdout.write("%s %s %s\\n" % (fib(10), __name__, sys.argv[1:]))
if not sys.flags.no_site:  # -S also ignores what would remove the entry again
    sys.stdout.write("%s %s\\n" % ([p for p in sys.path if "_run" in p], "sitecustomize" in sys.modules))
if __name__ == "__main__":
    sys.exit(5)
"""
TOOLS = """
import sys, threading
seen = []
def f(): return len("")
def note(frame, event, arg):
    if frame.f_code is f.__code__: seen.append(event)
    return note
sys.setprofile(note); f(); sys.setprofile(None)
sys.settrace(note); f(); sys.settrace(None)
threading.setprofile(note)
t = threading.Thread(target=f); t.start(); t.join()
threading.setprofile(None)
if hasattr(sys, "monitoring"):
    m = sys.monitoring
    for tool in (m.DEBUGGER_ID, m.COVERAGE_ID, m.PROFILER_ID, m.OPTIMIZER_ID):
        m.use_tool_id(tool, "mine")
        m.register_callback(tool, m.events.PY_START, lambda code, offset: seen.append(code.co_name))
        m.set_events(tool, m.events.PY_START)
        f()
        m.set_events(tool, 0)
        m.free_tool_id(tool)
print(seen)
print(sys.getprofile(), sys.gettrace())
sys.exit("the end")
"""
FAILS = """
import atexit, threading
atexit.register(lambda: print("at exit"))
def g():
    try: yield 1
    finally: print("closed")
x = g(); next(x)
def fail(): raise KeyError(3)
t = threading.Thread(target=fail); t.start(); t.join()
fail()
"""


def version_of(python):
    """ "3.11", or "3.11d" of a debug build, which can load the same extensions; "": it does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2] + hasattr(sys, 'gettotalrefcount') * 'd')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip() if python else ""


def interpreters():
    """Those on PATH, and pyenv's, one of each version."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    names = [f"python{v}" for v in ("2.7", *(f"3.{minor}" for minor in range(4, 20)), "3-dbg", "3.11-dbg")]
    found = {}
    for candidate in [sys.argv[2], sys.executable, *sorted(map(str, pyenv.glob("versions/*/bin/python"))), *(shutil.which(n) for n in names)]:
        version = version_of(candidate)
        if version:
            found.setdefault(version, candidate)
    return found


class Interpreter:
    def __init__(self, version, python, folder):
        self.version, self.python, self.folder = version, python, folder
        self.is_built_for = version.rstrip("d") == version_of(sys.argv[2]).rstrip("d")
        self.differences, self.notes = [], []

    def run(self, *command, under=False, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MTPROF", "PYTHON"))}
        return subprocess.run([*([MTPROF, "run", "--"] if under else []), *map(str, command)], cwd=self.folder, env={**clean, **env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

    def compare(self, *command, notes=None, **env):
        """The program alone and under `mtprof run`: the same output, errors and exit status."""
        alone, under = self.run(*command, **env), self.run(*command, under=True, **env)
        # times and addresses differ from run to run, and what Python 2.7 says of threads at exit
        mine, theirs = (re.sub(r"\d+\.\d\d\d seconds|0x[0-9a-f]+|\d+\.\d+s|Thread-\d+|\(\d+\)", "#", text) for text in (alone.stdout, under.stdout))
        lines = under.stderr.splitlines()
        if under.returncode != alone.returncode or mine != theirs or not all(line in lines for line in alone.stderr.splitlines()
                                                                             if not re.search(r"\d\.\d|Thread-|thread started by|sys\.(excepthook|stderr)", line)):
            self.differences.append((command, said(alone), said(under)))
        told = [line for line in lines if "functions are not recorded" in line]
        if len(told) != (notes if notes is not None else 0 if self.is_built_for else 1):
            self.notes.append((command, said(under)))

    def starts(self):
        """The ways to start a program."""
        python, is_3 = self.python, self.version[0] == "3"
        for options in (["prog.py", "a"], ["-m", "prog", "a"], ["-OO", "-W", "error", "prog.py"], ["-s", "prog.py"], ["-u", "prog.py"],
                        ["app.pyz", "a"], ["."], ["-c", "import sys; print(sys.argv, sys.flags); sys.exit('bye')", "x"], ["-m", "nothing"],
                        ["none.py"], ["tools.py"], ["fails.py"], ["-m", "unittest", "prog"], ["-m", "trace", "--listfuncs", "prog.py"]):
            self.compare(python, *options)
        for options in (["-S"], ["-E"], *([["-I"], ["-I", "-S"]] if is_3 else [])):
            self.compare(python, *options, "prog.py", notes=int(is_3))
        self.compare("sh", "-c", f"echo c | '{python}' -m pdb prog.py")
        self.compare("sh", "-c", f"echo 'import sys; print(sys.path)' | '{python}' -")
        self.compare("sh", "-c", f"'{python}' -m cProfile -s name prog.py | grep fib | tr -d '0-9.'")
        if is_3:
            self.compare(python, "-X", "dev", "prog.py")

    def environments(self):
        self.compare(self.python, "prog.py", PYTHONPATH=str(self.folder / "own"))
        self.compare(self.python, "-S", "prog.py", PYTHONPATH=str(self.folder / "own"), notes=int(self.version[0] == "3"))
        for name, options in (("env", []), ("env_site", ["--system-site-packages"])):
            if self.version[0] == "3" and self.run(self.python, "-m", "venv", "--without-pip", *options, name).returncode == 0:
                self.compare(self.folder / name / "bin" / "python", "prog.py", "a")
                self.compare(self.folder / name / "bin" / "python", "-c", "import sys; print(sys.prefix, sys.path[1:])")

    def frameworks(self):
        """pytest and coverage, where they are installed."""
        for module, command in (("pytest", ["-m", "pytest", "-q", "-p", "no:cacheprovider", "prog.py"]),
                                ("coverage", ["-m", "coverage", "run", "--data-file=c", "prog.py"])):
            if self.run(self.python, "-c", f"import {module}").returncode == 0:
                self.compare(self.python, *command)
                if module == "coverage":
                    self.compare(self.python, *command, COVERAGE_CORE="sysmon")

    def records(self):
        self.run(self.python, "prog.py", under=True)
        told = self.run(MTPROF, "stats", "--json", "--python-functions", "run.mtp").stdout
        return {row["key"]: row["count"] for row in json.loads(told)} if told else {}


def prepare(folder):
    (folder / "own").mkdir()
    for name, text in (("prog.py", PROGRAM), ("__main__.py", PROGRAM), ("tools.py", TOOLS), ("fails.py", FAILS),
                       ("own/sitecustomize.py", "print('own site')\n"), ("own/usercustomize.py", "print('own user')\n")):
        (folder / name).write_text(text)
    with zipfile.ZipFile(folder / "app.pyz", "w") as app:
        app.writestr("__main__.py", PROGRAM)


def free_threaded():
    """A Python that says that it is."""
    with tempfile.TemporaryDirectory() as folder:
        one = Interpreter("3", sys.argv[2] or sys.executable, pathlib.Path(folder))
        if one.run(one.python, "-m", "venv", "--without-pip", "env").returncode != 0:
            return
        next(one.folder.glob("env/lib/python3*/site-packages")).joinpath("free.pth").write_text("import sys; sys.abiflags = 't'\n")
        done = one.run("env/bin/python", "-c", "print(5)", under=True)
        check("a_free_threaded_python_is_named_as_the_reason", done.stdout == "5\n" and re.search(
            r"its Python functions are not recorded: this Python 3\.\d+ is free-threaded", done.stderr), said(done))


def main():
    free_threaded()
    for version, python in interpreters().items():
        with tempfile.TemporaryDirectory() as temporary:
            prepare(pathlib.Path(temporary))
            one = Interpreter(version, python, pathlib.Path(temporary))
            one.starts()
            one.environments()
            one.frameworks()
            first = "\n".join(map(str, one.differences[0])) if one.differences else ""
            check(f"python_{version}_programs_behave_as_without_us", not one.differences, first)
            check(f"python_{version}_one_line_says_what_is_missing", not one.notes, "\n".join(map(str, one.notes[:1])))
            if one.is_built_for:
                names = one.records()
                check(f"python_{version}_functions_are_recorded", names.get("prog.py(3): fib") == 177, names)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
