#!/usr/bin/env python3
"""Unit: the project as others build it: as a subproject, out of tree, in a virtual environment.

usage: tests/unit/test_build.py SOURCE     speaks TAP
"""
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(sys.argv[1]).resolve()
MESON = ["meson"] if shutil.which("meson") else [sys.executable, "-m", "mesonbuild.mesonmain"]
results = []

PARENT = """
project('parent', 'c')
mtprof = dependency('mtprof', fallback: 'mtprof')
executable('uses', 'uses.c', dependencies: mtprof)
"""
USES = """
#include <mtprof.h>
int main(void)
{
    MTP_SCOPE("parent") (void)mtp_version();
    return 0;
}
"""


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("# " + str(more).replace("\n", "\n# ")[:4000])
    return bool(good)


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=590, **more)
    return done.returncode, done.stdout


def state_of_source():
    """What a build might have written there."""
    folders = [SOURCE] + [SOURCE / name for name in ("src", "include", "tools")]
    files = [f for folder in folders for f in (folder.rglob("*") if folder != SOURCE else folder.glob("*")) if "__pycache__" not in f.parts]
    return {f: f.stat().st_mtime_ns for f in files if f.is_file()}


def targets(build):
    _, out = run(*MESON, "introspect", "--targets", build)
    return {target["name"] for target in json.loads(out)}


def setup(build, *options, source=SOURCE, **more):
    return run(*MESON, "setup", build, source, "-Dbuildtype=debug", "-Dwarning_level=0", *options, **more)


def as_a_subproject(root):
    parent = root / "parent"
    (parent / "subprojects").mkdir(parents=True)
    (parent / "subprojects" / "mtprof").symlink_to(SOURCE)
    (parent / "meson.build").write_text(PARENT)
    (parent / "uses.c").write_text(USES)
    code, said = setup(root / "sub", "-Dmtprof:runtime=disabled", source=parent)
    if not check("a_project_takes_it_as_a_subproject", code == 0, said):
        return
    names = targets(root / "sub")
    extra = {n for n in names if n.startswith(("test_", "bench_", "mindtorch", "_C", "_native")) or n in ("mlp", "train")}
    check("without_runtime_python_tests_bench_and_examples", "uses" in names and not extra, extra)
    code, said = run("ninja", "-C", root / "sub", "uses")
    check("and_builds_with_it", code == 0, said[-3000:])
    code, said = run(root / "sub" / "uses")
    check("and_runs", code == 0, said)


def out_of_tree(root):
    before = state_of_source()
    build = root / "out of tree"
    code, said = setup(build, "-Druntime=disabled", "-Dtests=disabled", "-Dbench=disabled", "-Dexamples=disabled", "--bindir=libexec/of/mtprof",
                       "--libdir=lib64")
    if not check("it_is_configured_out_of_tree", code == 0, said):
        return
    check("options_leave_parts_out", not [n for n in targets(build) if n.startswith(("test_", "bench_", "mindtorch", "_C"))], targets(build))
    code, said = run("ninja", "-C", build)
    check("it_builds_out_of_tree", code == 0, said[-3000:])
    changed = {str(f) for f, when in state_of_source().items() if before.get(f) != when}
    check("and_writes_nothing_into_the_checkout", not changed, changed)
    if any(n.startswith("_native") for n in targets(build)):
        code, said = run("python3", "-c", "import mtprof; print(mtprof.__file__)", env={**os.environ, "PYTHONPATH": str(build / "python")})
        check("python_finds_it_in_the_build_folder", code == 0 and str(build) in said, said)
        code, said = run("python3", "-c", "import runpy; print(runpy.run_path('mtprof/pytorch/collector.py')['_sources']())",  # without torch
                         cwd=build / "python")
        check("and_the_sources_of_pytorch_s_collector", code == 0, said)
    code, said = run(*MESON, "install", "-C", build, "--no-rebuild", "--destdir", root / "there")
    command = next((root / "there").rglob("libexec/of/mtprof/mtprof"), "false")
    code, said = run(command, "info") if code == 0 else (code, said)
    check("the_command_finds_its_files_from_any_bindir", code == 0 and "mtprof run        scopes" in said, said)


def in_an_environment(root):
    code, said = run("python3", "-m", "venv", "--without-pip", root / "venv")
    if code != 0:
        results.append(True)
        print(f"ok {len(results)} - the_active_python_is_built_for # SKIP python3 -m venv: {said.splitlines()[-1] if said else ''}")
        return
    env = {**os.environ, "PATH": f"{root / 'venv' / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(root / "venv")}
    # meson itself is another python's
    code, said = setup(root / "in venv", "-Druntime=disabled", "-Dtests=disabled", "-Dbench=disabled", env=env)
    chosen = root / "in venv" / "src" / "python" / "python_path"
    chosen = chosen.read_text().splitlines()[0] if chosen.exists() else "none"
    check("the_active_python_is_built_for", code == 0 and chosen == str(root / "venv" / "bin" / "python3"), chosen + "\n" + said)
    # an interpreter that says that it is free-threaded
    next(root.glob("venv/lib/python3*/site-packages")).joinpath("free.pth").write_text("import sys, sysconfig; sysconfig.get_config_vars(); sys.abiflags = 't'\n")
    less = ["-Druntime=disabled", "-Dtests=disabled", "-Dbench=disabled"]
    code, said = setup(root / "free", *less, "-Dpython=enabled", env=env)
    check("a_free_threaded_python_is_refused", code != 0 and "needs a Python with the GIL, and this one is free-threaded" in said, said)
    code, said = setup(root / "without", *less, env=env)
    check("or_left_out_and_told", code == 0 and "free-threaded, which mtprof does not support: the Python packages are not built" in said, said)
    (root / "mtprof").mkdir()
    for name in ("__init__.py", "_built.py"):
        shutil.copy(SOURCE / "src" / "mtprof" / name, root / "mtprof")
    code, said = run(root / "venv" / "bin" / "python3", "-c", "import mtprof", env={**env, "PYTHONPATH": str(root)})
    check("and_told_by_import", code == 1 and "ImportError: mtprof does not support free-threaded Python" in said, said)
    with zipfile.ZipFile(root / "mtprof.whl", "w") as wheel:
        for name in ("__init__.py", "_built.py"):
            wheel.write(root / "mtprof" / name, f"mtprof/{name}")
    code, said = run("python3", "-c", "import mtprof", env={**os.environ, "PYTHONPATH": str(root / "mtprof.whl")})
    check("from_a_zip_it_is_an_import_error", code == 1 and "ImportError: mtprof._native cannot be loaded from a zip" in said, said)
    (root / "mtprof/lib").mkdir()  # a wheel's, imported by an interpreter that has a GIL of its own
    (root / "mtprof/_native.py").write_text("raise ImportError('module mtprof._native does not support loading in subinterpreters')\n")
    code, said = run("python3", "-c", "import mtprof", env={**os.environ, "PYTHONPATH": str(root)})
    check("of_a_subinterpreter_it_is_not_said_that_files_are_damaged", code == 1 and said.endswith("with a GIL of their own\n") and "damaged" not in said, said)


def by_an_older_meson(root):
    """Debian 12 has the oldest that we take: newer ones tell what that one refuses."""
    code, said = setup(root / "all", "-Dtests=enabled", "-Dbench=enabled", "-Dexamples=enabled")
    check("nothing_newer_than_our_meson_version_is_used", code == 0 and "features which were added in newer versions" not in said, said)


# What stands for a system that is not supported: the compiler's arguments, and what configure must say.
REFUSED = {
    "32_bits_are_refused": (["-m32"], "linux", "does not support 32-bit systems"),
    "big_endian_is_refused": (["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"], "linux", "does not support big-endian systems"),
    "musl_is_refused": (["-isystem", "{root}/musl"], "linux", "does not support C libraries other than glibc: musl cannot"),
    "other_systems_are_refused": ([], "freebsd", "does not support freebsd: it records through interfaces of Linux"),
}


def elsewhere(root):
    (root / "musl").mkdir()
    (root / "musl" / "features.h").write_text("")  # musl's defines nothing that tells it
    for name, (arguments, system, expected) in REFUSED.items():
        if "-m32" in arguments and platform.machine() != "x86_64":
            continue
        words = ", ".join(f"'{word.format(root=root)}'" for word in ["gcc", *arguments])
        (root / "cross.ini").write_text(f"[binaries]\nc = [{words}]\npkg-config = 'false'\n[properties]\nskip_sanity_check = true\n[host_machine]\n"
                                        f"system = '{system}'\ncpu_family = 'x86_64'\ncpu = 'x86_64'\nendian = 'little'\n")
        code, said = setup(root / name, "--cross-file", root / "cross.ini")
        check(name + "_in_a_sentence", code != 0 and expected in said and "compile with -DMTP_DISABLE" in said, said)


def main():
    os.environ.pop("DESTDIR", None)
    with tempfile.TemporaryDirectory(prefix="mtprof-build-") as folder:
        root = pathlib.Path(folder).resolve()
        as_a_subproject(root)
        out_of_tree(root)
        by_an_older_meson(root)
        elsewhere(root)
        in_an_environment(root)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
