#!/usr/bin/env python3
"""Unit: the man pages and the completion for bash, zsh and fish, which tools/make_man and tools/make_completion make of the help: they
have every verb and every option, are valid, and complete what they should in the real shells.

usage: tests/unit/test_man.py MTPROF [MADE]     speaks TAP. MADE: the build's folder of pages and completions, which must be the same
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HEADINGS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"]
COMPLETIONS = ("mtprof", "_mtprof", "mtprof.fish")
results = []
PS = """#!/bin/sh
[ "$1" != ps ] || printf '       pid  user        state      command\\n      4711  me          idle       python3 serve.py --port 80\\n      4812  me          idle       ./b\\n'
"""
BASH = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_mtprof
printf '%s\\n' "${COMPREPLY[@]}"
"""


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("# " + str(more).replace("\n", "\n# ")[:4000])


def skip(name, why):
    results.append(True)
    print(f"ok {len(results)} - {name} # SKIP {why}", flush=True)


def run(*command, cwd="/", **env):
    done = subprocess.run([str(c) for c in command], env={**os.environ, "LC_ALL": "C.UTF-8", **env}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))


def options_of(text):
    """Those that a help text describes, and the opposites of "--itt, ..., and --no-itt ..."."""
    rows = re.findall(r"^ +-.*$", text, re.M)
    return options_in("\n".join(rows)) | {option.replace("--", "--no-") for row in rows if row.endswith(" ...") and ", and --no-" in row
                                          for option in options_in(row.split(", and ")[0])}


def has_word(text, word):
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


# ------------------------------------------------------------------------------------------------------ pages


def check_pages(out, helps):
    names = {"mtprof", *(f"mtprof-{verb}" for verb in helps if verb)}
    check("every_verb_has_a_page", {path.stem for path in out.glob("*.1")} == names, (names, list(out.iterdir())))
    for verb, text in helps.items():
        name = f"mtprof-{verb}" if verb else "mtprof"
        page = (out / f"{name}.1").read_text()
        seen = re.sub(r"\\f.|\\&", "", page).replace(r"\-", "-").replace(r"\(aq", "'")
        missing = [option for option in options_in(text) | options_of(text) if not has_word(seen, option)]
        missing += [word for word in re.findall(r"\S{4,}", text.split("\n\n", 1)[-1].replace("'", " "))
                    if word.strip(".,;:()").lower() not in seen.lower() and word not in ("Exit", "code:", "codes:", "--help)", "--help")]
        check(f"{name}_says_all_that_the_help_says", not missing, missing)
        headings = re.findall(r"^\.SH (.*)$", page, re.M)
        check(f"{name}_has_the_usual_sections", [h for h in headings if h in HEADINGS] == HEADINGS, headings)
        linked = set(re.findall(r"mtprof-[a-z]+(?=\(1\)| \(1\))", seen))
        check(f"{name}_refers_to_pages_that_exist", linked <= names, linked - names)
    unused = [path.name for path in (SOURCE / "docs/man").glob("*.txt") if path.stem not in {*helps, "mtprof"}]
    check("every_part_in_docs_man_is_used", not unused, unused)
    for program, *command in (["groff", "-man", "-Tutf8", "-ww"], ["man", "--warnings", "-l"], ["mandoc", "-T", "lint", "-W", "error"]):
        if shutil.which(program) is None:
            skip(f"{program}_finds_no_fault", f"{program} is not installed")
            continue
        said = {path.name: run(program, *command, path, MANWIDTH="80") for path in sorted(out.glob("*.1"))}
        bad = {name: (code, err) for name, (code, _, err) in said.items() if code != 0 or err}
        if any("minimized" in text for _, text, _ in said.values()):
            skip(f"{program}_finds_no_fault", "this system has no man pages")
        else:
            check(f"{program}_finds_no_fault", not bad, bad)


# ------------------------------------------------------------------------------------------------------ completion


def check_options(out, helps):
    texts = {name: (out / name).read_text() for name in COMPLETIONS}
    parts = {"mtprof": lambda verb: re.search(rf'^    {verb}\)\n        options="(.*)"', texts["mtprof"], re.M)[1],
             "_mtprof": lambda verb: texts["_mtprof"].split(f"\n        {verb})\n")[1].split(";;")[0],
             "mtprof.fish": lambda verb: "\n".join(line for line in texts["mtprof.fish"].splitlines() if f"'__mtprof_verb {verb}'" in line
                                                   or verb == "run" and "__mtprof_before_program " in line).replace(" -l ", " --")}
    for name, part in parts.items():
        missing = [(verb, option) for verb, text in helps.items() if verb for option in options_of(text) if not has_word(part(verb), option)]
        check(f"completion_{name}_has_all_options_of_all_verbs", not missing, missing)


def folder_with_files(root):
    work = root / "work"
    (work / "recordings").mkdir(parents=True)
    for name in ("run.mtp", "my run.mtp", "a.json", "a.json.gz", "a.json.zst", "a.et.json", "notes.txt", "train.py"):
        (work / name).touch()
    (root / "bin").mkdir()
    (root / "bin/mtprof").write_text(PS)
    (root / "bin/mtprof").chmod(0o755)
    return work


TRACES = {"run.mtp", "my run.mtp", "a.json", "a.json.gz", "a.json.zst", "a.et.json", "recordings"}


def check_bash(out, root, work, helps):
    if shutil.which("bash") is None:
        return skip("bash", "bash is not installed")
    path = f"{root / 'bin'}:{os.environ['PATH']}"

    def completed(*words):
        code, text, err = run("bash", "--norc", "-c", BASH, "bash", out / "mtprof", "mtprof", *words, cwd=work, PATH=path)
        return set(text.split("\n")) - {""} if code == 0 and not err else (code, err)

    def gives(name, words, wanted):
        got = completed(*words)
        check(f"bash_completes_{name}", got == wanted, (words, got))

    verbs = {verb for verb in helps if verb}
    gives("verbs", [""], verbs | {"--help", "--version"})
    gives("part_of_a_verb", ["st"], {"stats", "stacks", "steps"})
    for verb in verbs:
        got = completed(verb, "--")
        check(f"bash_completes_options_of_{verb}", isinstance(got, set) and options_of(helps[verb]) <= got, (options_of(helps[verb]), got))
    gives("an_option", ["table", "--by-s"], {"--by-shape", "--by-stack"})
    gives("an_option_after_a_trace", ["diff", "run.mtp", "--norm"], {"--normalize"})
    gives("attributes", ["table", "--sort", "self_"], {"self_cpu_time_total", "self_device_time_total"})
    gives("attributes_after_=", ["table", "--sort", "=", "fl"], {"flops"})
    gives("attributes_right_after_=", ["stacks", "--metric", "="], {"self_cpu_time_total", "self_device_time_total"})
    gives("the_same_letter_by_verb", ["stacks", "-m", "self_d"], {"self_device_time_total"})
    gives("nothing_for_a_number", ["table", "--limit", ""], set())
    gives("traces_by_suffix", ["table", ""], TRACES)
    gives("traces_after_options", ["stats", "--limit", "3", "a.j"], {"a.json", "a.json.gz", "a.json.zst"})
    gives("other_files_if_there_is_no_trace", ["check", "not"], {"notes.txt"})
    gives("spools_to_recover", ["recover", ""], {"run.mtp", "my run.mtp", "recordings"})
    gives("any_file_as_output", ["export", "run.mtp", "-o", "no"], {"notes.txt"})
    gives("processes", ["trigger", "47"], {"4711"})
    gives("nothing_for_ps", ["ps", ""], set())
    got = completed("run", "--shapes", "--", "pytho")
    check("bash_completes_programs_after_run", isinstance(got, set) and any(word.startswith("python3") for word in got), got)
    gives("scripts_after_run", ["run", "-o", "x.mtp", "train"], {"train.py"})
    gives("files_for_the_program", ["run", "--budget", "1G", "--", "./x", "no"], {"notes.txt"})
    gives("no_options_of_ours_for_the_program", ["run", "./x", "--sha"], set())
    gives("nothing_for_an_unknown_verb", ["tabel", ""], set())


def typed(command, prepare, line, cwd, **env):
    """What a shell on a terminal shows after this line and a tab."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(command[0], command, {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "vt100", "COLUMNS": "200", **env})
    shown, at = "", 0

    def until(what, seconds):
        """Reads on until this is shown, behind what the last call found."""
        nonlocal shown, at
        end = time.monotonic() + seconds
        while what not in shown[at:] and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    shown += os.read(terminal, 65536).decode(errors="replace")
                except OSError:
                    break
        at = shown.index(what, at) + len(what) if what in shown[at:] else len(shown)

    try:
        os.write(terminal, (prepare + "; echo rea''dy\n").encode())
        until("ready", 60)
        until("% ", 10)
        before = len(shown)
        os.write(terminal, (line[0] + "\t").encode())
        until(line[1], 30)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\0\a\r]", "", shown[before:])     # what moves the cursor
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def check_zsh(out, root, work):
    if shutil.which("zsh") is None:
        return skip("zsh", "zsh is not installed")
    code, _, err = run("zsh", "-n", out / "_mtprof")
    check("zsh_reads_it", code == 0 and not err, err)
    prepare = f"PS1='%% '; fpath=({out} $fpath); autoload -U compinit; compinit -u -d {root}/dump"
    for name, line in {"verbs": ("mtprof rec", "recover"), "options": ("mtprof table --python-f", "--python-functions"),
                       "values": ("mtprof stacks --metric self_d", "self_device_time_total"),
                       "traces": ("mtprof info run", "run.mtp"), "programs": ("mtprof run --shapes -- zcompile_me", "zcompile_me_too"),
                       "processes": ("mtprof trigger 47", "4711")}.items():
        (root / "bin/zcompile_me_too").write_text(PS)
        (root / "bin/zcompile_me_too").chmod(0o755)
        shown = typed(["zsh", "-f", "-i"], prepare, line, work, PATH=f"{root / 'bin'}:{os.environ['PATH']}", HOME=str(root))
        check(f"zsh_completes_{name}", line[1] in shown, shown)


def check_fish(out, root, work):
    if shutil.which("fish") is None:
        return skip("fish", "fish is not installed")
    code, _, err = run("fish", "--no-execute", out / "mtprof.fish")
    check("fish_reads_it", code == 0 and not err, err)

    def completed(line):
        code, text, err = run("fish", "--no-config", "-c", f"source {out}/mtprof.fish; complete -C '{line}'", cwd=work, HOME=str(root),
                              PATH=f"{root / 'bin'}:{os.environ['PATH']}")
        return [row.split("\t")[0] for row in text.splitlines()] if code == 0 and not err else (code, err)

    for name, line, wanted in (("verbs", "mtprof st", {"stats", "stacks", "steps"}), ("options", "mtprof table --by-s", {"--by-shape", "--by-stack"}),
                               ("values", "mtprof stacks --metric self_d", {"self_device_time_total"}), ("processes", "mtprof trigger 47", {"4711"}),
                               ("options_of_run", "mtprof run --sha", {"--shapes"}), ("no_options_of_ours_for_the_program", "mtprof run ./x --sha", set())):
        got = completed(line)
        check(f"fish_completes_{name}", set(got) == wanted and len(got) == len(wanted), (line, got))
    got = completed("mtprof table ")
    check("fish_completes_traces_first", {name.rstrip("/") for name in got[:len(TRACES)]} >= TRACES - {"recordings"}, got)
    got = completed("mtprof run --shapes -- pytho")
    check("fish_completes_programs_after_run", any(str(word).startswith("python3") for word in got), got)
    got = completed("mtprof run -o x.mtp python3 tra")
    check("fish_completes_as_the_program_does", "train.py" in got, got)


def main(command, made=None):
    helps = {"": run(command, "--help")[1]}
    for verb in re.findall(r"^  ([a-z]+) ", helps[""], re.M):
        helps[verb] = run(command, verb, "--help")[1]
    check("the_command_has_verbs", {"run", "table", "info"} < set(helps), helps)
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary).resolve()
        out = root / "made"
        for tool in ("make_man", "make_completion"):
            code, said, err = run(SOURCE / "tools" / tool, command, out)
            check(f"{tool}_works", code == 0 and not said + err, said + err)
        if made:
            different = [path.name for path in out.iterdir() if not (pathlib.Path(made) / path.name).exists()
                         or path.read_bytes() != (pathlib.Path(made) / path.name).read_bytes()]
            check("the_build_made_the_same", not different, different)
        work = folder_with_files(root)
        check_pages(out, helps)
        check_options(out, helps)
        check_bash(out, root, work, helps)
        check_zsh(out, root, work)
        check_fish(out, root, work)
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
