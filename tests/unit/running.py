"""Programs under `mtprof run`, for the tests of it: MTPROF, the command, is the test's first argument."""
import errno
import fcntl
import json
import os
import pathlib
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

from programs import check

MTPROF = str(pathlib.Path(sys.argv[1]).resolve())
NOBODY = 65534
PYTHON = sys.executable


class Done:
    def __init__(self, code, out, err, folder):
        self.code, self.out, self.err, self.folder = code, out, err, folder
        self.files = sorted(p.name for p in folder.iterdir())
        self.spools = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*.mtp")}

    def __repr__(self):
        return f"exit {self.code}\n{self.out}{self.err}{self.files}"

    def names(self):
        """How often each name occurs, in all processes together."""
        counted = {}
        for name in {name.partition(".workers/")[0] for name in self.spools}:  # reading it reads its workers, too
            path = self.folder / name if name in self.spools else self.folder / (name + ".workers")
            told = subprocess.run([MTPROF, "stats", "--json", "--python-functions", path], capture_output=True, text=True)
            for row in json.loads(told.stdout) if told.stdout else []:
                counted[row["key"]] = counted.get(row["key"], 0) + row["count"]
        return counted


def environment(**more):
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("MTPROF", "ASAN_OPTIONS"))}, "LC_ALL": "C.UTF-8", **more}


def run(folder, *args, options=(), stdin=None, cwd=None, preexec=None, timeout=60, report=False, **more):
    done = subprocess.run([MTPROF, "run", *([] if report else ["--no-report"]), *options, "--", *args], cwd=cwd or folder, env=environment(**more), input=stdin, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=preexec)
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), pathlib.Path(folder))


def test(function):
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(pathlib.Path(folder))
        except Exception as error:  # reported, whatever it is
            check(function.__name__, False, f"{type(error).__name__}: {error}")
    return function


def started(folder, *args, options=(), **more):
    program = subprocess.Popen([MTPROF, "run", *options, *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(**more), start_new_session=True)
    program.stdout.readline()
    return program


def as_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def nobody_can_run():
    if os.geteuid() != 0:
        return "not root"
    try:
        told = subprocess.run([MTPROF, "--version"], preexec_fn=as_nobody, capture_output=True)
    except OSError as error:
        return f"another user cannot run it here: {error}"
    return "" if told.returncode == 0 else "another user cannot run it here"


def child_of(pid):
    return int(subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()[0])


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, folder, *command, columns=80, **more):
        self.text, self.seen = "", 0
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, environment(TERM="xterm", **more))
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def _read(self, seconds):
        """False: nothing more will come."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.master, 4096)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.text += got.decode(errors="replace")
        return got != b""

    def expect(self, *words, seconds=30):
        """Waits until all of these have been shown, in any order, after those expected before."""
        deadline = time.time() + seconds
        while not all(w in self.text[self.seen:] for w in words) and time.time() < deadline and self._read(0.2):
            pass
        if not all(w in self.text[self.seen:] for w in words):
            raise TimeoutError(f"no {words!r} in: {self.text}")
        self.seen = max(self.text.index(w, self.seen) + len(w) for w in words)

    def send(self, keys):
        os.write(self.master, keys.encode())

    def end(self, seconds=30):
        """Its exit status, and all that it showed."""
        deadline = time.time() + seconds
        while time.time() < deadline and self._read(0.2):
            pass
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            os.kill(self.pid, 9)
            pid, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status), self.text
