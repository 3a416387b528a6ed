#!/usr/bin/env python3
"""Unit: the public headers alone, and what -DMTP_DISABLE leaves at a call site: nothing.

usage: tests/unit/test_headers.py INCLUDE_DIR SHARED_LIB     speaks TAP
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

INCLUDE, LIB = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
LANGUAGES = {"c99": ("c", ".c"), "c11": ("c", ".c"), "c++11": ("c++", ".cpp"), "c++17": ("c++", ".cpp"), "c++20": ("c++", ".cpp")}
# That many projects have on, and that a macro of ours must not cause in their files
PICKY = {"c": ["-Wshadow", "-Wconversion"], "c++": ["-Wshadow", "-Wconversion", "-Wold-style-cast", "-fno-exceptions", "-fno-rtti"]}
ONLY_GCC = ["-Wuseless-cast"]
INLINE = {"c": ["-Wdeclaration-after-statement"], "c++": []}  # and the inline functions, which are in every file
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
results = []

# Every macro and inline call of mtprof.h. A line that ends in //- is what a program without the profiler would not
# have; {{...}} is the same inside a line. HAND makes the program that never heard of it.
CALLS = r"""
#include <mtprof.h> //-
void work(int);
int loop(int n);
int loop(int n)
{
    int sum = 0;
    {{MTP_SCOPE("outer")}} {
        for (int i = 0; i < n; i++) {
            {{MTP_SCOPE("inner")}} { work(i); }
            {{MTP_SCOPE_TEXT(i > 2 ? "many" : "few")}} { work(i); }
            mtp_mark(MTP_NAME("mark")); //-
            mtp_counter(MTP_NAME("counter"), i); //-
            mtp_memory_event(MTP_DEVICE_CPU, NULL, i, 4, 4); //-
            mtp_memory_tag(MTP_DEVICE_CPU, NULL, MTP_MEMORY_INPUT); //-
            mtp_memory_existing(MTP_DEVICE_CPU, NULL, 4, MTP_MEMORY_INPUT); //-
            mtp_device_clock(MTP_DEVICE_NPU(0), 1, 2, 3); //-
            mtp_scope_end(mtp_scope_begin(MTP_NAME("by id"))); //-
            mtp_scope_end(mtp_scope_begin_text("by text", 7)); //-
            if (mtp_recording() & MTP_WITH_SHAPES) work(-1); //-
            sum += i;
        }
    }
    return sum;
}
"""
# Variables of the program's own, which an optimizer takes away when nothing uses them.
MORE = r"""
#include <mtprof.h> //-
void work(int);
void ops(int n);
void ops(int n)
{
    mtp_token open = mtp_scope_begin(MTP_NAME("open")); //-
    mtp_op op = MTP_OP_INIT(MTP_NAME("op")); //-
    op.sequence = n; //-
    mtp_op_begin(&op); //-
    work(n);
    mtp_op_end(&op); //-
    mtp_device_work k = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0)); //-
    k.start = 1; //-
    mtp_device_event(&k); //-
    mtp_device device = MTP_DEVICE(1, k.device); //-
    if (MTP_DEVICE_TYPE(device) != MTP_DEVICE_INDEX(device) || MTP_SESSION(mtp_recording()) == 1) //-
        device = MTP_DEVICE(n, 0); //-
    mtp_pack pack; //-
    op.inputs = MTP_PACKED(&pack), op.device = device; //-
    mtp_scope_end(open); //-
}
"""


def profiled(source):
    return re.sub(r"\{\{(.*?)\}\}", r"\1", source).replace("//-", "")


def by_hand(source):
    lines = [line for line in source.splitlines() if not line.rstrip().endswith("//-")]
    return re.sub(r"\{\{.*?\}\}", "", "\n".join(lines)) + "\n"


def run(*command, stdin=None):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return done.returncode, done.stdout + done.stderr


def report(name, problem):
    number = len(results) + 1
    results.append(not problem)
    print(f"{'not ok' if problem else 'ok'} {number} - {name}")
    for line in (problem or "").strip().splitlines()[:20]:
        print(f"# {line}")


def compile_object(compiler, language, source, out, *flags):
    kind, suffix = LANGUAGES[language]
    path = out.with_suffix(suffix)
    path.write_text(source)
    return run(compiler, "-x", kind, f"-std={language}", f"-I{INCLUDE}", *WARNINGS, *flags, "-c", str(path),
               "-o", str(out))


def headers_compile_alone():
    for header in sorted(INCLUDE.glob("*.h")):
        for compiler in COMPILERS:
            for language, (kind, _) in LANGUAGES.items():
                for define in ("", "-DMTP_DISABLE"):
                    flags = ["-fsyntax-only", f"-I{INCLUDE}", *WARNINGS, *INLINE[kind]] + ([define] if define else [])
                    code, said = run(compiler, "-x", kind, f"-std={language}", *flags, "-",
                                     stdin=f"#include <{header.name}>\n#include <{header.name}>\n")
                    report(f"{header.name}_compiles_alone_as_{language}_with_{compiler}{define}", code and said)


def other_systems_need_no_library():
    """-ffreestanding: without the C library's headers, which are the host's."""
    others = {"big_endian": ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]}
    if platform.machine() == "x86_64":
        others["32_bits"] = ["-m32"]
    for compiler in COMPILERS:
        for name, flags in others.items():
            command = [compiler, "-x", "c", "-std=c11", "-ffreestanding", "-fsyntax-only", f"-I{INCLUDE}", *WARNINGS, *flags]
            code, said = run(*command, "-DMTP_DISABLE", "-", stdin=profiled(CALLS))
            report(f"{name}_compiles_every_call_away_with_{compiler}", code and said)
            code, said = run(*command, "-", stdin="#include <mtprof.h>\n")
            told = "libmtprof does not support 32-bit or big-endian systems: define MTP_DISABLE there" in said
            report(f"{name}_is_refused_without_that_with_{compiler}", "" if code and told else f"exit {code}\n{said}")


def every_call_compiles(folder):
    for compiler in COMPILERS:
        for language in LANGUAGES:
            for define in ("-UMTP_DISABLE", "-DMTP_DISABLE"):
                problem = ""
                for level in ("-O0", "-O2"):
                    for source in (CALLS, MORE):
                        kind = LANGUAGES[language][0]
                        more = ONLY_GCC if compiler == "gcc" and kind == "c++" else []
                        code, said = compile_object(compiler, language, profiled(source), folder / "all.o", level, define, *PICKY[kind], *more)
                        problem += said if code else ""
                report(f"every_call_compiles_without_a_warning_as_{language}_with_{compiler}{define}", problem)


def code_of(path):
    """Instructions of the object, without the file's name and addresses of symbols."""
    _, text = run("objdump", "-dr", "--no-show-raw-insn", str(path))
    return "\n".join(line for line in text.splitlines() if "file format" not in line)


# A name that is kept at its call site must be the same each time; the message says what to write instead.
OF_A_SITE = {"MTP_SCOPE(%s) { }": "MTP_SCOPE_TEXT", "(void)MTP_NAME(%s);": "mtp_name"}
RUN_TIME = ("names[i]", "names[i & 1] + 1", "given", "i ? given : \"a\"", "buffer")
CONSTANT = ('"a"', '"a" "b"', 'TEXT', '("in parentheses")')


def names_of_sites_are_literals(folder):
    frame = ("#include <mtprof.h>\n#define TEXT \"text\"\nint f(int i, const char *given);\nint f(int i, const char *given)\n{\n"
             "    static const char *const names[] = {\"a\", \"b\"};\n    char buffer[4] = \"abc\";\n    (void)names, (void)buffer, (void)given;\n"
             "    %s\n    return i;\n}\n")
    for compiler in COMPILERS:
        for language in LANGUAGES:
            problem = ""
            for site, instead in OF_A_SITE.items():
                for level in ("-O0", "-O2"):
                    for name in RUN_TIME:
                        code, said = compile_object(compiler, language, frame % (site % name), folder / "site.o", level)
                        if code == 0 or instead not in said:
                            problem += f"{site % name} at {level}: {'compiles' if code == 0 else said}\n"
                    for name in CONSTANT:
                        code, said = compile_object(compiler, language, frame % (site % name), folder / "site.o", level)
                        problem += said if code else ""
            report(f"names_of_call_sites_are_literals_as_{language}_with_{compiler}", problem)


# Leaving a scope by break does the same with the profiler and without.
BREAKS = r"""
#include <mtprof.h>
int main(void)
{
    int i;
    for (i = 0; i < 3; i++) {
        MTP_SCOPE("once") { if (i == 1) break; }
        MTP_SCOPE_TEXT("again") { if (i == 0) break; }
    }
    return i == 3 ? 0 : 1;
}
"""


def break_leaves_the_scope(folder):
    _, symbols = run("nm", "-D", str(LIB))
    for define in ("-UMTP_DISABLE", "-DMTP_DISABLE"):
        code, said = compile_object("gcc", "c11", BREAKS, folder / "breaks.o", define)
        if code == 0 and not re.search("__[atu]b?san_", symbols):
            code, said = run("gcc", str(folder / "breaks.o"), "-o", str(folder / "breaks"), str(LIB), f"-Wl,-rpath,{LIB.parent}")
            code, said = run(str(folder / "breaks")) if code == 0 else (code, said)
        report(f"break_leaves_the_scope_and_not_the_loop{define}", f"{code} {said}" if code else "")


def disabled_leaves_nothing(folder):
    for compiler in COMPILERS:
        for language in LANGUAGES:
            for level in ("-O0", "-O1", "-O2", "-Os"):
                problem = ""
                for source in (CALLS,) if level == "-O0" else (CALLS, MORE):
                    ours, hand = folder / "ours.o", folder / "hand.o"
                    for path, text in ((ours, profiled(source)), (hand, by_hand(source))):
                        code, said = compile_object(compiler, language, text, path, level, "-DMTP_DISABLE")
                        problem += said if code else ""
                    if problem:
                        break
                    _, undefined = run("nm", "-u", str(ours))
                    if "mtp" in undefined:
                        problem += f"undefined symbols: {undefined}"
                    _, defined = run("nm", "--defined-only", str(ours))
                    if "mtp" in defined:
                        problem += f"symbols of the profiler: {defined}"
                    if code_of(ours) != code_of(hand):
                        problem += f"code differs:\n{code_of(ours)}\n--- by hand:\n{code_of(hand)}"
                report(f"disabled_leaves_no_code_at_{level[1:]}_as_{language}_with_{compiler}", problem)


def enabled_leaves_some(folder):
    """The comparison itself can tell: with the profiler there is a difference."""
    ours, hand = folder / "ours.o", folder / "hand.o"
    compile_object("gcc", "c11", profiled(CALLS), ours, "-O2")
    compile_object("gcc", "c11", by_hand(CALLS), hand, "-O2")
    same = code_of(ours) == code_of(hand)
    _, undefined = run("nm", "-u", str(ours))
    report("enabled_code_is_seen_to_differ", "no difference was seen" if same or "mtp_" not in undefined else "")


def no_frame_of_ours_is_in_a_stack(folder):
    """Calls that are not optimised have no function of the header around them: with_stack would show it."""
    for compiler in ("gcc", "clang", "g++", "clang++"):
        language = "c++17" if "++" in compiler else "c11"
        out = folder / "plain.o"
        code, said = compile_object(compiler, language, profiled(CALLS), out, "-O0") if shutil.which(compiler) else (0, "")
        _, symbols = run("nm", "-C", str(out)) if code == 0 and out.exists() else (0, "")
        frames = [line for line in symbols.splitlines() if re.search(r" [tTW] mtp_", line)]
        report(f"calls_that_are_not_optimised_have_no_frame_of_their_own_with_{compiler}",
               said if code else "\n".join(frames))


# A scope is left by an exception too; the ledger knows both ends of each.
THROWS = r"""
#include <mtprof.h>
#include <stdexcept>
static void thrower(int depth)
{
    MTP_SCOPE("thrower") {
        if (depth == 0)
            throw std::runtime_error("out");
        thrower(depth - 1);
    }
}
int main()
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
        return 1;
    for (int i = 0; i < 100; i++) {
        try {
            thrower(9);
        } catch (const std::exception &) {
            continue;
        }
        return 2;
    }
    mtp_ledger ledger = MTP_LEDGER_INIT;
    if (mtp_profile_stop(prof) != MTP_OK || mtp_profile_ledger(prof, &ledger) != MTP_OK)
        return 3;
    mtp_profile_destroy(prof);
    return ledger.emitted == 2001 && ledger.kept == 2001 ? 0 : 4;
}
"""


def exceptions_end_scopes(folder):
    _, symbols = run("nm", "-D", str(LIB))
    for compiler in ("g++", "clang++"):
        name = f"exceptions_end_scopes_with_{compiler}"
        if not shutil.which(compiler) or re.search("__[atu]b?san_", symbols):
            results.append(True)
            print(f"ok {len(results)} - {name} # SKIP no {compiler}, or a library with a sanitizer in it")
            continue
        (folder / "throws.cpp").write_text(THROWS)
        code, said = run(compiler, "-std=c++17", *WARNINGS, "-O1", f"-I{INCLUDE}", str(folder / "throws.cpp"),
                         "-o", str(folder / "throws"), str(LIB), f"-Wl,-rpath,{LIB.parent}")
        if code == 0:
            code, said = run(str(folder / "throws"))
            said = f"exit status {code}\n{said}"
        report(name, said if code else "")


def library_exports_only_its_names():
    _, said = run("nm", "-D", "--defined-only", str(LIB))
    # The linker's own, a sanitizer's, and where gcc puts versions
    foreign = [line for line in said.splitlines() if line.split()[-1].split("@")[0][:4] != "mtp_"
               and not re.search(r" (MTPROF_[0-9.]+|_init|_fini|_edata|_end|__bss_start|.*[tau]san.*|__odr_asan.*|.*ubsan.*)$", line)]
    report("the_library_exports_only_its_own_names", "\n".join(foreign))
    header = "\n".join(p.read_text() for p in INCLUDE.glob("*.h"))
    declared = set(re.findall(r"\b(mtp_\w+)\s*\(", header)) | set(re.findall(r"MTP_API extern \w+ (mtp_\w+);", header))
    exported = {line.split()[-1].split("@")[0] for line in said.splitlines()}
    unknown = sorted(name for name in exported if name.startswith("mtp_") and name not in declared)
    report("the_library_exports_only_what_a_header_declares", "\n".join(unknown))


def main():
    with tempfile.TemporaryDirectory(prefix="mtprof-headers-") as folder:
        folder = pathlib.Path(folder)
        headers_compile_alone()
        other_systems_need_no_library()
        every_call_compiles(folder)
        names_of_sites_are_literals(folder)
        break_leaves_the_scope(folder)
        disabled_leaves_nothing(folder)
        enabled_leaves_some(folder)
        no_frame_of_ours_is_in_a_stack(folder)
        exceptions_end_scopes(folder)
        library_exports_only_its_names()
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
