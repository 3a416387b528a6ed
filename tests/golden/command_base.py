"""What tests of the command share: runs it, and prints TAP. Import it from a program with the arguments MTPROF TRACE."""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MTPROF, TRACE = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parents[2]
Ran = collections.namedtuple("Ran", "code out err")
results = []


def run(*args, stdin=None, stdout=subprocess.PIPE, **env):
    done = subprocess.run([MTPROF, *map(str, args)], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **env})
    return Ran(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())


def test(function):
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(pathlib.Path(folder))
            why = ""
        except Exception as error:  # report why a test failed, whatever the exception
            why = f"{type(error).__name__}: {error}"
    results.append(not why)
    print(f"{'not ' if why else ''}ok {len(results)} - {function.__name__}")
    if why:
        print("#", why.replace("\n", "\n# "))
    return function


def equal(got, expected):
    assert got == expected, f"{got!r}, not {expected!r}"


def refused(ran, code, *words):
    """One line that starts with the verb and contains these words; nothing on standard output."""
    assert ran.code == code and ran.out == "", ran
    assert ran.err.startswith("mtprof") and ran.err.count("\n") <= 2, ran
    for word in words:
        assert word in ran.err, (word, ran.err)
    assert not re.match(r"mtprof( \w+)?: [a-z][a-z_0-9]*: ", ran.err), f"a function's name: {ran.err}"


def finish():
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)
