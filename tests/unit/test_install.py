#!/usr/bin/env python3
"""Unit: what `meson install` leaves works from any folder: the command, a program linked with it, the OpenCL layer.

usage: tests/unit/test_install.py BUILD MESON [OPENCL_PROGRAM]     speaks TAP
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
results = []
PROGRAM = """
#include <mtprof.h>
#include <stdio.h>
int main(void)
{
    MTP_SCOPE("installed") puts(mtp_version());
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


def run(*command, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "DESTDIR")}
    done = subprocess.run([str(c) for c in command], env={**clean, **env}, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def compiled(folder, text, package, pc, prefix):
    (folder / "program.c").write_text(text)
    code, flags, said = run("pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", package, PKG_CONFIG_PATH=str(pc), LC_ALL="C")
    if code == 0:
        code, _, said = run(*os.environ.get("CC", "cc").split(), folder / "program.c", "-o", folder / package, *flags.split(), LC_ALL="C")
    return code == 0, said


def check_make():
    """What `make install` hands to meson, which is a printf here."""
    code, out, err = run("make", "-s", "-C", SOURCE, "-o", "build", "install", "MESON=printf '[%s]'", "PREFIX=/a place/ä", "DESTDIR=b c")
    check("make_install_takes_folders_with_spaces", code == 0 and "[-Dprefix=/a place/ä]" in out and f"[{SOURCE}/b c]" in out, out + err)


def main(build, meson, opencl_program=None):
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
        good, said = compiled(root, PROGRAM, "mtprof", lib / "pkgconfig", moved)
        check("a_program_compiles_with_pkg_config", good, said)
        code, out, err = run(root / "mtprof", LD_LIBRARY_PATH=str(lib))
        check("and_runs", code == 0 and out, err)
        if (lib / "libmindtorch.so").exists():
            good, said = compiled(root, TENSORS, "mindtorch", lib / "pkgconfig", moved)
            check("so_does_one_with_tensors", good and run(root / "mindtorch", LD_LIBRARY_PATH=str(lib))[0] == 0, said)
        for name in ("libmtprof.so", "libmindtorch.so", "libmindtorch_opencl.so", "libmtprof_opencl.so"):
            if (lib / name).exists():
                code, out, err = run(sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(lib / name)!r})")
                check(f"{name}_loads_from_where_it_is", code == 0, err)
        if opencl_program and (lib / "libmtprof_opencl.so").exists() and run(opencl_program, "1")[0] != 77:
            trace = root / "trace.json"
            code, out, err = run(opencl_program, "10", OPENCL_LAYERS=str(lib / "libmtprof_opencl.so"), MTPROF_OUT=str(trace))
            kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"] if trace.exists() else []
            check("the_opencl_layer_records", code == 0 and kernels, err)
    check_make()
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
