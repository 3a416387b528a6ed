#!/usr/bin/env python3
"""Unit: tools/abi notices what breaks programs, and nothing else; the libraries are as their listings say.

usage: tests/unit/test_abi_listing.py SOURCE BUILD     speaks TAP
"""
import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("abi", str(SOURCE / "tools" / "abi"))
abi = importlib.util.module_from_spec(importlib.util.spec_from_loader("abi", loader))
loader.exec_module(abi)
results = []

HEADER = """
#include <stddef.h>
#include <stdint.h>
typedef enum mtp_kind { MTP_FIRST = 1, MTP_SECOND } mtp_kind;
typedef struct mtp_options { size_t size; int32_t width; int32_t height; mtp_kind kind; int64_t limit; } mtp_options;
typedef struct mtp_pair { int32_t a; int32_t b; } mtp_pair;
typedef struct mtp_line { const char *text; uint64_t count; } mtp_line;
typedef struct mtp_thing mtp_thing;
typedef void mtp_found_fn(void *user, const mtp_pair *pair);
extern int32_t mtp_state;
int mtp_open(const char *path, const mtp_options *options, mtp_thing **out);
const mtp_line *mtp_line_at(const mtp_thing *thing, size_t i);
void mtp_each(const mtp_thing *thing, mtp_found_fn *found, void *user);
void mtp_close(mtp_thing *thing);
"""
CODE = """
struct mtp_thing { int x; };
int32_t mtp_state;
int mtp_open(const char *path, const mtp_options *options, mtp_thing **out) { return path && options && out; }
const mtp_line *mtp_line_at(const mtp_thing *thing, size_t i) { return (void)thing, (void)i, NULL; }
void mtp_each(const mtp_thing *thing, mtp_found_fn *found, void *user) { found(user, NULL); }
void mtp_close(mtp_thing *thing) { thing->x = 0; }
"""
# What is replaced in header and code, and by what
BREAKS = {
    "a_function_that_is_gone": ("void mtp_close(", "__attribute__((visibility(\"hidden\"))) void mtp_close("),
    "a_variable_of_another_type": ("int32_t mtp_state", "int64_t mtp_state"),
    "a_parameter_more": ("mtp_line_at(const mtp_thing *thing, size_t i)", "mtp_line_at(const mtp_thing *thing, size_t i, int more)"),
    "a_parameter_of_another_type": ("size_t i)", "uint32_t i)"),
    "another_result": ("const mtp_line *mtp_line_at", "mtp_line *mtp_line_at"),
    "a_callback_of_another_signature": ("(void *user, const mtp_pair *pair)", "(void *user, mtp_pair *pair)"),
    "members_that_changed_places": ("int32_t width; int32_t height;", "int32_t height; int32_t width;"),
    "a_member_of_another_type": ("int32_t width;", "uint32_t width;"),
    "a_member_that_is_gone": (" int64_t limit;", ""),
    "a_member_in_the_middle": ("int32_t width;", "int32_t width; int64_t depth;"),
    "a_member_in_what_was_padding": ("mtp_kind kind;", "mtp_kind kind; int32_t more;"),
    "a_longer_struct_without_a_size": ("int32_t b;", "int32_t b; int32_t c;"),
    "another_enumerator_before": ("MTP_FIRST = 1,", "MTP_FIRST = 1, MTP_NEW,"),
    "an_enumerator_that_is_gone": (", MTP_SECOND", ""),
}
FITS = {
    "nothing": ("", ""),
    "another_function": ("int mtp_open(", "MORE int mtp_open("),
    "another_member_at_the_end": ("int64_t limit;", "int64_t limit; double more;"),
    "a_longer_row": ("uint64_t count;", "uint64_t count; uint64_t more;"),
    "another_enumerator_at_the_end": ("MTP_SECOND", "MTP_SECOND, MTP_THIRD"),
    "names_of_parameters": ("*thing, mtp_found_fn", "*one, mtp_found_fn"),
    "a_private_struct": ("{ int x; }", "{ long more; int x; }"),
}


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("# " + str(more).replace("\n", "\n# ")[:4000])


def listing_of(folder, change=("", "")):
    (folder / "include").mkdir(exist_ok=True)
    header, code = (text.replace(*change) if change[0] else text for text in (HEADER, CODE))
    header, code = header.replace("MORE", "void mtp_more(void);"), code.replace("MORE", "void mtp_more(void) {}")
    (folder / "include" / "small.h").write_text(header)
    (folder / "small.c").write_text('#include "include/small.h"\n' + code)
    subprocess.run(["cc", "-shared", "-fPIC", folder / "small.c", "-o", folder / "libsmall.so"], check=True)
    return abi.listing(folder / "libsmall.so", ["small.h"], folder / "include")


def main():
    if not shutil.which("abidw"):
        print("1..0 # SKIP abidw is missing (Debian: abigail-tools)")
        return 0
    with tempfile.TemporaryDirectory(prefix="mtprof-abi-") as folder:
        folder = pathlib.Path(folder).resolve()
        first = listing_of(folder)
        check("no_path_is_in_a_listing", str(folder) not in "\n".join(first), first)
        for name, change in BREAKS.items():
            broken, _ = abi.compare(first, listing_of(folder, change))
            check(f"{name}_breaks_programs", broken, listing_of(folder, change))
        for name, change in FITS.items():
            broken, added = abi.compare(first, listing_of(folder, change))
            check(f"{name}_breaks_none", not broken and (added or name in ("nothing", "names_of_parameters", "a_private_struct")), (broken, added))
    done = subprocess.run([SOURCE / "tools" / "abi", "--build", BUILD], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check("the_libraries_are_as_the_listings_say", done.returncode == 0, done.stdout)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
