#!/usr/bin/env python3
"""Unit: what `meson install` leaves works from any folder, without the checkout: the command, a program linked with it, the OpenCL
layer, the Python packages, and `mtprof run` with all that it loads into programs.

usage: tests/unit/test_install.py BUILD MESON PYTHON ITT_PROGRAM NVTX_PROGRAM [OPENCL_PROGRAM]     speaks TAP
    PYTHON: the interpreter that the packages are built for; "": none
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from programs import verbs

NOBODY = 65534
SOURCE = pathlib.Path(__file__).resolve().parents[2]
results = []
PROGRAM = """
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    MTP_SCOPE("installed") free(strdup(mtp_version()));
    puts(mtp_version());
    return 0;
}
"""
TENSORS = """
#include <mindtorch.h>
int main(void)
{
    return mt_last_error() == NULL;
}
"""


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("# " + str(more).replace("\n", "\n# ")[:4000])


def environment(**more):
    """Without anything that could lead to the checkout."""
    return {**{k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH", "DESTDIR") and not k.startswith("MTPROF")}, **more}


def run(*command, cwd="/", **env):
    done = subprocess.run([str(c) for c in command], env=environment(**env), capture_output=True, text=True, timeout=300, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def compiled(folder, text, package, pc, prefix):
    (folder / "program.c").write_text(text)
    code, flags, said = run("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=str(pc), LC_ALL="C")
    if code == 0:
        code, _, said = run(*os.environ.get("CC", "cc").split(), folder / "program.c", "-o", folder / package, *flags.split(),
                           f"-Wl,-rpath,{prefix / pc.parent.relative_to(prefix)}", LC_ALL="C")
    return code == 0, said


FUNCTIONS = """
import sys, threading
def work(n):
    return sorted(range(n))
threading.Thread(target=work, args=(9,)).start()
work(5)
print("mtprof" in sys.modules and sys.modules["mtprof"].__file__)
sys.exit(3)
"""
IMPORTS = """
import os, runpy
import mtprof, mtprof.profiler, mtprof.emit
print(mtprof.__file__)
collector = runpy.run_path(os.path.dirname(mtprof.__file__) + "/pytorch/collector.py")  # imported, it would need torch
print(*collector["_sources"](), sep="\\n")
"""
TENSOR_PROGRAM = """
import mindtorch_v2 as torch
with torch.profiler.profile() as prof:
    torch.ones(3) + 1
print(torch.__file__, "aten::add" in prof.key_averages().table())
"""
WAITS = """
import sys, time
def turn():
    time.sleep(0.005)
print("up", flush=True)
while sys.stdin.readable() and not turn():
    pass
"""


def recorded(command, folder):
    """The names in folder/run.mtp and its workers, and how often."""
    code, out, err = run(command, "stats", "--json", "--python-functions", folder / "run.mtp")
    return {row["key"]: row["count"] for row in json.loads(out)} if code == 0 else {err: 0}


def check_run(root, command, programs, python):
    """`mtprof run` as installed."""
    work = root / "work"
    work.mkdir()
    code, out, err = run(command, "run", "--malloc", "--", root / "mtprof", cwd=work)
    check("run_records_a_program", code == 0 and recorded(command, work).get("installed") == 1, out + err)
    code, out, err = run(command, "memory", work / "run.mtp")
    check("and_its_heap", code == 0 and " allocations of " in out, out + err)
    for option, program, what in programs:
        code, out, err = run(command, "run", option, "--", program, *what, cwd=work)
        check(f"run_{option}_records", code == 0 and recorded(command, work), out + err)
    if not python:
        return
    (work / "prog.py").write_text(FUNCTIONS)
    code, out, err = run(command, "run", "--", python, "prog.py", cwd=work)
    names = recorded(command, work)
    check("run_records_python_functions", code == 3 and names.get("prog.py(3): work") == 2, (names, out, err))
    check("with_the_installed_package", out.startswith(str(command.parent.parent)), out + err)
    check_other_project(work, command, python)
    check_trigger(work, command, python)


def check_other_project(work, command, python):
    """PyPI has a thread profiler of the same name: a program that uses it does so, and one line says what that costs."""
    for name, file in ("package", "mtprof/__init__.py"), ("module", "mtprof.py"):
        place = work / f"other {name}"
        (place / file).parent.mkdir(parents=True)
        (place / file).write_text("import sys\nsys.stdout.write('another project\\n')\n")
        code, out, err = run(command, "run", "-o", "other.mtp", "--", python, "-c", "print(1); import mtprof", cwd=work, PYTHONPATH=str(place))
        notes = [line for line in err.splitlines() if "functions are not recorded" in line]
        check(f"another_{name}_called_mtprof_stays_the_program_s", code == 0 and out == "1\nanother project\n", out + err)
        check("and_is_named_as_the_reason", len(notes) == 1 and f"another package named mtprof is in its way: {place / file}" in notes[0], err)


def check_trigger(work, command, python):
    (work / "waits.py").write_text(WAITS)
    waiting = subprocess.Popen([command, "run", "--wait", "--", python, "waits.py"], cwd=work, env=environment(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        waiting.stdout.readline()
        listed = ""
        for _ in range(100):
            listed = run(command, "ps")[1]
            pid = next((line.split()[0] for line in listed.splitlines() if "waits.py" in line), None)
            if pid:
                break
            time.sleep(0.05)
        code, out, err = run(command, "trigger", pid or 0, "--seconds", "0.3", "-o", work / "run.mtp")
        check("ps_lists_and_trigger_records", code == 0 and recorded(command, work).get("waits.py(3): turn", 0) > 0, (listed, out, err))
    finally:
        waiting.terminate()
        waiting.communicate()


def check_python(root, command, python, lib):
    home = lib / "mtprof" / "python"
    code, out, err = run(command, "info")
    check("info_names_the_folder_of_the_packages", f"PYTHONPATH={home}\n" in out, out + err)
    for package in ("mtprof", "mindtorch_v2") if (lib / "libmindtorch.so").exists() and python else ("mtprof",):
        ours = {p.relative_to(SOURCE / "src") for kind in ("*.py", "*.pyi", "py.typed") for p in (SOURCE / "src" / package).rglob(kind)}
        there = {p.relative_to(home) for p in (home / package).rglob("*") if p.is_file()}
        source = {p for p in there if "source" in p.parts}
        extra = {p for p in there - ours - source if p.suffix != ".so" and "__pycache__" not in p.parts and p.name != "__init__.pyi"}
        check(f"all_files_of_{package}_are_installed", ours <= there and not extra, (ours - there, extra))
    if not python:
        return
    code, out, err = run(python, "-c", IMPORTS, PYTHONPATH=str(home))
    lines = out.splitlines()
    check("the_package_is_imported_from_there", code == 0 and lines[0].startswith(str(home)), out + err)
    check("the_sources_of_the_collector_are_there", len(lines) == 3 and all(line.startswith(str(home)) for line in lines), out + err)
    if (lib / "libmindtorch.so").exists():
        code, out, err = run(python, "-c", TENSOR_PROGRAM, PYTHONPATH=str(home))
        check("so_is_mindtorch_v2", code == 0 and out.startswith(str(home)) and out.endswith("True\n"), out + err)
    code, out, err = run("readelf", "-d", *home.rglob("*.so"), LC_ALL="C")
    check("extensions_find_their_library_beside_them", code != 0 or "$ORIGIN" in out and str(SOURCE) not in out, out + err)


def check_other_library(root, prefix, command, python, lib):
    """The environment may lead to the library of another installation, such as an older one: README has its users export it."""
    other, work = root / "another/lib", root / "beside another"
    other.mkdir(parents=True)
    work.mkdir()
    code, out, err = run(*os.environ.get("CC", "cc").split(), "-shared", "-Wl,-soname,libmtprof.so.0", "-x", "c", os.devnull, "-o", other / "libmtprof.so.0")
    code, out, err = run(command, "--version", LD_LIBRARY_PATH=str(other)) if code == 0 else (code, out, err)
    check("the_command_loads_its_own_library_not_another_s", code == 0 and out.startswith("mtprof "), out + err)
    if python:
        code, out, err = run(python, "-c", "import mtprof; print(mtprof.__file__)", PYTHONPATH=str(lib / "mtprof/python"), LD_LIBRARY_PATH=str(other))
        check("so_does_the_package", code == 0 and out.startswith(str(prefix)), out + err)
        (work / "prog.py").write_text(FUNCTIONS)
        code, out, err = run(command, "run", "--", python, "prog.py", cwd=work, LD_LIBRARY_PATH=str(other))
        check("and_what_is_loaded_into_programs", code == 3 and recorded(command, work).get("prog.py(3): work") == 2, out + err)


def check_share(share):
    """Where shells and man look for them; tests/unit/test_man.py says whether they are right."""
    wanted = ["man/man1/mtprof.1", *(f"man/man1/mtprof-{verb}.1" for verb in verbs(SOURCE)), "bash-completion/completions/mtprof",
              "zsh/site-functions/_mtprof", "fish/vendor_completions.d/mtprof.fish"]
    missing = [name for name in wanted if not (share / name).is_file()]
    check("man_pages_and_completion_are_installed", not missing, missing)


def check_spaces(root, prefix, python):
    """LD_PRELOAD cannot name a folder with a space: there is another way."""
    odd = root / "a place: with spaces"
    prefix.rename(odd)
    prefix.symlink_to(odd)  # where the program looks for its library
    work = root / "odd work"
    work.mkdir()
    (work / "prog.py").write_text(FUNCTIONS)
    command = odd / "bin" / "mtprof"
    code, out, err = run(command, "run", "--malloc", "--", root / "mtprof", cwd=work)
    check("run_works_from_a_folder_with_spaces", code == 0 and recorded(command, work).get("installed") == 1, out + err)
    if python:
        code, out, err = run(command, "run", "--", python, "prog.py", cwd=work)
        check("and_records_python_there", code == 3 and recorded(command, work).get("prog.py(3): work") == 2, out + err)
    check_links(root, command)
    for link in pathlib.Path(f"/tmp/mtprof-links-{os.geteuid()}").iterdir():
        if os.readlink(link).startswith(str(root)):
            link.unlink()


def check_info(root, prefix):
    """What `mtprof info` prints can be pasted into a shell, also after the prefix was moved into an odd folder."""
    odd = root / "an odd pläce"
    prefix.rename(odd)
    work = root / "info"
    work.mkdir()
    (work / "PROGRAM.c").write_text(PROGRAM)
    code, out, err = run(odd / "bin/mtprof", "info")
    lines = {line[2:18].strip(): line[20:] for line in out.splitlines()[1:]}
    code, out, err = run("sh", "-c", lines.get("#include", "false"), cwd=work)
    lib = next(odd.rglob("libmtprof.so.0")).parent
    check("a_program_compiles_as_info_says", code == 0 and run(work / "a.out", LD_LIBRARY_PATH=str(lib))[0] == 0, (lines, err))
    code, out, err = run("sh", "-c", lines.get("ITT programs", "false").replace("PROGRAM", "env"), cwd=work)
    check("and_its_variables_are_words", code == 0 and f"INTEL_LIBITTNOTIFY64={lib}/mtprof/libmtprof_itt.so\n" in out, (lines, err))
    check("no_line_has_what_the_loader_cannot_load", lines.get("heap of programs") == "mtprof run --malloc -- PROGRAM", lines)
    odd.rename(prefix)


def check_links(root, command):
    """Links that somebody else could have made are not loaded from."""
    links = pathlib.Path(f"/tmp/mtprof-links-{NOBODY}")
    if os.geteuid() != 0 or links.exists():
        return
    root.chmod(0o755)
    links.mkdir(mode=0o755)
    try:
        done = subprocess.run([command, "run", "-o", "/tmp/mtprof-test-install.mtp", "--", "true"], cwd="/", env=environment(), user=NOBODY,
                              group=NOBODY, extra_groups=[], capture_output=True, text=True)
        check("a_folder_of_links_of_another_user_is_refused", done.returncode != 0 and "install mtprof elsewhere" in done.stderr and
              not any(links.iterdir()), done)
    finally:
        links.rmdir()


def check_make():
    """What `make install` hands to meson, which is a printf here."""
    code, out, err = run("make", "-s", "-C", SOURCE, "-o", "build", "install", "MESON=printf '[%s]'", "PREFIX=/a place/ä", "DESTDIR=b c")
    check("make_install_takes_folders_with_spaces", code == 0 and "[-Dprefix=/a place/ä]" in out and f"[{SOURCE}/b c]" in out, out + err)


PLACES_MESON = """#!/bin/sh
# Has two options, as `meson configure` keeps them; installs nothing, and says where.
info=$BUILDS/meson-info/intro-buildoptions.json
case $1 in
configure)
    for word; do
        case $word in -Dprefix=*) prefix=${word#*=} ;; -Dlibdir=*) libdir=${word#*=} ;; esac
    done
    mkdir -p "$BUILDS/meson-info" "$BUILDS/meson-logs"
    : "${prefix:=$(sed 's/.*"prefix", "value": "\\([^"]*\\).*/\\1/' "$info")}" "${libdir:=$(sed 's/.*"libdir", "value": "\\([^"]*\\).*/\\1/' "$info")}"
    [ "$prefix" = / ] || prefix=${prefix%/}
    echo '[{"name": "prefix", "value": "'"$prefix"'"}, {"name": "libdir", "value": "'"$libdir"'"}]' >"$info" ;;
install)
    sed 's/[^:]*: [^:]*: "\\([^"]*\\)"[^:]*: [^:]*: "\\([^"]*\\)".*/\\1 \\2/' "$info" ;;
esac
"""
FAKE_MESON = """#!/bin/sh
# Installs a file and a Python module as meson does, and logs it as meson does.
log=$3/meson-logs/install-log.txt place=$5
mkdir -p "$3/meson-logs"
echo "# List of files installed by Meson" >"$log"
for file in bin/mtprof "share/ä b/it.py" $MORE; do
    folder=$place/$(dirname "$file")
    for new in "$(dirname "$folder")" "$folder"; do
        [ -d "$new" ] || made="$made$new
"
    done
    mkdir -p "$folder" && touch "$place/$file" && echo "$place/$file" >>"$log"
done
printf '%s' "$made" >>"$log"
"""


def check_places(root):
    """PREFIX and LIBDIR are for one installation: the next one without them is where the build folder is configured for."""
    fake, build = root / "meson of places", root / "build_of_places"
    fake.write_text(PLACES_MESON)
    fake.chmod(0o755)

    def install(*words):
        return run("make", "-s", "-C", SOURCE, "-o", "build", "install", f"MESON='{fake}'", f"BUILD={build}", *words, BUILDS=str(build))[1].rstrip("\n")

    own = "lib/x86_64-linux-gnu"
    run(fake, "configure", "-Dprefix=/usr/local", f"-Dlibdir={own}", BUILDS=str(build))
    wanted = {("PREFIX=/a b/",): "/a b lib", ("PREFIX=/c", "LIBDIR=lib64"): "/c lib64", ("PREFIX=/a b",): "/a b lib", (): f"/usr/local {own}",
              ("LIBDIR=lib64",): "/usr/local lib64", ("PREFIX=/usr",): f"/usr {own}", ("PREFIX=/d",): "/d lib", ("DESTDIR=/e",): f"/usr/local {own}"}
    got = {words: install(*words) for words in wanted}
    check("a_prefix_is_for_one_installation", got == wanted, got)
    install("PREFIX=/f")
    run(fake, "configure", "-Dprefix=/opt", BUILDS=str(build))
    check("but_for_one_that_was_configured_since", install() == "/opt lib", install())


def check_uninstall(root):
    """Of what `make install` installed, twice and over an older version: all of it, and nothing else."""
    build, place, fake = root / "fake_build", root / "place of others", root / "fake meson"
    (place / "bin").mkdir(parents=True)
    (place / "bin/other").touch()
    fake.write_text(FAKE_MESON)
    fake.chmod(0o755)

    def make(target, at, **more):
        return run("make", "-s", "-C", SOURCE, "-o", "build", target, f"MESON='{fake}'", f"BUILD={build}", f"DESTDIR={at}", **more)

    done = [make("install", place, MORE="lib/old/gone.so"), make("install", place)]
    check("make_installs_twice", all(code == 0 for code, _, _ in done) and (place / "lib/old/gone.so").exists(), done)
    (place / "share/ä b/__pycache__").mkdir()
    (place / "share/ä b/__pycache__/it.cpython-311.pyc").touch()
    run(fake, "install", "-C", build, "--destdir", root / "of a test")  # meson's log is now that of another place
    code, out, err = make("uninstall", "")
    left = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
    check("make_uninstall_leaves_only_what_others_have", code == 0 and left == ["bin", "bin/other"], (left, out, err))
    check("and_nothing_of_other_places_is_removed", (root / "of a test/bin/mtprof").exists())
    code, out, err = make("uninstall", "")
    check("then_there_is_nothing_to_uninstall", code != 0 and "nothing was installed" in out + err, out + err)


def main(build, meson, python, *given):
    itt_program, nvtx_program, opencl_program = [*(pathlib.Path(p).resolve() for p in given), None][:3]
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        code, out, err = run(*meson.split(), "install", "-C", build, "--no-rebuild", "--destdir", root / "a place", "--quiet")
        check("it_installs", code == 0, out + err)
        command = next((root / "a place").rglob("bin/mtprof"), None)
        library = next((root / "a place").rglob("libmtprof.so"), None)
        moved = root / "elsewhere"
        prefix = command.parent.parent
        prefix.rename(moved)
        command, lib = moved / "bin" / "mtprof", moved / library.parent.relative_to(prefix)
        code, out, err = run(command, "info")
        check("the_command_finds_its_library", code == 0 and "mtprof" in out, out + err)
        check_share(moved / "share")
        good, said = compiled(root, PROGRAM, "mtprof", lib / "pkgconfig", moved)
        check("a_program_compiles_with_pkg_config", good, said)
        code, out, err = run(root / "mtprof")
        check("and_runs", code == 0 and out, err)
        if (lib / "libmindtorch.so").exists():
            good, said = compiled(root, TENSORS, "mindtorch", lib / "pkgconfig", moved)
            check("so_does_one_with_tensors", good and run(root / "mindtorch")[0] == 0, said)
        programs = [("--itt", itt_program, ["tasks"]), ("--nvtx", nvtx_program, ["ranges"])]
        for name in ("libmtprof.so", "libmindtorch.so", "libmindtorch_opencl.so", "mtprof/libmtprof_opencl.so", "mtprof/libmtprof_itt.so"):
            if (lib / name).exists():
                code, out, err = run(sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(lib / name)!r})")
                check(f"{name.split('/')[-1]}_loads_from_where_it_is", code == 0, err)
        if opencl_program and (lib / "mtprof/libmtprof_opencl.so").exists() and run(opencl_program, "1")[0] != 77:
            trace = root / "trace.json"
            code, out, err = run(opencl_program, "10", OPENCL_LAYERS=str(lib / "mtprof/libmtprof_opencl.so"), MTPROF_OUT=str(trace))
            kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"] if trace.exists() else []
            check("the_opencl_layer_records", code == 0 and kernels, err)
            programs.append(("--opencl", opencl_program, ["10"]))
        check_python(root, command, python, lib)
        check_run(root, command, programs, python)
        check_other_library(root, moved, command, python, lib)
        check_info(root, moved)
        check_spaces(root, moved, python)
        check_places(root)
        check_uninstall(root)
    check_make()
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
