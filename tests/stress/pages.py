#!/usr/bin/env python3
"""Hostile names in generated HTML pages: usage: tests/stress/pages.py NAMES (PYTHONPATH: the packages)

Whatever names it contains, a page has no tags but its own: names execute nothing and load nothing. MTP_TEST_SEED repeats a run.
"""
import html.parser
import os
import pathlib
import random
import sys
import tempfile
import time

PIECES = ["<script>alert(1)</script>", "</script>", "<!--", "-->", "<img src=x onerror=alert(1)>", "\"", "'", "&amp;", "&lt;", "\\", "\n",
          "\x1b[31m", "\x00", "\u2028", "\ud800", "\u202e", "%s", "../", "]]>", "</title>", "</style>", "javascript:", "a", "aten::mm", " ",
          "\U0001f600", "</td></tr></table>", "{{x}}", "\x7f", "\x9b"]


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.bad = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.bad += [(tag, name, value) for name, value in attrs if name.startswith("on") or name in ("src", "href") and value]

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    tags = Tags()
    tags.feed(page)
    tags.close()
    return tags


def main(count):
    import warnings
    import mindtorch_v2 as torch
    from mindtorch_v2.profiler import profile, record_function
    from mindtorch_v2.profiler._memory_profiler import MemoryProfileTimeline
    warnings.simplefilter("ignore")
    seed = int(os.environ.get("MTP_TEST_SEED") or time.time_ns() % 10 ** 9)
    print(f"MTP_TEST_SEED={seed}", file=sys.stderr)
    chance, shape, names = random.Random(seed), None, 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(max(1, count // 20)):
            some = ["".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(20)]
            names += len(some)
            with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
                for name in some:
                    with record_function(name.encode("utf-8", "replace").decode()):
                        torch.ones(8)
            table = prof.key_averages()._repr_html_()
            tags = read(table)
            assert set(tags.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "div", "p", "span", "style", "caption"}, set(tags.tags)
            assert not tags.bad, tags.bad
            path = pathlib.Path(folder, "page.html")
            prof.export_memory_timeline(str(path), "cpu")
            tags = read(path.read_text(encoding="utf-8"))
            assert not tags.bad, tags.bad
            shape = shape or sorted(set(tags.tags))
            assert sorted(set(tags.tags)) == shape, (sorted(set(tags.tags)), shape)
            title = "".join(chance.choices(PIECES, k=4)).encode("utf-8", "replace").decode()
            MemoryProfileTimeline(prof._memory_profile()).export_memory_timeline_html(str(path), "cpu", title=title)
            tags = read(path.read_text(encoding="utf-8"))
            assert not tags.bad and sorted(set(tags.tags)) == shape, (title, tags.bad)
    print(f"row 16: {names} runs: names, no tags but the page's own", file=sys.stderr)
    print("1..1\nok 1 - html_with_hostile_names")


if __name__ == "__main__":
    main(int(sys.argv[1]))
