#!/usr/bin/env python3
"""`mtprof top`: in a real pseudo terminal (keys, sizes, what is left of the terminal), as plain text, and its figures.

usage: test_top.py MTPROF TOP_PROGRAM
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import check, finish  # noqa: E402
from running import MTPROF, environment, test  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[2])
PATIENCE = 60  # seconds, for what takes a moment on a machine with nothing else to do


def until(condition):
    """Its first value that is true, or its last one: then the test that follows fails, and says what it is."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


class Recorded:
    """A program that records itself."""

    def __init__(self, folder, *mode, name="live.mtp"):
        self.spool = folder / name
        self.process = subprocess.Popen([PROGRAM, self.spool, *mode], stdout=subprocess.PIPE, env=environment())
        until(lambda: self.spool.exists() or self.process.poll() is not None)

    def stop(self, number=signal.SIGUSR1):
        self.process.send_signal(number)
        out = self.process.communicate(timeout=PATIENCE)[0]
        return out.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def top(*args, **more):
    done = subprocess.run([MTPROF, "top", *map(str, args)], capture_output=True, timeout=PATIENCE, env=environment(**more))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def top_with(words, *args):
    """The same, as soon as it has these words."""
    shown = [top(*args)]
    until(lambda: all(w in shown[-1][1] for w in words) or shown.append(top(*args)))
    return shown[-1]


class Terminal:
    """`mtprof top` in a pseudo terminal."""

    def __init__(self, *args, columns=100, lines=30, **more):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        self.seen = b""
        self.resize(columns, lines, tell=False)
        told, tell = os.pipe()
        self.leader = os.fork()
        if self.leader == 0:  # as a shell does: a job of its own, so that it can be stopped
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)
                os.tcsetpgrp(slave, os.getpid())
                for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # scripts and nohup ignore some
                    signal.signal(number, signal.SIG_DFL)
                for fd in (0, 1, 2):
                    os.dup2(slave, fd)
                os.execvpe(MTPROF, [MTPROF, "top", *map(str, args)], {**environment(), "TERM": "xterm", **more})
            os.write(tell, b"%d\n" % pid)
            _, status = os.waitpid(pid, 0)
            os.write(tell, b"%d\n" % status)
            os._exit(0)
        os.close(tell)
        self.told = os.fdopen(told)
        self.pid = int(self.told.readline())

    def resize(self, columns, lines, tell=True):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            os.kill(self.pid, signal.SIGWINCH)

    def read(self, seconds=0.1):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    break
        return self.seen

    def frame(self):
        """The lines of the last whole frame, without styles."""
        frames = self.seen.split(b"\033[H\033[K")[1:] or [b""]
        if b"\033[J" not in frames[-1] and len(frames) > 1:
            frames.pop()
        last = frames[-1].partition(b"\033[J")[0].decode(errors="replace")
        lines = re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", last).replace("\r\r\n", "\r\n").split("\r\n")
        return lines[:-1] if lines[-1:] == [""] else lines

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not (value := condition()) and time.monotonic() < end:
            self.read(0.1)
        return value

    def wait(self, *words):
        if not self.until(lambda: all(any(word in line for line in self.frame()) for word in words)):
            raise AssertionError(f"{words} did not appear in\n" + "\n".join(self.frame()))
        return True

    def rows(self):
        """Of the table of ops."""
        frame = self.frame()
        start = next((i for i, line in enumerate(frame) if line.startswith("NAME")), len(frame))
        return frame[start + 1:]

    def type(self, keys):
        os.write(self.master, keys.encode())
        self.read(0.3)

    def end(self):
        """wait()'s status."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.05)
            if select.select([self.told], [], [], 0)[0]:
                self.pid = 0
                self.read(0.1)
                return int(self.told.readline())
        raise AssertionError("it did not end")

    def is_restored(self):
        modes = termios.tcgetattr(self.slave)
        return modes == self.before and self.seen.rstrip().endswith(b"\033[?25h\033[?1049l")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.leader, 0)
        self.told.close()
        os.close(self.master)
        os.close(self.slave)


def in_us(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|h)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6, "h": 3600e6}[unit]


@test
def keys_change_what_is_shown_and_q_restores_the_terminal(folder):
    with Recorded(folder, "busy") as program, Terminal(program.spool, "-d", "0.2") as t:
        t.wait("aten::mm", "aten::add", "memory", "step 2")
        frame = "\n".join(t.frame())
        check("the head tells the process", f"pid {program.process.pid}" in frame and "live" in frame and "records" in frame, frame)
        check("memory and steps", re.search(r"memory  CPU \S+ MB, peak 4.77 MB", frame) and re.search(r"^step \d+  last \S+  mean [1-9]", frame, re.M), frame)
        own = [in_us(row.split()[3]) for row in t.rows()]
        check("ops by self time", "SELFv" in frame and len(own) >= 3 and own == sorted(own, reverse=True), frame)
        t.type("s")
        check("s: the next column", t.wait("NOW%v"))
        t.type("r")
        check("r: reversed", t.wait("NOW%^"))
        t.type("w")
        check("w: the last seconds", t.wait("the last"))
        t.type("t")
        t.wait("last record")
        t.type("t?")
        t.wait("quit")
        t.type("x")
        t.type("p")
        t.wait("PAUSED")
        paused = t.frame()
        t.read(0.6)
        check("p: nothing changes", t.frame() == paused, t.frame())
        t.type("p")
        t.until(lambda: "PAUSED" not in "".join(t.frame()))
        shown = len(t.rows())
        t.type("\033[B")
        check("down: the first row is above", t.until(lambda: len(t.rows()) == shown - 1), (shown, t.frame()))
        t.type("q")
        check("q ends it, and the terminal is as before", t.end() == 0 and t.is_restored(), t.seen[-200:])


@test
def every_way_to_end_restores_the_terminal(folder):
    with Recorded(folder, "busy") as program:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV):
            with Terminal(program.spool, "-d", "0.2") as t:
                t.wait("aten::mm")
                os.kill(t.pid, number)
                status = t.end()
                check(f"{number.name}: it ends so, and the terminal is as before",
                      os.WIFSIGNALED(status) and os.WTERMSIG(status) == number and t.is_restored(), (status, t.seen[-100:]))
        with Terminal(program.spool) as t:
            t.wait("aten::mm")
            t.type("\x03")
            check("Ctrl-C", os.WTERMSIG(t.end()) == signal.SIGINT and t.is_restored(), t.seen[-100:])


@test
def stopping_gives_the_terminal_back_and_continuing_takes_it_again(folder):
    with Recorded(folder, "busy") as program, Terminal(program.spool, "-d", "0.2") as t:
        t.wait("aten::mm")
        os.kill(t.pid, signal.SIGTSTP)

        def is_stopped():
            return pathlib.Path(f"/proc/{t.pid}/stat").read_text().rpartition(") ")[2][0] == "T" and t.is_restored()

        check("stopped, and the terminal is as before", t.until(is_stopped), t.seen[-100:])
        t.seen = b""
        os.kill(t.pid, signal.SIGCONT)
        t.wait("aten::mm")
        check("it takes the screen again", b"\033[?1049h" in t.seen and termios.tcgetattr(t.slave) != t.before, t.seen[:100])
        t.type("q")
        check("and gives it back", t.end() == 0 and t.is_restored(), t.seen[-100:])


@test
def sizes_are_kept_to(folder):
    with Recorded(folder, "names") as program:
        for columns, lines in ((40, 10), (40, 3), (80, 24), (200, 60), (20, 5), (1, 1)):
            with Terminal(program.spool, "-d", "0.2", columns=columns, lines=lines) as t:
                t.wait("mtprof"[:columns])
                t.until(lambda: t.seen.count(b"\033[H\033[K") > 2)  # more than the first
                frame = t.frame()
                width = max(sum(2 if "\u1100" <= c <= "\uffff" and c != "\ufffd" else 1 for c in line) for line in frame)
                check(f"{columns} x {lines}", width <= columns and len(frame) <= lines, (width, len(frame), frame))
                t.resize(60, 12)
                check("resized to 60 x 12", t.until(lambda: max(map(len, t.frame())) <= 60 and 4 < len(t.frame()) <= 12), t.frame())


@test
def figures_are_shown_whole_or_not_at_all(folder):
    number = r"[\d.]+[kMGT]?"
    whole = re.compile(rf"recorded [\d.]+(us|ms|s|h)(  records {number}(, {number}/s(  dropped {number}(  file [\d.]+ [KMGT]?B(  threads \d+)?)?)?)?)?")
    with Recorded(folder, "names") as program:
        for columns in range(18, 76, 4):
            with Terminal(program.spool, "-d", "0.2", columns=columns, lines=12) as t:
                t.wait("recorded")
                line = next(one for one in t.frame() if one.startswith("recorded"))
                check(f"{columns} columns", whole.fullmatch(line.rstrip()), line)


@test
def nothing_of_a_name_reaches_the_terminal(folder):
    with Recorded(folder, "names") as program, Terminal(program.spool, "-d", "0.2", columns=120) as t:
        t.wait("combined")
        text = t.seen
        check("no sequence of a name", b"\033]0" not in text and b"title\a" not in text and b"\xc2\x9b" not in text, text[-2000:])
        check("no bad UTF-8", text.decode(errors="strict") is not None, "")
        rows = [line for line in t.frame() if re.search(r"\d[um]?s$", line)][-8:]
        ends = {sum(2 if "\u2e80" <= c <= "\u9fff" else 1 for c in row) for row in rows}
        check("columns are aligned", len(ends) == 1, rows)
        for args in ([], ["--threads"]):
            code, out, err = top("-n", "1", *args, program.spool)
            check(f"nor of plain text {args}", code == 0 and "\033" not in out and "\a" not in out and "\x9b" not in out, out)


@test
def without_a_terminal_it_is_plain_text(folder):
    with Recorded(folder, "busy") as program:
        top_with(["aten::mm", "aten::add"], "-n", "1", program.spool)
        code, out, err = top("-n", "2", "-d", "0.2", program.spool)
        check("two blocks", code == 0 and out.count("mtprof top") == 2 and "\033" not in out and err == "", (code, out, err))
        with Terminal(program.spool, "-n", "1", TERM="xterm") as t:
            check("-n on a terminal: plain", t.end() == 0 and b"\033[?" not in t.seen and b"aten::mm" in t.seen, t.seen)
        with Terminal(program.spool, "-d", "0.2", TERM="dumb") as t:
            check("TERM=dumb: plain", t.until(lambda: t.seen.count(b"mtprof top") > 1) and b"\033" not in t.seen, t.seen)
        with Terminal(program.spool, "-d", "0.2", NO_COLOR="1") as t:
            t.wait("aten::mm")
            check("NO_COLOR: no colours", re.search(rb"\033\[[0-9;]*m", t.seen.replace(b"\033[0m\033[?25h", b"")) is None, t.seen[:300])
        code, out, err = top("-n", "1", "--limit", "1", "--sort", "name", program.spool)
        check("--limit and --sort", "aten::add" in out and "aten::mm" not in out, out)
        code, out, err = top("-n", "1", "--window", "2", program.spool)
        check("--window", re.search(r"^the last 1?\.?\d+", out, re.M), out)
        program.stop()
        code, out, err = top("-b", program.spool)
        check("an ended one is shown once", code == 0 and out.count("mtprof top") == 1 and "stopped" in out, (code, out))


@test
def a_program_that_hangs_shows_where(folder):
    with Recorded(folder, "hang") as program:
        code, out, err = top_with(["lock of the queue", "sleeping"], "-n", "1", "--threads", program.spool)
        order = [out.find(name) for name in ("train", "load the next batch", "lock of the queue")]
        check("its scopes, outermost first", code == 0 and -1 not in order and order == sorted(order), out)
        check("and that it sleeps", "sleeping" in out, out)
        code, out, err = top_with(["100.0"], "-n", "1", program.spool)  # once it has hung for longer than it took to get there
        check("the time is the innermost one's", re.search(r"lock of the queue +1 .* 100.0", out), out)
        with Terminal(program.spool, "-t", "-d", "0.2", columns=60, lines=8) as t:
            t.wait("lock of the queue")
            t.type("q")
            check("quits", t.end() == 0, t.seen[-100:])


@test
def a_process_is_found_by_its_number(folder):
    with Recorded(folder, "busy") as program:
        code, out, err = top_with(["aten::mm"], "-n", "1", program.process.pid)
        check("by PID", code == 0 and "aten::mm" in out, (code, out, err))
        code, out, err = top("-n", "1", os.getpid())
        check("by the PID of the one that started it", code == 0 and "aten::mm" in out, (code, out, err))
        program.stop()
    sleeper = subprocess.Popen(["sleep", "60"])
    for given, words in ((sleeper.pid, ("not being recorded", "mtprof run", "mtprof trigger")), (2 ** 22 + 1, ("there is no process",)),
                         ("nothing.mtp", ("No such file",))):
        code, out, err = top("-n", "1", given)
        check(f"refused: {given}", code == 3 and out == "" and all(w in err for w in words), (code, out, err))
    sleeper.kill()
    sleeper.wait()
    trace = folder / "trace.json"
    trace.write_text('{"traceEvents": []}')
    code, out, err = top("-n", "1", trace)
    check("JSON is not live", code == 3 and "mtprof table" in err, (code, out, err))
    if os.geteuid() == 0:
        done = subprocess.run([MTPROF, "top", "-n", "1", str(os.getpid())], capture_output=True, text=True, user=65534, env=environment())
        check("somebody else's process", done.returncode == 3 and "permission" in done.stderr.lower(), done)


@test
def the_figures_of_an_ended_recording_are_those_of_stats(folder):
    with Recorded(folder, "fast") as program:
        watching = subprocess.Popen([MTPROF, "top", "-b", "-d", "0.2", program.spool], stdout=subprocess.PIPE, text=True, env=environment())
        time.sleep(1)
        scopes = int(program.stop())
        out = watching.communicate(timeout=2 * PATIENCE)[0]
    rows = {r["key"]: r for r in json.loads(subprocess.run([MTPROF, "stats", "--json", program.spool], capture_output=True).stdout)}
    check("as many as the program counted", rows["outer"]["count"] == scopes, (rows["outer"], scopes))
    last = out.split("mtprof top")[-1]
    for name in ("outer", "inner"):
        shown = next(line.split() for line in last.splitlines() if line.startswith(name + " "))
        count = float(shown[1][:-1]) * {"k": 1e3, "M": 1e6}[shown[1][-1]]
        check(f"{name}: calls", abs(count / rows[name]["count"] - 1) < 0.006, (shown, rows[name]))
        check(f"{name}: self time", abs(in_us(shown[3]) / rows[name]["self_cpu_time_total"] - 1) < 0.006, (shown, rows[name]))


@test
def a_killed_program_is_said_to_have_ended(folder):
    for columns in 100, 80, 40:
        with Recorded(folder, "busy", name=f"a_name_that_leaves_little_room_in_a_line_{columns}.mtp") as program, Terminal(program.spool, "-d", "0.1", columns=columns) as t:
            t.wait("live")
            program.stop(signal.SIGKILL)
            t.wait("ended without stopping")
            check(f"said in {columns} columns", t.until(lambda: any(line.rstrip().endswith("ended without stopping") for line in t.frame()[:1])), t.frame()[:1])
            t.type("q")
            check("quits", t.end() == 0 and t.is_restored(), t.seen[-100:])


@test
def a_deleted_file_is_still_shown(folder):
    with Recorded(folder, "busy") as program, Terminal(program.spool, "-d", "0.1") as t:
        t.wait("aten::mm")
        program.spool.unlink()
        t.seen = b""
        t.wait("aten::mm")
        t.type("q")
        check("quits", t.end() == 0, t.seen[-100:])


sys.exit(finish())
