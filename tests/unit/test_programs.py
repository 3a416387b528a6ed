#!/usr/bin/env python3
"""Unit: real programs under `mtprof run`: each does what it does without us, and what it did is recorded.

usage: tests/unit/test_programs.py MTPROF ODD ITT NVTX OPENCL   speaks TAP; OPENCL: "" where it is not built
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import ONEDNN, check, finish, skip  # noqa: E402
from running import MTPROF, PYTHON, Done, Terminal, as_nobody, environment, nobody_can_run, run, started, test  # noqa: E402

ODD, ITT, NVTX = (str(pathlib.Path(a).resolve()) for a in sys.argv[2:5])
OPENCL = str(pathlib.Path(sys.argv[5]).resolve()) if sys.argv[5] else ""
INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
LIBRARY = pathlib.Path(MTPROF).parent / "src"


def part(done, name):
    """Of what several runs left in a folder, this one's."""
    done.spools = {n: p for n, p in done.spools.items() if n.startswith(name + ".mtp")}
    return done


def compiled(folder, name, source, *flags, compiler="cc"):
    """A program made of the source, which may use mtprof.h; None if that does not work here."""
    suffix = ".cpp" if compiler == "c++" else ".c"
    (folder / (name + suffix)).write_text(source)
    found = shutil.which(compiler)
    made = found and subprocess.run([found, folder / (name + suffix), "-o", folder / name, f"-I{INCLUDE}", f"-L{LIBRARY}",
                                     f"-Wl,-rpath,{LIBRARY}", *flags], capture_output=True)
    return str(folder / name) if made and made.returncode == 0 else None


def work(folder, *args, count, code=0, name, words=(), program=None, **more):
    """Under us the program records `count` scopes, and ends with the code."""
    done = run(folder, *(program or (ODD,)), *args, **more)
    check(name, done.code == code and done.names().get("work", 0) == count and all(w in done.err for w in words), (done.names(), done))
    for path in sorted(folder.glob("run.mtp*/*")) + sorted(folder.glob("run.mtp*")):
        path.rmdir() if path.is_dir() else path.unlink()
    return done


@test
def ends(folder):
    work(folder, "abort", count=10, code=-signal.SIGABRT, name="abort_leaves_its_trace", words=["Aborted"])
    work(folder, "overflow", count=10, code=-signal.SIGSEGV, name="so_does_a_stack_overflow", words=["Segmentation fault"])
    work(folder, "quick", count=10, code=7, name="and_quick_exit")
    done = run(folder, "sh", "-c", f"{ODD} pipe | head -c 1; exit 4", options=["-o", "pipe.mtp"])
    check("a_pipe_that_closes_ends_the_program", done.code == 4 and done.out == "m" and done.names() == {"work": 10}, (done.names(), done))
    group = started(folder, "sh", "-c", f"{ODD} scopes 5; echo ready; sleep 30", options=["-o", "group.mtp"])
    os.killpg(group.pid, signal.SIGKILL)
    group.communicate()
    check("if_all_are_killed_at_once_the_folder_has_the_trace", Done(0, "", "", folder).names().get("work", 0) == 15,
          Done(0, "", "", folder))


@test
def starts(folder):
    work(folder, "clone", count=20, code=4, name="a_raw_clone_runs_unrecorded_and_harms_nothing")
    work(folder, "shared", count=30, name="clone_with_shared_memory_and_exec")
    work(folder, "descriptor", count=30, name="a_program_that_is_executed_by_its_descriptor")
    work(folder, "bare", count=10, name="one_that_gets_another_environment_runs_unrecorded")
    work(folder, "-i", ODD, "scopes", "5", count=0, program=("env",), name="and_so_does_one_of_env_i", words=["nothing was recorded"])
    run(folder, "env", ODD, "scopes", "5", options=["--malloc", "-o", "last.mtp"])
    told = subprocess.run([MTPROF, "info", "last.mtp"], cwd=folder, capture_output=True, text=True).stdout
    check("the_output_is_the_last_program_that_the_process_was", f"({os.path.basename(ODD)} scopes 5)" in told, told)
    shutil.rmtree(folder / "last.mtp.workers")
    (folder / "last.mtp").unlink()
    work(folder, "tree", "25", count=25, name="a_deep_tree_of_processes", words=["25 processes"])
    script = f"{ODD} scopes 3 | cat; (sleep 0.1; {ODD} scopes 4) & {ODD} scopes 5 & wait; echo done | (cat; {ODD} scopes 6); trap '' PIPE"
    done = work(folder, "-c", script, count=18, program=("sh",), name="a_shell_script_with_pipes_and_background_jobs")
    check("its_output_is_as_without_us", done.out == "done\n", done)
    listing = 'for i in $(seq 300); do /bin/true; (:); done; ls -A "$0" | grep -v running | wc -l; $1 scopes 2'
    done = work(folder, "-c", listing, str(folder / "run.mtp.workers"), ODD, count=2, program=("sh",), name="many_short_children")
    check("leave_no_file_behind_not_even_meanwhile", int(done.out) <= 1, done)  # the shell's own
    work(folder, "run", ODD, "scopes", "30", count=30, program=(MTPROF,), options=["-o", "outer.mtp"], name="mtprof_run_in_mtprof_run",
         words=["nothing was recorded", "30 events"])


PLUGIN = """#include <mtprof.h>
void plug(void) { for (int i = 0; i < 9; i++) MTP_SCOPE ("work") { } }"""
HOST = """#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*plug)(void) = (void (*)(void))dlsym(library, "plug");
    plug();
    if (fork() == 0) { plug(); _exit(0); }
    return wait(0) < 0;
}"""


@test
def plugins(folder):
    """Nothing of the program uses mtprof.h until it loads a library that does."""
    host, plugin = compiled(folder, "host", HOST, "-ldl"), compiled(folder, "plugin.so", PLUGIN, "-shared", "-fPIC", "-lmtprof")
    if host is None or plugin is None:
        skip("plug_ins", "no C compiler")
        return
    work(folder, plugin, count=18, program=(host,), name="a_plug_in_is_recorded_and_so_is_a_fork_of_its_program")


EMBEDS = """#include <dlfcn.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "Py_BytesMain") : 0;
    return run ? run(argc - 1, argv + 1) : 77;
}"""


@test
def embedded_python(folder):
    """In a program that a script starts, and that loads Python when it has begun."""
    host = compiled(folder, "embeds", EMBEDS, "-ldl")
    library = sysconfig.get_config_var("LDLIBRARY") or ""
    library = next((p for p in (os.path.join(sysconfig.get_config_var("LIBDIR") or "", library),
                                f"/usr/lib/x86_64-linux-gnu/libpython3.{sys.version_info[1]}.so.1.0") if ".so" in p and os.path.exists(p)), "")
    if host is None or not library:
        skip("a_program_with_python_in_it", "no C compiler, or no libpython3.so")
        return
    (folder / "script.py").write_text("def f(): pass\nfor i in range(12): f()\n")
    done = run(folder, "sh", "-c", f"{host} {library} script.py; exit 5")
    check("a_program_with_python_in_it", done.code == 5 and done.names().get("script.py(1): f") == 12, (done.names(), done))


@test
def other_machines(folder):
    program = compiled(folder, "small", "int main(void) { return 3; }", "-m32")
    if program is None:
        skip("a_32_bit_program", "cc cannot build one")
        return
    done = run(folder, program)
    check("a_32_bit_program_runs_and_that_it_is_not_recorded_is_said", done.code == 3 and "nothing in it can be recorded" in done.err, done)


@test
def surroundings(folder):
    work(folder, "umask", count=20, name="a_program_that_hides_its_files")
    if os.geteuid() == 0:
        (folder / "root").mkdir()
        done = work(folder, "chroot", str(folder / "root"), count=300010, name="a_program_that_changes_its_root")
        check("that_its_children_are_missing_is_said_once", done.err.count("not recorded") == 1 and "the same" not in done.err, done)
    else:
        skip("a_program_that_changes_its_root", "not root")
    for limit, count, words in (("-f 100", 0, "not recorded"), ("-n 4", 0, "Too many open files"), ("-v 100000", 300000, "")):
        work(folder, "-c", f"ulimit {limit}; exec {ODD} scopes 300000", count=count, program=("sh",), words=[words],
             name=f"a_program_with_ulimit_{limit.replace(' ', '_')}")
    done = run(folder, "sh", "-c", f"ulimit -v 100000; exec {ODD} scopes 10", options=["--budget", "1G"])
    check("a_budget_that_is_too_large_is_told_by_its_own_name", "--budget" in done.err and "buffer_bytes" not in done.err, done)
    done = subprocess.run(["sh", "-c", f"{MTPROF} run {ODD} scopes 30 <&- >&- 2>&-"], cwd=folder, env=environment())
    check("no_standard_descriptors", done.returncode == 0 and Done(0, "", "", folder).names() == {"work": 30}, done)
    for command in (["nohup"], ["setsid", "-w"], ["timeout", "20"], ["env", "LD_PRELOAD=libm.so.6"]):
        if shutil.which(command[0]) is None:
            skip(f"under_{command[0]}", "not installed")
            continue
        done = subprocess.run([*command, MTPROF, "run", ODD, "scopes", "30"], cwd=folder, env=environment(), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        check(f"under_{command[0]}", done.returncode == 0 and "30 events" in done.stderr, done)
    if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
        script = f"umount -l /proc && exec {MTPROF} run -o proc.mtp {ODD} scopes 30"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=folder, env=environment(LD_LIBRARY_PATH=str(LIBRARY)),
                              capture_output=True, text=True)
        check("without_proc", done.returncode == 0 and "30 events" in done.stderr, done)
    else:
        skip("without_proc", "cannot unmount it")


@test
def users(folder):
    """As a user without a home, in a folder that cannot be written to."""
    why = nobody_can_run()
    if why:
        skip("another_user", why)
        return
    folder.chmod(0o755)
    theirs = folder / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    more = {"HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(folder, ODD, "scopes", "30", options=["-o", str(theirs / "t.mtp")], preexec=as_nobody, **more)
    check("a_user_without_a_home_in_a_folder_of_others", done.code == 0 and done.names() == {"work": 30} and
          (theirs / "t.mtp").stat().st_mode & 0o777 == 0o600, done)
    tool = folder / "tool"
    shutil.copy("/bin/true", tool)
    tool.chmod(0o4755)
    (theirs / "script.sh").write_text(f"{tool} && {ODD} scopes 5")
    done = run(folder, "sh", str(theirs / "script.sh"), options=["-o", str(theirs / "s.mtp")], preexec=as_nobody, **more)
    done.spools = {"s.mtp": theirs / "s.mtp"}
    check("a_setuid_program_that_a_script_starts_runs_unrecorded", done.code == 0 and "work" in done.err and "ERROR" not in done.err, done)
    done = run(folder, ODD, "scopes", "30", preexec=as_nobody, **more)
    check("without_an_output_that_can_be_written_nothing_runs", done.code == 4 and "run.mtp.workers cannot be created" in done.err, done)


SANITIZED = """#include <mtprof.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    char *block = malloc(10);
    (void)argv;
    for (int i = 0; i < 10; i++) MTP_SCOPE ("work") { }
    block[argc > 1 ? 12 : 1] = 1;
    free(block);
    return 5;
}"""


@test
def tools(folder):
    for name in ("address", "thread", "undefined"):
        program = compiled(folder, name, SANITIZED, f"-fsanitize={name}", "-lmtprof")
        if program is None:
            skip(f"a_program_with_the_{name}_sanitizer", "cc cannot build one")
            continue
        work(folder, count=10, code=5, program=(program,), name=f"a_program_with_the_{name}_sanitizer")
        if name == "address":
            done = work(folder, "bad", count=10, code=1, program=(program,), name="one_that_fails_there", words=["heap-buffer-overflow"])
            done = run(folder, "sh", "-c", "echo $ASAN_OPTIONS", ASAN_OPTIONS="exitcode=44")
            check("the_user_s_options_stay", done.out.strip().endswith(":exitcode=44"), done)
    for command in (["strace", "-f", "-o", "/dev/null"], ["valgrind", "-q", "--error-exitcode=9"],
                    ["gdb", "-q", "-batch", "-return-child-result", "-ex", "run", "--args"]):
        if shutil.which(command[0]) is None:
            skip(f"under_{command[0]}", "not installed")
            continue
        work(folder, *command[1:], ODD, "scopes", "40", count=40, program=(command[0],), name=f"under_{command[0]}", options=["--no-python"])


@test
def terminal(folder):
    at = Terminal(folder, MTPROF, "run", ODD, "talk")
    at.expect("ready", "recording into run.mtp")
    at.send("abc\n")
    at.expect("cba")
    at.send("end\n")
    code, text = at.end()
    check("a_program_may_talk_with_its_terminal", code == 8 and "written  run.mtp" in text, (code, text))
    shell = shutil.which("bash")
    if shell is None:
        skip("job_control", "no bash")
        return
    at = Terminal(folder, shell, "--norc", "--noediting", "-i", PS1="next> ")  # its line editor discards what is typed too early
    at.expect("next> ")
    at.send(f"{MTPROF} run -o job.mtp {ODD} talk\n")
    at.expect("ready", "recording into job.mtp")
    at.send("\x1a")
    at.expect("Stopped")
    at.expect("next> ")
    at.send("echo $((40 + 2))\n")
    at.expect("42\r\n")
    at.expect("next> ")
    at.send("fg\n")
    at.expect("talk")
    at.send("xyz\n")
    at.expect("zyx")
    at.send("\x03")
    at.expect("ended by Interrupt", "written  job.mtp")
    at.expect("next> ")
    at.send(f"{MTPROF} run -o tidy.mtp {ODD} tidy\n")
    at.expect("ready")
    at.send("\x1a")
    at.expect("Stopped", "tidying up")
    check("we_stop_after_the_program_has", at.text.index("tidying up") < at.text.index("Stopped", at.text.index("tidy.mtp")), at.text)
    at.send("fg\n")
    at.expect("run_odd tidy")
    at.send("end\n")
    at.expect("exit status 8")
    at.expect("next> ")
    at.send("exit\n")
    at.end()
    check("ctrl_z_and_fg_work_as_without_us", (folder / "job.mtp").exists(), at.text)
    (folder / "script.py").write_text("print(1)\n")
    for columns in (80, 120):
        at = Terminal(folder, MTPROF, "run", "-o", "it's wide.mtp", PYTHON, "script.py", "x" * 200, "\x1b[31m", columns=columns)
        code, text = at.end()
        table = [line for line in text.replace("\r\n", "\n").split("\n") if line.endswith("  ")]
        check(f"the_table_fits_{columns}_columns", len(table) > 5 and max(map(len, table)) <= columns and "..." in text, text)
        check(f"the_command_is_shown_shortened_at_{columns}", "python3 script.py xxx" in text.replace(os.path.basename(PYTHON), "python3") and
              "x..." in text and "[31m" not in text, text)
    check("what_is_printed_can_be_pasted_into_a_shell", "-o 'it'\\''s wide.json.gz'   # for" in text, text)
    at = Terminal(folder, "/bin/sh", "-c", f"{MTPROF} run -o quiet.mtp sleep 1.5 | cat")
    code, text = at.end()
    check("progress_is_shown_while_the_output_goes_elsewhere", "quiet.mtp, 1 s" in text, text)
    at = Terminal(folder, "/bin/sh", "-c", f"{MTPROF} run -o quiet.mtp sleep 1.5 | cat", columns=40)
    check("in_lines_that_fit", "\rmtprof run: recording, 1 s" in at.end()[1], at.text)
    done = run(folder, "sleep", "0.1", options=["-o", "quiet.mtp"])
    check("but_not_where_nobody_looks", "recording into" not in done.err, done)


@test
def python(folder):
    def ours(name, code, count):
        (folder / "program.py").write_text("def f(*a): return 1\n" + code)
        bare = subprocess.run([PYTHON, "program.py"], cwd=folder, capture_output=True, text=True, env=environment())
        done = run(folder, PYTHON, "program.py", options=["-o", name + ".mtp"])
        found = part(done, name).names().get("program.py(1): f", 0)
        check(f"python_{name}", done.code == bare.returncode and done.out == bare.stdout and found == count, (found, bare, done))

    for way in ("fork", "spawn", "forkserver"):
        ours(way, f"""
if __name__ == "__main__":
    import multiprocessing
    with multiprocessing.get_context("{way}").Pool(2) as pool:
        print(sum(pool.map(f, range(10), chunksize=1)))
        pool.close()
        pool.join()
""", 10)
    ours("futures", """
if __name__ == "__main__":
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
        with kind(2) as pool: print(sum(pool.map(f, range(7))))
""", 14)
    ours("asyncio", """
import asyncio
async def one():
    await asyncio.sleep(0.001)
    return f()
async def main(): print(sum(await asyncio.gather(*(one() for i in range(20)))))
asyncio.run(main())
""", 20)
    ours("subprocesses", """
import os, subprocess, sys
if len(sys.argv) == 1:
    again = [sys.executable, __file__, "again"]
    subprocess.run(again, close_fds=True, check=True)
    os.waitpid(os.posix_spawn(again[0], again, os.environ), 0)
    os.system(" ".join(again))
    print(subprocess.run([*again], env={"PATH": os.environ["PATH"]}).returncode)  # unrecorded
else:
    f()
""", 3)
    ours("that_dies", "f()\nimport os\nos.abort()", 1)
    ours("that_fails", "f()\nraise SystemExit(9)", 1)
    ours("numpy", "import numpy\nf()\nprint(numpy.ones((4, 4)) @ numpy.ones((4, 4)))", 1)


@test
def libraries(folder):
    for name, program in (("itt", ITT), ("nvtx", NVTX), ("opencl", OPENCL)):
        if name == "opencl" and (not OPENCL or not list(pathlib.Path("/etc/OpenCL/vendors").glob("*.icd"))):
            skip("an_opencl_program", "no OpenCL")
            continue
        for mode, code in (("exit_elsewhere", 4), ("killed", -9), ("forks", 0)):
            done = part(run(folder, program, mode, options=["-o", f"{name}_{mode}.mtp"]), f"{name}_{mode}")
            check(f"a_program_with_{name}_{mode}", done.code == code and sum(done.names().values()) > 0, (done.names(), done))
        done = part(run(folder, "sh", "-c", f"{program} threads; exit 6", options=["-o", f"{name}_script.mtp"]), f"{name}_script")
        check(f"one_with_{name}_that_a_script_starts", done.code == 6 and sum(done.names().values()) > 0, (done.names(), done))
    program = compiled(folder, "product", ONEDNN, "-ldnnl", compiler="c++")
    if program is None:
        skip("onednn_s_primitives_are_ops", "no C++ compiler, or oneDNN is not installed (Debian: libdnnl-dev)")
        return
    done = part(run(folder, program, options=["-o", "onednn.mtp"], OMP_NUM_THREADS="1"), "onednn")
    check("onednn_s_primitives_are_ops", done.code == 0 and done.names() == {"dnnl::primitive::execute::matmul": 3}, (done.names(), done),
          skip="" if (folder / "onednn.mtp").exists() or done.code != 0 else "this oneDNN is built without ITT")
    bad = part(run(folder, "sh", "-c", f"{program}; kill -SEGV $$", options=["-o", "segv.mtp"], OMP_NUM_THREADS="1"), "segv")
    check("also_in_a_script_that_dies", bad.code == -signal.SIGSEGV and bad.names() == done.names(), (bad.names(), bad))


sys.exit(finish())
