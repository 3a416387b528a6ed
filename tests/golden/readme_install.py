#!/usr/bin/env python3
"""Golden: the README's lines for users of C and of Debian do what they say, one after another as they are there.
tests/unit/test_wheel.py runs those for users of Python.

usage: tests/golden/readme_install.py SOURCE     speaks TAP

Home is a temporary folder. The packages are installed into a layer above this machine's files, which is gone afterwards
(overlayfs, in a namespace): that needs root, and Debian's tools for packages. They are those of the last commit.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(SOURCE / "tests" / "unit"))
from programs import check, finish, said, skip  # noqa: E402

TEXT = (SOURCE / "README.md").read_text()
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(engine C)
find_package(mtprof REQUIRED)
add_executable(engine engine.c)
target_link_libraries(engine PRIVATE mtprof::mtprof)
"""
MESON = """project('engine', 'c', default_options: ['c_std=c11'])
executable('engine', 'engine.c', dependencies: dependency('mtprof'))
"""
# The least that is worth installing: libmtprof and the command, quickly
ARGUMENTS = "-Dbuildtype=debug -Dtests=disabled -Dbench=disabled -Dexamples=disabled -Druntime=disabled -Dpython=disabled"
# Lines, and what a reader does next; its output must have the text.
NEXT = {"cc": ("./a.out", "aten::mm"), "cmake": ("cmake --build build && build/engine", "aten::mm"),
        "meson": ("meson compile -C build && build/engine", "aten::mm")}
# $1: a folder for the layer, $2: the folder to be in, $3: a script
IN_LAYER = """mount -t tmpfs tmpfs "$1" && mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" overlay "$1/root"
mount -t proc proc "$1/root/proc" && mount --rbind /dev "$1/root/dev" && mount --bind "$2" "$1/root$2"
exec chroot "$1/root" sh "$3"
"""


def lines_of(first):
    """The block of the section that begins with this."""
    section = TEXT.partition("\n## Install\n")[2].partition("\n## ")[0]
    block = next((code for code in re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S) if code.startswith(first)), "")
    return block.splitlines()


def name_of(line):
    return "readme_" + re.sub(r"\s+", "_", line.partition("  #")[0].strip())


def project(folder):
    """A program of the reader's: the README's own."""
    folder.mkdir()
    (folder / "engine.c").write_text(re.search(r"^```c\n(.*?)^```$", TEXT, re.M | re.S)[1])
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "meson.build").write_text(MESON)
    return folder


def run(*command, cwd, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MTPROF", "MAKE", "MFLAGS", "PYTHONPATH", "LD_", "PKG_", "DESTDIR", "NINJA", "CFLAGS"))}
    return subprocess.run([str(word) for word in command], cwd=cwd, env={**kept, **more}, capture_output=True, text=True, timeout=600)


# ------------------------------------------------------------------------------------------------------- C and C++


def check_c(root):
    lines, exports = lines_of("make install"), ""
    home = root / "home"
    home.mkdir()
    flags = f"BUILD={root / 'build'} MESON_ARGS={ARGUMENTS}".replace(" -D", "\\ -D")
    for number, line in enumerate(lines):
        tool = line.split()[0]
        if tool == "export":
            exports += f"{line}\n"
        if tool == "cmake" and not shutil.which("cmake"):
            skip(name_of(line), "CMake is not installed")
            continue
        more, wanted = NEXT.get(tool, ("true", ""))
        done = run("sh", "-euc", f"{exports}{line}\n{more}", cwd=SOURCE if tool == "make" else project(root / f"project{number}"), HOME=str(home),
                   MAKEFLAGS=flags, CCACHE_DISABLE="1")  # else a compiler cache is left in home
        check(name_of(line), done.returncode == 0 and wanted in done.stdout, said(done)[-3000:])
        if line.startswith("make install"):
            place = home / "mtprof"
            check("it_is_all_in_the_prefix", all((place / name).exists() for name in ("bin/mtprof", "lib/libmtprof.so", "lib/pkgconfig/mtprof.pc",
                                                                                       "include/mtprof.h")), list(place.rglob("*")))
    left = [path for path in home.rglob("*") if not path.is_dir()]
    check("nothing_is_left", not left, left)
    check("the_readme_has_lines_for_c", len(lines) >= 5, lines)


# ---------------------------------------------------------------------------------------------------------- Debian


def cannot_package():
    """Why not, or None."""
    if not shutil.which("apt-get"):
        return "this is not a Debian system"
    if os.geteuid() != 0:
        return "installing packages needs root"
    missing = [tool for tool in ("dpkg-buildpackage", "dh", "dh_python3", "fakeroot", "lintian", "man") if not shutil.which(tool)]
    if missing or run("dpkg-checkbuilddeps", cwd=SOURCE).returncode != 0:
        return f"what builds packages is not installed (tools/setup deb): {' '.join(missing) or 'dpkg-checkbuilddeps'}"
    if not (SOURCE / ".git").exists():
        return "this is not a git checkout"
    return None


def in_layer(root, work, code):
    (work / "script.sh").write_text(code)
    return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "sh", "-euc", IN_LAYER, "sh", root / "layer", work, work / "script.sh",
               cwd=work, PATH=f"{work}/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")


def check_debian(root):
    lines = lines_of("make deb")
    check("the_readme_has_lines_for_debian", len(lines) >= 5 and "apt-get install" in lines[1], lines)
    why = cannot_package()
    if why:
        return skip("readme_make_deb", why)
    work = project(root / "debian")
    (root / "layer").mkdir()
    (work / "bin").mkdir()
    (work / "bin" / "sudo").write_text('#!/bin/sh\nexec "$@"\n')  # root already
    (work / "bin" / "sudo").chmod(0o755)
    done = in_layer(root, work, "exec apt-get check")
    if done.returncode != 0:
        return skip("readme_make_deb", f"no layer above the root, or apt is not in order: {(said(done).strip().splitlines() or [''])[-1]}")
    done = run("sh", "-euc", lines[0], cwd=SOURCE, MAKEFLAGS=f"BUILD={work / 'build'}", TMPDIR=str(root), DEB_BUILD_OPTIONS="noopt")  # faster
    check(name_of(lines[0]), done.returncode == 0, said(done)[-3000:])
    code = f'cd "{work}"\necho \'APT::Get::Assume-Yes "1"; APT::Sandbox::User "root"; Dpkg::Use-Pty "0";\' >apt.conf\nexport APT_CONFIG="{work}/apt.conf"\n'
    for number, line in enumerate(lines[1:]):
        more, _ = NEXT.get(line.split()[0], ("true", ""))
        code += f"{{ {line.partition('  #')[0]} && {more}; }} >said{number} 2>&1; echo $? >code{number}\n"
    done = in_layer(root, work, code + 'dpkg-query -W -f \'${Package} ${Status}\\n\' "*mtprof*" >left 2>/dev/null\nexit 0\n')
    check("the_layer_is_entered", done.returncode == 0, said(done))
    wanted = {"mtprof": "print", "man": "mtprof run", "cc": "aten::mm"}
    for number, line in enumerate(lines[1:]):
        files = work / f"code{number}", work / f"said{number}"
        codes, told = (path.read_text() if path.exists() else "" for path in files)
        check(name_of(line), codes == "0\n" and wanted.get(line.split()[0], "") in told, f"{codes}{told[-3000:]}")
    left = [one for one in (work / "left").read_text().splitlines() if one.endswith(" installed")]
    check("none_of_them_is_left", not left, left)
    return None


def main():
    with tempfile.TemporaryDirectory(prefix="mtprof-readme-") as temporary:
        root = pathlib.Path(temporary).resolve()
        root.chmod(0o755)
        check_c(root)
        check_debian(root)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
