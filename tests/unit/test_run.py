#!/usr/bin/env python3
"""Unit: `mtprof run`, `trigger` and `ps` with programs of all kinds: they behave as without us, and what they did is recorded.

usage: tests/unit/test_run.py MTPROF PROGRAM STATIC       speaks TAP; STATIC: "" where programs cannot be linked statically
"""
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import check, finish  # noqa: E402
from running import (MTPROF, NOBODY, PYTHON, Done, Terminal, as_nobody, child_of, environment, nobody_can_run, run, started,  # noqa: E402
                     test)

PROGRAM = str(pathlib.Path(sys.argv[2]).resolve())
STATIC = str(pathlib.Path(sys.argv[3]).resolve()) if sys.argv[3] else ""


@test
def plain(folder):
    done = run(folder, PROGRAM, "scopes", "100", "3")
    check("a_program_keeps_its_exit_status", done.code == 3, done)
    check("its_output_is_its_own", done.out == "", done)
    check("its_scopes_are_recorded", done.names() == {"work": 100} and done.files == ["run.mtp"], (done.names(), done))
    check("the_table_the_file_and_the_next_command_are_told", all(w in done.err for w in (
        "work", "Self CPU time total", "exit status 3", "written  run.mtp", "mtprof table", "mtprof export")), done)
    done = run(folder, "true")
    check("a_program_that_records_nothing_leaves_the_earlier_trace", done.code == 0 and "nothing was recorded" in done.err and
          done.files == ["run.mtp"], done)
    done = run(folder, PROGRAM, "scopes", "5")
    check("the_next_run_replaces_it", done.names() == {"work": 5} and done.files == ["run.mtp"], (done.names(), done))
    done = run(folder, PROGRAM, "scopes", "5", report=True)
    check("a_report_is_written_beside_it", done.files == ["run.html", "run.mtp"] and "report   run.html" in done.err, done)
    (folder / "run.html").write_text("<html>mine</html>")
    done = run(folder, PROGRAM, "scopes", "5", report=True)
    check("a_page_of_somebody_else_is_kept", (folder / "run.html").read_text() == "<html>mine</html>" and "is no report" in done.err, done)
    (folder / "run.html").unlink()
    done = run(folder, "cat", stdin=b"through\n")
    check("standard_input_is_the_program_s", done.out == "through\n", done)


@test
def inherited(folder):
    def odd():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1])

    command = [PROGRAM, "show", "a b", "%s", "--max-memory", "-o"]
    bare = subprocess.run(command, capture_output=True, text=True, preexec_fn=odd, env=environment())
    done = run(folder, *command, preexec=odd)
    check("signals_masks_and_arguments_reach_the_program_as_they_were", done.out == bare.stdout and "[a b] [%s]" in done.out, done)
    without = subprocess.run([MTPROF, "run", *command], capture_output=True, text=True, preexec_fn=odd, env=environment(), cwd=folder)
    check("options_after_the_program_are_the_program_s", without.stdout == bare.stdout, without)
    lines = subprocess.run(["env"], capture_output=True, text=True, env=environment(A="b c", LD_PRELOAD="")).stdout.splitlines()
    done = run(folder, "env", A="b c")
    extra = {line.split("=")[0] for line in set(done.out.splitlines()) - set(lines)}
    check("the_environment_has_our_variables_only", set(lines) - {"LD_PRELOAD="} <= set(done.out.splitlines()) | {"PYTHONPATH="} and
          extra <= {"LD_PRELOAD", "MTPROF_RUN", "MTPROF_RUN_OPTIONS", "PYTHONPATH", "OPENCL_LAYERS", "INTEL_LIBITTNOTIFY64",
                    "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN", "ASAN_OPTIONS", "_", "SHLVL", "PWD", "OLDPWD"}, extra)
    done = run(folder, "sh", "-c", "echo $LD_PRELOAD; echo $PYTHONPATH; echo $NVTX_INJECTION64_PATH; echo $OPENCL_LAYERS",
               LD_PRELOAD="/nowhere/user.so", PYTHONPATH="/users/own", NVTX_INJECTION64_PATH="/users/tool.so", OPENCL_LAYERS="/users/layer.so")
    told = done.out.splitlines()
    check("what_the_user_preloads_stays", told[0].endswith("libmtprof_run.so:/nowhere/user.so") and told[1].endswith(":/users/own") and
          told[2] == "/users/tool.so" and told[3].endswith("/users/layer.so"), done)


@test
def not_programs(folder):
    (folder / "text").write_text("hello")
    (folder / "old.mtp").write_text("something")
    for args, code, words in ((["nonexistent-program"], 127, "command not found"), (["./nonexistent"], 127, "No such file"),
                              (["./text"], 126, "Permission denied"), (["/"], 126, "Is a directory")):
        done = run(folder, *args, options=["-o", "old.mtp"])
        check(f"{args[0]}_is_refused_as_by_a_shell", done.code == code and words in done.err and done.files == ["old.mtp", "text"] and
              (folder / "old.mtp").read_text() == "something", done)
    (folder / "bad").write_text("#!/no/such/interpreter\n")
    (folder / "bad").chmod(0o755)
    done = run(folder, "./bad")
    check("a_missing_interpreter_is_127", done.code == 127 and "No such file" in done.err, done)
    for verb in "run", "trigger", "ps":
        told = subprocess.run([MTPROF, verb, "--help"], capture_output=True, text=True).stdout
        refused = [o for o in re.findall(r"(?m)^ +(?:-., )?(--[a-z-]+)", told) if "unrecognized" in subprocess.run(
            [MTPROF, verb, o + "=1"], capture_output=True, text=True).stderr]
        check(f"the_options_in_the_help_of_{verb}_exist", refused == [], refused)
    for options, words in (([], "which program"), (["-o", "x.py", "true"], ".mtp"), (["--budget", "1", "true"], "--budget"),
                           (["--budget", "2T", "true"], "--budget '2T'"),
                           (["--steps", "5:5", "true"], "--steps"), (["--delay", "x", "true"], "--delay"),
                           (["--wait", "-o", "x.mtp", "true"], "trigger"), (["--shapes", "--wait", "true"], "trigger"), (["--nonsense", "true"], "--nonsense")):
        told = subprocess.run([MTPROF, "run", *options], capture_output=True, text=True, cwd=folder)
        check(f"wrong_usage_{options[:2]}_is_2", told.returncode == 2 and words in told.stderr and told.stdout == "", told)


@test
def outputs(folder):
    done = run(folder, PROGRAM, "fork", "2", options=["-o", "odd %p name.json.gz"])
    events = json.load(gzip.open(folder / "odd %p name.json.gz"))["traceEvents"]
    check("other_formats_are_written_and_spools_removed", done.files == ["odd %p name.json.gz"] and
          sum(e.get("name") == "work" for e in events) == 10, done)
    name = os.fsdecode(b"caf\xe9 %n.mtp")
    done = run(folder, PROGRAM, "fork", "2", options=["-o", name])
    check("names_of_any_bytes_work", (folder / name).exists() and len(list((folder / (name + ".workers")).iterdir())) == 2, done)
    done = run(folder, PROGRAM, "scopes", "5", "0", "\t\"ä\\日本", b"\xff\xe6", options=["-o", "line.json"])
    line = json.loads((folder / "line.json").read_text())["command_line"]
    check("the_command_line_is_the_user_s_text", line == PROGRAM + ' scopes 5 0 \t"ä\\日本 \ufffd\ufffd', line)
    for name in "-it's $HOME.mtp", "x.json", "x.csv", "x.memory.json.gz", "x.et.json", "python.mtp":
        done = run(folder, *([PYTHON, "-c", "1"] if name == "python.mtp" else [PROGRAM, "scopes", "5"]), options=["-o", name])
        lines = [line.split("   ")[-1 if "table" in line else -2].strip() for line in done.err.splitlines() if " mtprof " in line]
        ends = [subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True,
                               env=environment(PATH=os.path.dirname(MTPROF) + ":/usr/bin:/bin")).returncode for line in lines]
        check(f"the_commands_that_are_told_work_{name}", ends == {".mtp": [0, 0], "json": [0]}.get(name[-4:] * (name != "x.et.json"), []),
              (lines, ends, done))
    (folder / "sub").mkdir()
    done = run(folder, PROGRAM, options=["-o", "sub"])
    check("a_folder_is_no_output", done.code == 2 and done.out == "", done)
    (folder / "is.mtp").mkdir()
    done = run(folder, PROGRAM, options=["-o", "is.mtp"])
    check("whatever_it_is_called", done.code == 4 and "Is a directory" in done.err, done)
    done = run(folder, PROGRAM, options=["-o", "missing/run.mtp"])
    check("an_output_that_cannot_be_created_is_4_and_nothing_runs", done.code == 4 and "missing/run.mtp" in done.err, done)


@test
def earlier_files(folder):
    run(folder, PROGRAM, "fork", "2")
    done = run(folder, PROGRAM, "scopes", "5")
    check("a_finished_run_is_replaced_with_its_folder", done.files == ["run.mtp"] and done.names() == {"work": 5}, done)
    run(folder, PROGRAM, "crash")
    done = run(folder, PROGRAM, "scopes", "5")
    check("a_recording_that_was_not_stopped_is_kept", done.files == ["run.1.mtp", "run.mtp"] and "kept as" in done.err, done)
    first = subprocess.Popen([MTPROF, "run", "-o", "busy.mtp", PROGRAM, "wait", "30"], cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment())
    first.stdout.readline()
    done = run(folder, PROGRAM, "scopes", "5", options=["-o", "busy.mtp"])
    check("one_that_another_run_writes_is_refused", done.code == 4 and "still being recorded" in done.err, done)
    child = int(subprocess.run(["ps", "-o", "pid=", "--ppid", str(first.pid)], capture_output=True, text=True).stdout.split()[0])
    first.kill()
    first.wait()
    done = run(folder, PROGRAM, "scopes", "5", options=["-o", "busy.mtp"])
    check("and_so_is_one_whose_process_still_records", done.code == 4 and "still being recorded" in done.err, done)
    os.kill(child, signal.SIGKILL)
    time.sleep(0.3)
    done = run(folder, PROGRAM, "scopes", "5", options=["-o", "busy.mtp"])
    check("what_a_killed_mtprof_run_left_is_kept", "busy.1.mtp.workers" in done.files and "kept as" in done.err and
          any(n.startswith("busy.1.mtp.workers/") for n in done.spools), done)


@test
def at_once(folder):
    """Runs that begin at the same time and have the same output: one of them has it, the others are refused."""
    told = []
    for _ in range(12):
        runs = [subprocess.Popen([MTPROF, "run", "sh", "-c", f"{PROGRAM} scopes 5; cat"], cwd=folder, env=environment(),
                                 stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(6)]
        for _ in range(100):  # the one that has it ends when its input does
            if sum(r.poll() is None for r in runs) <= 1:
                break
            time.sleep(0.1)
        ends = [(r.communicate("")[1], r.returncode) for r in runs]
        told.append(sorted((code, "5 events of 1 process" in err) for err, code in ends))
    check("runs_that_begin_at_once_do_not_share_an_output", all(t == [(0, True)] + 5 * [(4, False)] for t in told), told)
    check("and_leave_nothing_else", sorted(p.name for p in folder.iterdir()) == ["run.html", "run.mtp"], sorted(folder.rglob("*")))


@test
def processes(folder):
    done = run(folder, PROGRAM, "fork", "4")
    check("forks_are_followed", done.names() == {"work": 10, "child": 200} and len(done.spools) == 5, (done.names(), done))
    check("the_program_itself_is_the_output_and_the_rest_is_beside", "5 processes" in done.err and "4 more processes" in done.err, done)
    for way in ("exec", "vfork", "spawn"):
        done = run(folder, PROGRAM, "start", way, options=["-o", way + ".mtp"])
        mine = {n: p for n, p in done.spools.items() if n.startswith(way)}
        done.spools = mine
        check(f"programs_started_by_{way}_are_recorded", done.names() == {"work": 30} and len(mine) == 2, (done.names(), done))
    done = run(folder, "sh", "-c", "for i in 1 2 3; do $0 scopes 7; done; exit 9", PROGRAM, options=["-o", "sh.mtp"])
    done.spools = {n: p for n, p in done.spools.items() if n.startswith("sh.")}
    check("a_shell_script_s_programs_are_recorded", done.code == 9 and done.names() == {"work": 21}, (done.names(), done))
    done = run(folder, "sh", "-c", "for i in $(seq 200); do $0 scopes 1; done", PROGRAM, options=["-o", "many.mtp"])
    done.spools = {n: p for n, p in done.spools.items() if n.startswith("many.")}
    check("200_short_processes_lose_nothing", done.names() == {"work": 200} and len(done.spools) == 200, (done.names(), len(done.spools)))
    done = run(folder, "sh", "-c", "for i in $(seq 50); do true; ls >/dev/null; done", options=["-o", "none.mtp"])
    check("processes_that_record_nothing_leave_nothing", not any(f.startswith("none") for f in done.files), done)


@test
def ends(folder):
    done = run(folder, PROGRAM, "crash")
    check("a_crash_ends_us_the_same_way", done.code == -signal.SIGSEGV, done)
    check("and_leaves_its_trace", done.names() == {"work": 10} and "Segmentation fault" in done.err, (done.names(), done))
    done = run(folder, PROGRAM, "quick")
    check("_exit_leaves_its_trace", done.code == 6 and done.names()["work"] >= 10, done)
    done = run(folder, PROGRAM, "threadexit", options=["-o", "t.mtp"])
    check("exit_from_a_thread", done.code == 4 and "100" in done.err, done)
    done = run(folder, PROGRAM, "leave", options=["-o", "l.mtp"])
    check("a_main_thread_that_leaves_early", done.code == 0 and "t.mtp" in done.files, done)
    done = run(folder, PROGRAM, "leave", options=["-o", "d.mtp", "--duration", "20"], timeout=15)
    check("even_if_we_wait_for_a_time", done.code == 0 and "d.mtp" in done.files, done)
    done = run(folder, "sh", "-c", "kill -9 $$", options=["-o", "k.mtp"])
    check("kill_9_ends_us_the_same_way", done.code == -signal.SIGKILL, done)
    done = run(folder, PROGRAM, "chdir", options=["-o", "c.mtp"])
    done.spools = {"c.mtp": folder / "c.mtp"}
    check("a_program_that_changes_its_folder", done.code == 0 and done.names() == {"work": 300010}, (done.names(), done))
    done = run(folder, PROGRAM, "close", str(folder / "mine"), options=["-o", "f.mtp"])
    done.spools = {"f.mtp": folder / "f.mtp"}
    check("a_program_that_closes_all_descriptors", done.code == 0 and done.names() == {"work": 400010} and
          (folder / "mine").read_text() == "mine", (done.names(), done))


@test
def signals(folder):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        program = started(folder, PROGRAM, "handle", str(int(number)), options=["-o", "s.mtp"])
        program.send_signal(number)
        out, err = program.communicate(timeout=30)
        check(f"{number.name}_to_us_is_passed_on", program.returncode == 5 and out == f"got {int(number)}\n" and "written" in err, (out, err))
    program = started(folder, PROGRAM, "wait", "30", options=["-o", "t.mtp"])
    program.terminate()
    out, err = program.communicate(timeout=30)
    check("a_program_that_it_ends_ends_us_the_same_way", program.returncode == -signal.SIGTERM and "written  t.mtp" in err, (program.returncode, err))
    program = started(folder, PROGRAM, "wait", "2", options=["-o", "k.mtp"])
    program.kill()
    out, err = program.communicate(timeout=30)
    for _ in range(100):
        left = list((folder / "k.mtp.workers").glob("*.mtp"))
        told = subprocess.run([MTPROF, "info", *left], capture_output=True, text=True).stdout if left else ""
        if "stopped" in told:
            break
        time.sleep(0.1)
    left = list((folder / "k.mtp.workers").glob("*.mtp"))
    told = subprocess.run([MTPROF, "info", *left], capture_output=True, text=True).stdout if left else ""
    check("if_we_are_killed_the_folder_has_everything", len(left) == 1 and "stopped" in told and "20010" in told, told)


@test
def terminal(folder):
    """Ctrl-C at a terminal: the program gets it once, from the terminal, and its trace is there."""
    at = Terminal(folder, MTPROF, "run", PROGRAM, "handle", "2")
    at.expect("recording into", "ready")  # the key discards output that is still in the terminal
    at.send("\x03")
    code, text = at.end()
    check("ctrl_c_reaches_the_program_and_the_trace_is_written", code == 5 and "got 2" in text and "written  run.mtp" in text, (code, text))
    check("a_terminal_is_told_what_happens", "recording into run.mtp" in text, text)


HELPER = '''
import subprocess, sys
code = "import sys, time; print(flush=True); sys.stdin.read(); time.sleep(0.03)"
helper = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
helper.stdout.readline()
helper.returncode = 0  # nobody waits for it
'''


@test
def odd_programs(folder):
    if STATIC:
        done = run(folder, STATIC)
        check("a_static_program_runs_and_that_it_is_not_recorded_is_said", done.code == 0 and done.out == "static\n" and
              "statically linked" in done.err, done)
    else:
        check("a_static_program", True, skip="no static C library")
    done = run(folder, PROGRAM, "outlive", "4", options=["-o", "o.mtp"], timeout=3)
    check("a_daemon_is_not_waited_for_and_it_is_said", done.code == 0 and
          ("still running" in done.err or "still being recorded" in done.err) and  # the latter if it had recorded nothing before
          any(n.startswith("o.mtp.workers/") for n in done.spools), done)
    (folder / "helper.py").write_text(HELPER)  # as the resource tracker of multiprocessing
    done = run(folder, PYTHON, folder / "helper.py", options=["-o", "helper.json"])
    check("a_helper_that_ends_after_the_program_is_in_the_trace_and_is_not_called_running", done.code == 0 and "of 2 processes" in done.err and
          "still" not in done.err and not (folder / "helper.json.workers").exists(), done)
    done = run(folder, PROGRAM, "profile", str(folder / "own.mtp"), options=["-o", "p.mtp"])
    own = Done(0, "", "", folder)
    own.spools = {"own.mtp": folder / "own.mtp"}
    done.spools = {"p.mtp": folder / "p.mtp"}
    check("a_program_may_profile_itself", done.code == 0 and own.names().get("own") == 7 and "work" not in own.names(), (own.names(), done))
    check("meanwhile_ours_pauses_and_says_so", done.names() == {"work": 20} and "profile of its own" in done.err, (done.names(), done))


@test
def users(folder):
    why = nobody_can_run()
    if why:
        check("other_users", True, skip=why)
        return
    folder.chmod(0o755)
    done = run(folder, PROGRAM, "user")
    check("a_program_that_gives_up_its_rights_runs_on", done.code == 0 and done.names().get("work", 0) >= 20, (done.names(), done))
    check("what_its_children_cannot_write_is_said_once", done.err.count("not recorded") == 1 and "more process" in done.err, done)
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    tool = folder / "tool"
    tool.write_bytes(pathlib.Path("/bin/true").read_bytes())
    tool.chmod(0o4755)
    done = run(theirs, str(tool), preexec=as_nobody)
    check("a_setuid_program_is_refused_politely", done.code == 126 and "another user's rights" in done.err and done.files == [], done)
    done = run(folder, str(tool), options=["-o", "root.mtp"])
    check("unless_it_gains_nothing", done.code == 0, done)
    done = run(folder, "true", options=["-o", "nobody.mtp"], preexec=as_nobody)
    check("an_unwritable_folder_is_4", done.code == 4 and "Permission denied" in done.err, done)


@test
def budgets(folder):
    done = run(folder, PROGRAM, "scopes", "300000", options=["--keep-newest", "--budget", "1M"])
    size = (folder / "run.mtp").stat().st_size
    check("keep_newest_keeps_within_its_budget", done.code == 0 and size <= 2 << 20 and "overwritten" in done.err, (size, done))
    done = run(folder, PROGRAM, "wait", "2", options=["--delay", "0.5", "--duration", "0.5", "-o", "d.mtp"])
    done.spools = {"d.mtp": folder / "d.mtp"}
    check("delay_and_duration_limit_what_is_recorded", done.code == 0 and 100 <= done.names()["work"] <= 12000, (done.names(), done))
    if os.geteuid() != 0:
        check("a_full_disk", True, skip="not root")
        return
    full = folder / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(full)], capture_output=True).returncode != 0:
        check("a_full_disk", True, skip="cannot mount")
        return
    try:
        done = run(full, PROGRAM, "scopes", "300000", "3")
        check("a_full_disk_is_told_and_the_program_goes_on", done.code == 3 and "records are missing" in done.err and
              "could not grow" in done.err, done)
        (full / "run.mtp").unlink()
        try:
            (full / "filler").write_bytes(b"x" * (2 << 20))
        except OSError:
            pass
        done = run(full, PROGRAM, "scopes", "10", "3", options=["-o", "other.mtp"])
        check("a_disk_without_any_room_is_told", done.code in (3, 4) and ("not recorded" in done.err or "No space" in done.err), done)
    finally:
        subprocess.run(["umount", str(full)])


SCRIPT = """
import os, sys, threading
def inner(n): return n if n < 2 else inner(n - 1) + inner(n - 2)
def outer(): return inner(5)
thread = threading.Thread(target=outer, name="helper")
thread.start()
thread.join()
outer()
print(sys.path[0], "sitecustomize" in sys.modules, any("_run" in p for p in sys.path), __name__)
sys.exit(int(sys.argv[1]))
"""


@test
def python(folder):
    (folder / "script.py").write_text(SCRIPT)
    done = run(folder, PYTHON, "script.py", "7")
    names = done.names()
    check("python_functions_are_recorded", done.code == 7 and names.get("script.py(4): outer") == 2 and names.get("script.py(3): inner") == 30,
          (names, done))
    alone = subprocess.run([PYTHON, "script.py", "7"], cwd=folder, capture_output=True, text=True).stdout  # Debian's has a sitecustomize, too
    check("a_python_program_sees_nothing_of_it", done.out == alone != "", (alone, done))
    rows = subprocess.run([MTPROF, "export", folder / "run.mtp", "-o", folder / "run.json"], capture_output=True)
    threads = [e["args"]["name"] for e in json.load(open(folder / "run.json"))["traceEvents"] if e.get("name") == "thread_name"]
    check("threads_have_their_names", any("(helper)" in t for t in threads), (threads, rows))
    check("nothing_is_noted", "note" not in done.err, done)
    run(folder, PYTHON, "-c", "import threading\nt = threading.Thread(target=print, name='ThreadPoolExecutor-0_1')\nt.start()\nt.join()",
        options=["-o", "t.json"])
    check("whole_names", "(ThreadPoolExecutor-0_1)" in (folder / "t.json").read_text())
    done = run(folder, "script.py", "7", options=["-o", "s.mtp"], PATH=os.path.dirname(PYTHON) + ":" + os.environ["PATH"])
    check("a_script_is_run_by_python3", done.code == 7 and "s.mtp" in done.files, done)
    told = subprocess.run([MTPROF, "run", "-o", "m.mtp", "-m", "script", "7"], cwd=folder, capture_output=True, text=True,
                          env=environment(PATH=os.path.dirname(PYTHON) + ":" + os.environ["PATH"]))
    check("and_so_is_a_module", told.returncode == 7 and (folder / "m.mtp").exists(), told)
    for option in ("-I", "-S", "-E"):
        done = run(folder, PYTHON, option, "-c", "print(1)", options=["-o", "i.mtp"])
        check(f"python_{option}_runs_and_that_functions_are_missing_is_said", done.code == 0 and done.out == "1\n" and
              done.err.count("functions are not recorded") == (option != "-S") + (option == "-S"), done)
    done = run(folder, PYTHON, "-c", "import os\nif os.fork() == 0:\n  def f(): pass\n  f()\n  os._exit(0)\nos.wait()", options=["-o", "f.mtp"])
    done.spools = {n: p for n, p in done.spools.items() if n.startswith("f.mtp")}
    check("a_forked_python_is_recorded", len(done.spools) == 2 and done.names().get("<string>(3): f") == 1, (done.names(), done))
    done = run(folder, PYTHON, "-c", "import time\nfor i in range(3): time.sleep(0.01)\nraise KeyError", options=["--no-python", "-o", "n.mtp"])
    check("no_python_records_no_functions", done.code == 1 and "nothing was recorded" in done.err and "KeyError" in done.err, done)


@test
def python_environments(folder):
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.own = 42\n")
    done = run(folder, PYTHON, "-c", "import sitecustomize; print(own, sitecustomize.__file__)", PYTHONPATH=str(site))
    check("the_program_s_own_sitecustomize_runs", done.out == f"42 {site}/sitecustomize.py\n", done)
    (site / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    bare = subprocess.run([PYTHON, "-c", "print(1)"], env=environment(PYTHONPATH=str(site)), capture_output=True, text=True)
    done = run(folder, PYTHON, "-c", "print(1)", PYTHONPATH=str(site))
    check("and_fails_as_without_us", "theirs" in bare.stderr and bare.stderr.splitlines()[0] in done.err and done.out == bare.stdout, (bare, done))
    made = subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder / "env"], capture_output=True, text=True)
    done = run(folder, folder / "env/bin/python", "-c", "import sys, mtprof\ndef f(): pass\nf()\nwith mtprof.record_function('mine'): pass\n"
               "print(sys.prefix)", options=["-o", "v.mtp"])
    done.spools = {"v.mtp": folder / "v.mtp"}
    check("a_virtual_environment_that_has_never_heard_of_us", done.out == f"{folder}/env\n" and done.names().get("<string>(2): f") == 1 and
          done.names().get("mine") == 1, (made, done.names(), done))
    done = run(folder, PYTHON, "-c", """
import cProfile, mtprof
def f(): pass
p = cProfile.Profile(); p.enable(); f(); p.disable()
s = mtprof.Session(with_stack=True); s.prepare(); s.start(); f(); s.stop()
print([r["key"] for r in (lambda a: [a[i] for i in range(len(a))])(s.trace().averages(include_python_functions=True)) if "): f" in r["key"]])
f()
""", options=["-o", "p.mtp"])
    check("python_may_profile_itself", "): f" in done.out and done.code == 0, done)


FAKE_TORCH = {
    "torch/__init__.py": "from . import optim\ndef op(): pass\n",
    "torch/optim/__init__.py": "from .optimizer import Optimizer\n",
    "torch/optim/optimizer.py": """
hooks = []
def register_optimizer_step_post_hook(hook): hooks.append(hook)
class Optimizer:
    def step(self):
        for hook in hooks: hook(self, (), {})
""",
}
TRAINING = """
def before(): pass
before()
import torch
print(type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__)
def after(): pass
after()
first, second = torch.optim.Optimizer(), torch.optim.Optimizer()
import gc
for i in range(100): gc.collect()
import mtprof
for i in range(10):
    with mtprof.record_function("batch"): pass
    first.step()
    second.step()
"""


@test
def steps(folder):
    for name, text in FAKE_TORCH.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "train.py").write_text(TRAINING)
    done = run(folder, PYTHON, "train.py")
    names = done.names()
    check("functions_are_followed_until_torch_is_imported", names.get("train.py(2): before") == 1 and "train.py(6): after" not in names,
          (names, done))
    check("collections_are_recorded_after_it_too", names.get("Python GC", 0) >= 100, (names, done))
    check("torch_has_its_own_loader", "SourceFileLoader SourceFileLoader" in done.out, done)
    told = subprocess.run([MTPROF, "steps", "--json", folder / "run.mtp"], capture_output=True, text=True)
    numbers = [s.get("step", s.get("number")) for s in json.loads(told.stdout)["steps"]] if told.returncode == 0 else told
    check("the_steps_of_the_first_optimizer_are_steps", numbers == list(range(1, 11)), (numbers, told.stdout[:500]))
    done = run(folder, PYTHON, "train.py", options=["--steps", "3:5", "-o", "s.mtp"])
    done.spools = {"s.mtp": folder / "s.mtp"}
    check("only_the_steps_asked_for_are_recorded", done.names().get("batch") == 2, (done.names(), done))
    done = run(folder, PYTHON, "train.py", options=["--python", "-o", "p.mtp"])
    done.spools = {"p.mtp": folder / "p.mtp"}
    check("python_functions_throughout_if_asked_for", done.names().get("train.py(6): after") == 1, (done.names(), done))
    for name, text in FAKE_TORCH.items():  # mindtorch_v2 has the same hooks, and records its ops itself
        (folder / name.replace("torch", "mindtorch_v2")).parent.mkdir(parents=True, exist_ok=True)
        (folder / name.replace("torch", "mindtorch_v2")).write_text(text)
    (folder / "other.py").write_text(TRAINING.replace("import torch", "import mindtorch_v2 as torch"))
    done = run(folder, PYTHON, "other.py", options=["-o", "other.mtp"])
    told = subprocess.run([MTPROF, "steps", "--json", folder / "other.mtp"], capture_output=True, text=True)
    numbers = [s.get("step", s.get("number")) for s in json.loads(told.stdout)["steps"]] if told.returncode == 0 else told
    check("and_those_of_mindtorch_v2", done.code == 0 and numbers == list(range(1, 11)), (numbers, done))
    done = run(folder, PYTHON, "-c", "1", options=["--steps", "3:5", "-o", "n.mtp"])
    check("that_no_step_was_seen_is_said", "no training step was seen" in done.err, done)
    done = run(folder, PYTHON, "train.py", options=["--steps", "30:50", "-o", "n.mtp"])
    check("and_that_there_were_too_few", "10 training steps were seen" in done.err and "nothing was recorded" in done.err, done)
    done = run(folder, PROGRAM, "scopes", "5", options=["--delay", "60", "-o", "n.mtp"])
    check("and_that_it_ended_before_the_delay", "before --delay was over" in done.err and not (folder / "n.mtp").exists(), done)
    done = run(folder, "sh", "-c", f"{PROGRAM} scopes 5; rm -r n.mtp.workers", options=["-o", "n.mtp"])
    check("and_that_the_folder_is_gone", "the folder was removed" in done.err and done.code == 0, done)


@test
def other_profilers(folder):
    (folder / "own.py").write_text("import cProfile\ndef f(): pass\nf()\np = cProfile.Profile()\np.runcall(f)\nf()\np.print_stats()\n")
    done = run(folder, PYTHON, "own.py")
    check("a_program_keeps_its_own_profiler", "own.py:2(f)" in done.out and done.names().get("own.py(2): f") == 1, done)
    check("and_that_ours_ended_is_said", "until it set a profiler of its own" in done.err, done)


def listed():
    return subprocess.run([MTPROF, "ps"], capture_output=True, text=True, env=environment()).stdout


def trigger(pid, *args, preexec=None, cwd="/"):
    return subprocess.run([MTPROF, "trigger", str(pid), *args], capture_output=True, text=True, env=environment(), preexec_fn=preexec, cwd=cwd)


def child_of(pid):
    return int(subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()[0])


def until_listed(pid, state):
    deadline = time.time() + 10
    while time.time() < deadline and not re.search(rf"^ *{pid} .* {state} ", listed(), re.M):
        time.sleep(0.05)


@test
def on_demand(folder):
    program = started(folder, PROGRAM, "wait", "12", options=["--wait"])
    pid = child_of(program.pid)
    check("a_program_that_waits_is_listed", re.search(rf"^ *{pid} .* idle .*wait 12", listed(), re.M), listed())
    told = trigger(pid, "--seconds", "0.5", "-o", "t.mtp", cwd=folder)
    done = Done(0, "", "", folder)
    check("a_stretch_is_recorded", told.returncode == 0 and done.names().get("work", 0) > 100 and "work" in told.stdout, told)
    check("and_the_program_is_as_before", re.search(rf"^ *{pid} .* idle ", listed(), re.M), listed())
    told = trigger(pid, "--seconds", "0.2", "-o", "t.json.gz", cwd=folder)
    check("in_any_format", told.returncode == 0 and (folder / "t.json.gz").exists() and not (folder / "t.json.gz.mtp").exists(), told)
    long = subprocess.Popen([MTPROF, "trigger", str(pid), "--seconds", "60", "-o", "long.mtp"], cwd=folder, stderr=subprocess.PIPE)
    until_listed(pid, "recording")
    check("while_it_records_that_is_listed", re.search(rf"^ *{pid} .* recording ", listed(), re.M), listed())
    told = trigger(pid, "--seconds", "1", "-o", "second.mtp", cwd=folder)
    check("a_second_request_is_refused", told.returncode == 3 and "already" in told.stderr, told)
    long.kill()
    long.communicate()
    until_listed(pid, "idle")
    info = subprocess.run([MTPROF, "info", folder / "long.mtp"], capture_output=True, text=True).stdout
    check("a_request_that_is_given_up_ends_the_recording", re.search(rf"^ *{pid} .* idle ", listed(), re.M) and "stopped" in info, info)
    long = subprocess.Popen([MTPROF, "trigger", str(pid), "--seconds", "60", "-o", "int.json"], cwd=folder, stdout=subprocess.PIPE, text=True)
    until_listed(pid, "recording")
    time.sleep(0.5)  # something happens
    long.send_signal(signal.SIGINT)
    table = long.communicate()[0]
    check("one_that_is_interrupted_shows_and_writes_what_there_is", long.returncode == 0 and "work" in table and
          json.loads((folder / "int.json").read_text())["traceEvents"] and not (folder / "int.json.mtp").exists(), (long.returncode, table))
    os.kill(pid, signal.SIGSTOP)
    until_listed(pid, "stopped")
    told = trigger(pid, "--seconds", "1", "-o", "stopped.mtp", cwd=folder)
    os.kill(pid, signal.SIGCONT)
    until_listed(pid, "idle")
    check("a_stopped_process_is_listed_and_refused", told.returncode == 3 and "is stopped" in told.stderr and
          not (folder / "stopped.mtp").exists(), told)
    told = trigger(pid, "--seconds", "1", "-o", "/no/such/folder/t.mtp")
    check("a_file_that_cannot_be_written_is_told", told.returncode == 3 and "No such file" in told.stderr, told)
    why = nobody_can_run()
    told = trigger(pid, preexec=as_nobody) if not why else None
    check("another_user_is_refused", why or (told.returncode == 3 and "another user" in told.stderr), told, skip=why)
    long = subprocess.Popen([MTPROF, "trigger", str(pid), "--seconds", "60", "-o", "ended.json"], cwd=folder, stdout=subprocess.PIPE, text=True)
    until_listed(pid, "recording")
    time.sleep(0.5)
    program.terminate()
    program.communicate()
    table = long.communicate()[0]
    check("one_whose_process_ends_shows_and_writes_what_there_is", long.returncode == 0 and "work" in table and
          (folder / "ended.json").exists() and not (folder / "ended.json.mtp").exists(), (long.returncode, table))
    check("it_ends_as_it_would", program.returncode == -signal.SIGTERM, program.returncode)
    check("and_is_not_listed_any_more", str(pid) not in listed(), listed())
    for what, words in ((str(os.getpid()), "does not listen"), ("999999999", "no process"), ("x", "not a process")):
        told = trigger(what)
        check(f"that_{words.replace(' ', '_')}_is_said", words in told.stderr and told.returncode in (2, 3), told)


LATE = '''
import os, socket, time
os.mkdir("mtprof", 0o700)
def door(name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(name)
    return s
name = "mtprof/%d.sock" % os.getpid()
door(name).close()  # as if the program had closed all descriptors
print("ready", flush=True)
time.sleep(1)
s = door("new")
s.listen()
os.rename("new", name)
while True:
    c = s.accept()[0]
    c.recv(4096)
    c.sendall(b"error it was asked\\n")
'''


@test
def listening(folder):
    """Programs with libmtprof that listen by themselves; their forks do, too; whatever they close."""
    program = subprocess.Popen([PROGRAM, "wait", "12"], stdout=subprocess.PIPE, env=environment(MTPROF_LISTEN="1"))
    program.stdout.readline()
    told = trigger(program.pid, "--seconds", "0.2", "-o", "l.mtp", cwd=folder)
    check("a_program_with_the_library_listens_if_its_environment_says_so", told.returncode == 0 and (folder / "l.mtp").exists(), told)
    program.kill()
    program.communicate()
    check("a_killed_process_leaves_no_trace_in_the_list", str(program.pid) not in listed(), listed())
    program = subprocess.Popen([PYTHON, "-c", LATE], cwd=folder, stdout=subprocess.PIPE)
    program.stdout.readline()
    told = subprocess.run([MTPROF, "trigger", str(program.pid), "-o", "late.mtp"], capture_output=True, text=True, cwd=folder,
                          env=environment(XDG_RUNTIME_DIR=str(folder)))
    check("one_whose_socket_is_closed_is_asked_until_it_listens_again", "it was asked" in told.stderr, told)
    program.kill()
    program.communicate()
    code = "import os, time\nos.closerange(3, 100)\nf = [os.open('/dev/null', 0) for i in range(8)]\nprint('ready', flush=True)\n" \
           "if os.fork() == 0:\n  open('child', 'w').write(str(os.getpid()))\n" \
           "def f(): pass\nt = time.time()\nwhile time.time() < t + 9: f()\nos._exit(0)"
    program = subprocess.Popen([MTPROF, "run", "--wait", PYTHON, "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment())
    program.stdout.readline()
    pid = child_of(program.pid)
    told = trigger(pid, "--seconds", "0.2", "-o", "c.mtp", cwd=folder)
    check("one_that_closes_all_descriptors_is_found_again", told.returncode == 0 and "): f" in told.stdout, told)
    child = int((folder / "child").read_text())
    told = trigger(child, "--seconds", "0.2", "--stacks", "-o", "d.mtp", cwd=folder)
    check("a_forked_child_listens_too", told.returncode == 0 and "): f" in told.stdout, told)
    os.kill(child, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    program.communicate()


sys.exit(finish())
