"""The help texts of the command, read into blocks and options. tools/make_man and tools/make_completion are made of them.

A text consists of paragraphs, of lists of rows ("  TERM  meaning", continued on lines that are indented further), and of
examples ("  mtprof ..."). A row whose term begins with a dash describes options.
"""
import collections
import pathlib
import re
import subprocess

Option = collections.namedtuple("Option", "short long value meaning")      # "-o", "--output", "OUT", "..."; "" where there is none
Block = collections.namedtuple("Block", "kind content")    # "text": a string; "rows": [(term, meaning)]; "examples": lines
ROW = re.compile(r" {2,6}(\S.*?)(?: {2,}(\S.*))?$")
EXAMPLE = "  mtprof "
NEW_LINE = "\n"
OWN_WORDS = {"--help": "print a summary of the options", "--version": "print the version"}


class Help:
    """What the command says of itself or of one verb."""

    def __init__(self, text):
        head, _, rest = text.partition("\n\n")
        self.usage = [line.strip() for line in head.removeprefix("usage:").splitlines()]
        self.blocks = blocks_of(rest)

    def options(self):
        return [option for block in self.blocks if block.kind == "rows" for term, meaning in block.content if term.startswith("-")
                for option in options_of(term, meaning)]

    def operands(self):
        """What is given besides options, as in the usage: ["BEFORE", "AFTER"]."""
        words = re.sub(r"--?[a-z][\w-]* [A-Z]\S*", "", self.usage[0])
        return [word for word in re.findall(r"\b[A-Z]{2,}\b", words) if word != "VERB"]


def blocks_of(text):
    blocks = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        if not part.strip():
            continue
        if not part.startswith("  "):
            blocks.append(Block("text", " ".join(line.strip() for line in lines)))
        elif part.startswith(EXAMPLE):
            blocks.append(Block("examples", [line.removeprefix("  ") for line in lines]))
        else:
            blocks.append(Block("rows", rows_of(lines)))
    return blocks


def rows_of(lines):
    rows = []
    for line in lines:
        row = ROW.match(line)
        if row and (row[2] or not rows or row[1].startswith("-")):
            rows.append((row[1], row[2] or ""))
        else:
            term, meaning = rows[-1]
            inner = re.sub(r"(?<=\S) {2,}", ": ", line.strip())     # a row in a row is a line of its own
            rows[-1] = (term, f"{meaning}{' ' if inner == line.strip() else NEW_LINE}{inner}".strip())
    return [(full_term(term), meaning or OWN_WORDS.get(term.split(", ")[-1], "")) for term, meaning in rows]


def full_term(term):
    """"--itt, --nvtx, and --no-itt ...": each of them has its opposite."""
    first, found, opposite = term.partition(", and --no-")
    return first + "".join(", --no-" + name.removeprefix("--") for name in first.split(", ")) if found and opposite.endswith(" ...") else term


def options_of(term, meaning):
    """The options of a row: "-o, --output OUT" is one, "--json, --csv" are two."""
    found, short = [], ""
    for part in term.split(", "):
        name, _, value = part.partition(" ")
        if name.startswith("--"):
            found.append(Option(short, name, value, meaning))
            short = ""
        elif value:
            found.append(Option(name, "", value, meaning))
        else:
            short = name
    return found + ([Option(short, "", "", meaning)] if short else [])


def verbs_of(text):
    """{verb: summary} of `mtprof --help`, in its order."""
    return dict(re.findall(r"^  ([a-z]+) +(\S.*)$", text, re.M))


def read(source):
    """(version, Help of the command, {verb: summary}, {verb: Help}). source: the command, or a folder with what it said in
    version.help, mtprof.help and VERB.help."""
    source = pathlib.Path(source)

    def said(name, *words):
        if source.is_dir():
            return (source / f"{name}.help").read_text()
        return subprocess.run([source.resolve(), *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    text = said("mtprof", "--help")
    summaries = verbs_of(text)
    return said("version", "--version").split()[1], Help(text), summaries, {verb: Help(said(verb, verb, "--help")) for verb in summaries}
