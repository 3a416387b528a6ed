#!/usr/bin/env python3
"""Reports in headless Chromium: every page is opened, clicked, searched. usage: tests/browser/report.py MTPROF ROOT [SHOTS]

Skipped where there is no Chromium. ROOT: the source tree. SHOTS: a folder for pictures of the pages, to be looked at.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import chromium
from report_base import GOLDEN, MTPROF, ROOT, check, end, open_tab, painted, report, settle, shoot, visible

PAGES = ["overview", "timeline", "operators", "flame", "modules", "memory", "about"]


def every_page(browser, name, address, pages, **how):
    page = browser.open(address, **how)
    for tab in pages:
        open_tab(page, tab)
        wide = page.run("document.documentElement.scrollWidth - innerWidth")
        check(f"{name}: {tab} shows something, and does not scroll sideways", visible(page, tab) > 0 and wide <= 0, (visible(page, tab), wide))
        shoot(page, f"{name}-{tab}")
    check(f"{name}: no error, request or violation", page.troubles() == [], "\n".join(page.troubles()))
    return page


def figures(page, trace):
    """The Operators page against `mtprof stats --json`."""
    open_tab(page, "operators")
    rows = page.run("""[...document.querySelectorAll("#operators tbody tr")].map((row) => [row.dataset.key, ...[...row.querySelectorAll("td[data-value]")].map((cell) => Number(cell.dataset.value))])""")
    heads = page.run("""[...document.querySelectorAll("#operators thead th")].slice(1).map((head) => head.textContent)""")
    keys = {"Self CPU": "self_cpu_time_total", "CPU total": "cpu_time_total", "CPU mean": "cpu_time", "Self device": "self_device_time_total", "Device total": "device_time_total", "Calls": "count", "Min": "min",
            "Median": "p50", "p99": "p99", "Max": "max", "Self CPU mem": "self_cpu_memory_usage", "Self device mem": "self_device_memory_usage", "FLOPs": "flops"}
    stats = json.loads(subprocess.run([MTPROF, "stats", "--json", trace], capture_output=True, check=True).stdout)
    expected = sorted([row["key"], *[row[keys[head.strip(" \u25be\u25b4")]] for head in heads]] for row in stats)
    check("every figure of Operators is that of `mtprof stats --json`", sorted(rows) == expected, (heads, rows[:2], expected[:2]))
    page.run("""document.querySelector("#operators th:nth-child(2) button").click()""")
    order = page.run("""[...document.querySelectorAll("#operators tbody tr")].map((row) => Number(row.querySelector("td[data-value]").dataset.value))""")
    check("a click on a heading sorts the other way", order == sorted(order) and len(order) > 5, order[:5])
    page.run("""(() => { const i = document.querySelector("#page-operators-0 input"); i.value = "mm"; i.dispatchEvent(new Event("input")); })()""")
    page.wait("""[...document.querySelectorAll("#operators tbody tr")].every((row) => row.dataset.key.toLowerCase().includes("mm"))""")
    check("the filter keeps what matches", page.run("""document.querySelectorAll("#operators tbody tr").length""") > 0)
    page.run("""document.querySelector("#operators tbody td.name button").click()""")
    page.wait("""document.querySelectorAll("#operators tr.detail canvas").length === 2""")
    page.run("new Promise((done) => setTimeout(done, 300))")
    check("a row opens: its histogram and its calls are drawn", painted(page, "#operators tr.detail canvas") > 3, painted(page, "#operators tr.detail canvas"))


TIMELINE = """document.querySelector(".board canvas")"""


def timeline(page):
    open_tab(page, "timeline")
    page.wait("location.hash.startsWith('#timeline')")
    page.run("new Promise((done) => setTimeout(done, 400))")
    check("the timeline is drawn in many colours", painted(page, ".board canvas") > 10, painted(page, ".board canvas"))
    view = lambda: page.run("location.hash")
    box = page.run(f"(() => {{ const b = {TIMELINE}.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()")
    for key in "w", "d", "s", "a":
        before = view()
        page.key(key)
        page.run("new Promise((done) => setTimeout(done, 350))")
        check(f"key {key} moves", view() != before, view())
    page.key("/")
    page.type("aten::mm")
    page.wait("document.querySelector('.bar-top .note').textContent.includes('span')")
    page.key("Enter")
    page.wait("!document.querySelector('.side').hidden")
    check("a search selects, and tells about it", "aten::mm" in page.run("document.querySelector('.side').textContent"), page.run("document.querySelector('.side').textContent"))
    first = page.run("document.querySelector('.side').textContent")
    page.run(f"{TIMELINE}.focus()")
    page.key("n")
    page.run("new Promise((done) => setTimeout(done, 200))")
    check("n goes to the next match", page.run("document.querySelector('.side').textContent") != first)
    page.key("Escape")
    page.wait("document.querySelector('.side').hidden")
    page.key("0")
    settle(page)
    page.drag(box[0] + box[2] * .2, box[1] + 40, box[0] + box[2] * .5, box[1] + 40)
    page.wait("!document.querySelector('.side').hidden")
    check("a range is summed", "selected" in page.run("document.querySelector('.side').textContent") and page.run("document.querySelectorAll('.side tbody tr').length") > 3)
    page.run("new Promise((done) => setTimeout(done, 400))")
    return view()


def restored(browser, address, hash_):
    page = browser.open(address + hash_)
    page.run("new Promise((done) => setTimeout(done, 600))")
    check("a link restores the view", page.run("location.hash") == hash_ and not page.run("document.querySelector('.side').hidden"), (page.run("location.hash"), hash_))
    page.close()


def keyboard(page):
    page.run("document.activeElement.blur()")
    for number, name in enumerate(PAGES, 1):
        page.key(str(number))
        page.wait(f"""document.querySelector('#tabs [data-page="{name}"]').getAttribute("aria-selected") === "true" """)
    check("number keys open the pages", True)
    page.key("?")
    page.wait("document.querySelector('#help').open")
    page.key("Escape")
    page.wait("!document.querySelector('#help').open")
    check("? shows the keys, Escape closes them", True)


HOSTILE = ["</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "<svg onload=window.hacked=1>", "javascript:window.hacked=1", "\u202e\u0000\x1b[31m", "__proto__", "constructor", "toString", "x" * 3000]


def hostile(folder):
    events = [{"ph": "X", "cat": name, "name": name, "pid": name, "tid": name, "ts": 10 * i, "dur": 5, "args": {"Input Dims": [name], "Call stack": name}} for i, name in enumerate(HOSTILE)]
    events += [{"ph": "M", "name": "process_name", "pid": name, "tid": 0, "ts": 0, "args": {"name": name}} for name in HOSTILE]
    path = folder / "hostile.json"
    path.write_text(json.dumps({"schemaVersion": 1, **{name: name for name in HOSTILE}, "traceEvents": events}))
    return path


def trained(folder, device):
    """A trace of our own: a small GPT, trained for a few steps. None: that device is not there."""
    program, path = pathlib.Path(MTPROF).parent / "examples/train", folder / f"train_{device}.json.gz"
    done = program.exists() and subprocess.run([program, "gpt", "4", path, device], capture_output=True)
    return path if done and done.returncode == 0 else None


def finding(page):
    """The first finding's evidence opens the timeline with that span."""
    open_tab(page, "overview")
    name = page.run("document.querySelector('.finding button.link').title")
    page.run("document.querySelector('.finding button.link').click()")
    page.wait("document.querySelector('.side') && !document.querySelector('.side').hidden")
    check("a finding leads to its place in the timeline", name and name in page.run("document.querySelector('.side h3').textContent"), (name, page.run("document.querySelector('.side').textContent")))


BROKEN = ["#%", "#?", "#nosuch", "#timeline?q=%E0%A4%A", "#timeline?t=NaN,5&s=999999999", "#timeline?t=-Infinity,Infinity", "#timeline?t=100000000000000000,100000000000000100", "#timeline?t=0,1e-9", "#timeline?s=1.5",
          "#timeline?s=-5&r=1e300,1e301", "#flame?n=-1", "#flame?n=1.5", "#flame?v=-1&n=1e9", "#operators?sort=-nosuch&by=all", "#operators?by=name_count", "#operators?by=__proto__", "#memory?t=1e30,1e31", "#memory?t=-1e30,1e400", "#overview?trace=-1", "#overview?trace=0.5"]


def links(browser, address):
    """Links that nobody made, or that a mail has cut, still open the report; text of a search comes back as it was."""
    for hash_ in BROKEN:
        page = browser.open(address + hash_, wait=None)
        page.wait("document.documentElement?.dataset.ready === '1' || document.querySelector('main')?.textContent.includes('could not be')")
        page.run("new Promise((done) => setTimeout(done, 200))")
        check(f"{hash_} opens without an error", page.troubles() == [] and "could not be" not in page.run("document.querySelector('main').textContent"), "\n".join(page.troubles()))
        page.close()
    for text in "100%", "%41", "a?b=c&d#e", "\u00fc \u4e2d+":
        page = browser.open(address + "#operators")
        page.run(f"""(() => {{ const i = document.querySelector("#page-operators-0 input"); i.value = {json.dumps(text)}; i.dispatchEvent(new Event("input")); }})()""")
        page.wait("location.hash.includes('q=')")
        hash_ = page.run("location.hash")
        page.close()
        page = browser.open(address + hash_, wait=None)
        page.wait("document.documentElement?.dataset.ready === '1' || document.querySelector('main')?.textContent.includes('could not be')")
        check(f"a link keeps the filter {text!r}", page.run("document.querySelector('#page-operators-0 input')?.value") == text, (hash_, page.troubles()))
        page.close()


def sums(browser, folder):
    """Time in a range: a caller has none while what it called runs."""
    path = folder / "sums.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} for name, ts, dur in
                                                [("caller", 0, 1000), ("callee", 200, 600), ("inner", 300, 100), ("later", 2000, 1000)]]}))
    address = report(folder, path, name="sums.html")
    for (low, high), expected in {(500, 700): {"caller": "0.000us", "callee": "200.000us"}, (100, 350): {"caller": "100.000us", "callee": "100.000us", "inner": "50.000us"}, (900, 2100): {"caller": "100.000us", "later": "100.000us"}}.items():
        page = browser.open(f"{address}#timeline?r={low * 1000},{high * 1000}")
        page.wait("document.querySelectorAll('.side tbody tr').length > 0")
        found = page.run("Object.fromEntries([...document.querySelectorAll('.side tbody tr')].map((row) => [row.cells[0].textContent, row.cells[2].textContent]))")
        check(f"from {low} to {high} us, each name's own time is summed", found == expected, (found, expected))
        page.close()


def choose(page, index):
    page.run(f"""(() => {{ const s = document.querySelector("#which select"); s.selectedIndex = {index}; s.dispatchEvent(new Event("change")); }})()""")
    page.run("new Promise((done) => setTimeout(done, 300))")


def two(browser, address):
    """Either trace can be chosen on any page; the address and the way back know which."""
    page = browser.open(address)
    choose(page, 1)
    check("Compare is shown whichever trace is chosen", "could not be" not in page.run("document.querySelector('main').textContent") and page.run("[...document.querySelectorAll('main section')].some((one) => one.offsetParent && one.querySelector('table'))"), page.troubles())
    open_tab_of(page, "about", 1)
    check("the address says which trace", "trace=1" in page.run("location.hash"), page.run("location.hash"))
    choose(page, 0)
    check("the first trace is shown", page.run("document.getElementById('page-about-0').offsetParent !== null"))
    page.run("history.back()")
    page.run("new Promise((done) => setTimeout(done, 300))")
    check("back goes to the second trace", page.run("document.getElementById('page-about-1').offsetParent !== null && document.querySelector('#which select').selectedIndex") == 1, page.run("location.hash"))
    check("two traces: no error", page.troubles() == [], "\n".join(page.troubles()))
    page.close()


def open_tab_of(page, name, trace):
    page.run(f"""document.querySelector('#tabs [data-page="{name}"]').click()""")
    page.wait(f"""document.getElementById("page-{name}-{trace}")?.childNodes.length > 0""")


def printed(browser, address):
    """On paper: the page that is shown, dark on white, with its bars, and no column cut."""
    page = browser.open(address, dark=True)
    for name in "overview", "timeline", "operators":
        open_tab(page, name)
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.call("Emulation.setDeviceMetricsOverride", width=700, height=1000, deviceScaleFactor=1, mobile=False)
    settle(page)
    shown = page.run("[...document.querySelectorAll('main section')].filter((one) => one.getClientRects().length > 0).map((one) => one.id)")
    check("the page that is shown is printed, and no other", shown == ["page-operators-0"], shown)
    wide = page.run("Math.max(...[...document.querySelectorAll('#operators tr:first-child > :last-child')].map((cell) => cell.getBoundingClientRect().right))")
    check("no column is cut on paper", wide <= 700, wide)
    colour = page.run("getComputedStyle(document.body).color")
    check("what is dark on the screen is light on paper", sum(map(int, re.findall(r"\d+", colour))) < 250, colour)
    check("bars are printed without asking for backgrounds", page.run("getComputedStyle(document.body).printColorAdjust") == "exact")
    page.run("dispatchEvent(new Event('afterprint'))")
    check("and the screen is as before", page.run("document.documentElement.dataset.theme") is None, page.run("document.documentElement.dataset.theme"))
    page.close()


def main():
    with tempfile.TemporaryDirectory() as name, chromium.Browser() as browser:
        folder = pathlib.Path(name)
        cuda, cpu = GOLDEN / "torch/cuda_gpt.json.gz", ROOT / "../shared/data/gpt_cpu.json.gz"
        address = report(folder, cuda)
        page = every_page(browser, "cuda", address, PAGES)
        figures(page, cuda)
        finding(page)
        hash_ = timeline(page)
        keyboard(page)
        check("and still no error", page.troubles() == [], "\n".join(page.troubles()))
        page.close()
        restored(browser, address, hash_)
        links(browser, address)
        printed(browser, address)
        sums(browser, folder)
        for how in {"width": 375}, {"dark": True}:
            every_page(browser, "narrow" if "width" in how else "dark", address, PAGES, **how).close()
        for label, trace in {"cpu": cpu, "memory": GOLDEN / "memory/train.json.gz", "stacks": GOLDEN / "torch/cuda_stack.json.gz", "streams": GOLDEN / "torch/cuda_streams.json.gz"}.items():
            if trace.exists():
                every_page(browser, label, report(folder, trace), PAGES).close()
        for device in "cpu", "npu":
            trace = trained(folder, device)
            if trace:
                page = every_page(browser, "our " + device, report(folder, trace), PAGES)
                open_tab(page, "timeline")
                check(f"our {device}: the timeline is drawn", painted(page, ".board canvas") > 10)
                page.close()
        page = every_page(browser, "two", report(folder, cuda, GOLDEN / "torch/cuda_plain.json.gz"), [*PAGES[:-1], "compare", "about"])
        page.close()
        two(browser, report(folder, cuda, GOLDEN / "torch/cuda_plain.json.gz"))
        empty = folder / "empty.json"
        empty.write_text('{"traceEvents": []}')
        page = every_page(browser, "empty", report(folder, empty), PAGES)
        check("an empty trace says so", "no spans" in page.run("document.querySelector('#page-overview-0').textContent"))
        page.close()
        page = every_page(browser, "hostile", report(folder, hostile(folder)), PAGES)
        check("hostile names do not run", page.run("window.hacked === undefined && ({}).x === undefined"))
        page.close()


if chromium.find() is None:
    print("1..0 # SKIP no Chromium (Debian: chromium)")
    sys.exit(77)
main()
end()
