#!/usr/bin/env python3
"""Reports in headless Chromium: figures against the other verbs, links of findings, odd traces. usage: tests/browser/report_details.py MTPROF ROOT [SHOTS]

Skipped where there is no Chromium.
"""
import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import chromium
from report_base import GOLDEN, MTPROF, ROOT, check, end, open_tab, painted, report, settle, shoot
from report_file import Report

PAGE = ROOT / "src/present/report/page"


def said(*args):
    return json.loads(subprocess.run([MTPROF, *map(str, args)], capture_output=True, check=True).stdout)


def made(folder, name, events):
    path = folder / (name + ".json")
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def op(name, ts, dur, tid=1, cat="cpu_op", **more):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, **more}


def text(page, selector):
    return page.run(f"document.querySelector({json.dumps(selector)})?.textContent")


def clicked(page, expression, until):
    page.run(expression + ".click()")
    page.wait(until)


# ------------------------------------------------------------------------------------------------ helpers of the page


FUNCTIONS = """(() => {{ {source}
  return {expression}; }})()"""


def functions(browser):
    """What needs no page: numbers as texts, ticks, columns."""
    page = browser.open("about:blank", wait=None)
    source = "".join((PAGE / name).read_text() for name in ("base.js", "data.js"))
    value = lambda expression: page.run(FUNCTIONS.format(source=source, expression=expression))
    for expression, expected in {
        "[0.5, 999.9994, 1000, 1500, 2.5e6].map(microseconds)": ["0.500us", "999.999us", "1.000ms", "1.500ms", "2.500s"],
        "[0, 1023, 1024, -1536, 1048576, 1.5 * 1024 ** 3].map((n) => bytes(n))": ["0 B", "1023 B", "1.00 KB", "-1.50 KB", "1.00 MB", "1.50 GB"],
        "(() => { const { ticks, step } = roundTicks(0, 48.7e6, 3); return tickTexts(ticks, step); })()": ["0", "20 ms", "40 ms"],
        "(() => { const { ticks, step } = roundTicks(3, 11, 5); return tickTexts(ticks, step); })()": ["4 ns", "6 ns", "8 ns", "10 ns"],
        "(() => { const { ticks, step } = roundTicks(0, 1500, 4); return tickTexts(ticks, step); })()": ["0", "0.5 us", "1.0 us", "1.5 us"],
        "(() => { const { ticks, step } = timeTicks(0, 3600e9, 6); return tickTexts(ticks, step); })()": ["0", "10 min", "20 min", "30 min", "40 min", "50 min", "60 min"],
        "(() => { const { ticks, step } = timeTicks(0, 86400e9, 4); return tickTexts(ticks, step); })()": ["0", "6 h", "12 h", "18 h", "24 h"],
        "(() => { const { ticks, step } = timeTicks(0, 30 * 86400e9, 4); return tickTexts(ticks, step); })()": ["0", "10 d", "20 d", "30 d"],
        "byteTicks(3 * 1024 ** 2, 3)": [0, 1048576, 2097152, 3145728],
        "[grouped(0), grouped(999), grouped(1000), grouped(1234567)]": ["0", "999", "1,000", "1,234,567"],
        "Array.from(signed({ count: 5, planes: [new Uint8Array([0, 1, 2, 3, 255])] }))": [0, -1, 1, -2, -128],
        "Array.from(numbers({ count: 2, planes: [1, 2, 3, 4, 5, 6].map((n) => new Uint8Array([n, 255])) }))": [0x060504030201, 0xffffffffffff],
        "shortName('void at::native::reduce_kernel<512, 1>(float*)')": "at::native::reduce_kernel",
        "shortName('void (anonymous namespace)::softmax_warp_forward<float, 8>(float*)')": "(anonymous namespace)::softmax_warp_forward",
        "shortName('void sgemm_largek_lds64<true, false, 5>(float*, int)')": "sgemm_largek_lds64",
        "rootTicks(20.9e6)": [0, 2e6, 10e6, 20e6],
        "rootTicks(0)": [0],
    }.items():
        got = value(expression)
        check(expression[:80], got == expected, got)
    page.close()


# -------------------------------------------------------------------------------------------------------- overview


def findings(browser, address, trace):
    """Each link of each finding leads to that name in the timeline, to a range, or to the page of memory."""
    found = said("explain", "--json", trace)["findings"]
    page = browser.open(address)
    links = [evidence for finding in found for evidence in finding["evidence"][:5]]
    shown = page.run("document.querySelectorAll('.finding button.link').length")
    wrong = []
    for number, evidence in enumerate(links):
        open_tab(page, "overview")
        page.run(f"document.querySelectorAll('.finding button.link')[{number}].click()")
        if evidence.get("bytes") and "span" not in evidence:
            page.wait("location.hash.startsWith('#memory')")
            continue
        page.wait("location.hash.startsWith('#timeline?') && document.querySelector('.side') && !document.querySelector('.side').hidden")
        settle(page)
        state = dict(part.split("=", 1) for part in page.run("decodeURIComponent(location.hash.split('?')[1])").split("&"))
        low, high = map(float, state["t"].split(","))
        is_there = low <= evidence["start_us"] * 1e3 + 1 and evidence["start_us"] * 1e3 <= high + 1
        if "span" in evidence:
            page.wait(f"document.querySelector('.side h3').textContent === {json.dumps(evidence['name'])}", 10)
        elif "r" not in state:
            wrong.append((evidence, state))
        if not is_there:
            wrong.append((evidence, state))
    check(f"{trace.name}: all {len(links)} links of findings lead to their places", shown == len(links) and not wrong, (shown, wrong[:3]))
    page.close()


def cards(browser, address, trace):
    """Shares, waits and idle times are those of `mtprof stats` and `mtprof steps`."""
    page, stats, steps = browser.open(address), said("stats", "--json", trace), said("steps", "--json", trace)
    shown = dict(reversed(pair) for pair in page.run("[...document.querySelectorAll('#page-overview-0 .card')].map((card) => [card.querySelector('b').textContent, card.querySelector('span').textContent])"))
    sums = {key: sum(step[key] for step in steps["steps"]) for key in ("wall_us", "cpu_us", "device_us", "idle_us")}
    expected = {"of the steps' time some thread was in an op": f"{100 * sums['cpu_us'] / sums['wall_us']:.1f}%", "of the steps' time a device was busy": f"{100 * sums['device_us'] / sums['wall_us']:.1f}%",
                "of the steps' time idle: neither ran": f"{100 * sums['idle_us'] / sums['wall_us']:.1f}%"}
    waits = [row for row in stats if row["key"].endswith("Synchronize")]
    expected[f"waited for devices, in {sum(row['count'] for row in waits)} call"] = f"{sum(row['self_cpu_time_total'] for row in waits):.3f}us"
    check("Overview: shares of time and waits are those of `mtprof steps` and `stats`", all(shown.get(name) == value for name, value in expected.items()), (shown, expected))
    first = steps["steps"][0]
    parts = [first["cpu_us"] - first["both_us"], first["both_us"], first["device_us"] - first["both_us"], first["idle_us"]]
    page.run("document.querySelector('#page-overview-0 canvas').scrollIntoView()")
    told = tip(page, "document.querySelector('#page-overview-0 canvas')", .2, 60).splitlines()
    milli = lambda us: f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"
    check("a step's bar tells its parts", told == [f"step {first['step']}: {milli(first['wall_us'])}", *(f"{name} {milli(us)}" for name, us in zip(("cpu only", "cpu and device", "device only", "idle"), parts))], (told, parts))
    gap = steps["idle_gaps"][0]
    start = next(step["start_us"] for step in steps["steps"] if step["step"] == gap["step"]) + gap["at_us"]
    clicked(page, "document.querySelector('#page-overview-0 table button.link')", "document.querySelector('.side') && !document.querySelector('.side').hidden")
    low, high = (float(at) for at in page.run("decodeURIComponent(location.hash)").split("r=")[1].split("&")[0].split(","))
    check("an idle time's link selects it", abs(low - start * 1e3) <= 1 and abs(high - low - gap["us"] * 1e3) <= 2, (low, high, gap))
    page.close()


def wide_cards(browser, folder):
    """No figure of the Overview is wider than its card, whatever the page's width: A4 is 718 pixels wide."""
    path = folder / "wide_cards.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": step * 100000 + at, "dur": dur, "args": {"stream": 7, "device": 0} if tid == 7 else {}}
                                                for step in range(9) for cat, name, tid, at, dur in (("user_annotation", f"ProfilerStep#{step}", 1, 0, 98765.432), ("cpu_op", "aten::mm", 1, 10, 50000),
                                                                                                    ("cuda_runtime", "cudaDeviceSynchronize", 1, 60000, 33333.333), ("kernel", "gemm", 7, 20000, 70000))]}))
    for width in 375, 718, 1280:
        page = browser.open(report(folder, path, name="wide_cards.html"), width=width)
        wide = page.run("[...document.querySelectorAll('.card b')].filter((one) => { const text = document.createRange(); text.selectNodeContents(one); return text.getBoundingClientRect().right > one.getBoundingClientRect().right + .5 || one.clientHeight > 40; }).map((one) => one.textContent)")
        check(f"figures fit their cards, {width} pixels wide", wide == [] and len(page.run("[...document.querySelectorAll('.card b')].map((one) => one.textContent)")) >= 7, wide)
        page.close()


def long_keys(browser, folder):
    """Metadata may have any name: About does not scroll sideways."""
    path = folder / "long_keys.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 9}], "k" * 3000: "v" * 3000}))
    page = browser.open(report(folder, path, name="long_keys.html") + "#about", width=375)
    wide = page.run("(() => { const main = document.querySelector('main'); return [main.scrollWidth, main.clientWidth]; })()")
    check("a long name of metadata is broken", wide[0] <= wide[1], wide)
    page.close()


def many_steps(browser, folder):
    """Of many steps the labels are round, do not overlap, and are not cut."""
    events = [{"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": step * 100, "dur": 90}
              for step in range(3, 120000) for cat, name in (("user_annotation", f"ProfilerStep#{step}"), ("cpu_op", "aten::mm"))]
    path = folder / "many_steps.json"
    path.write_text(json.dumps({"traceEvents": events}))
    for width in 1280, 375:
        page = browser.open(report(folder, path, name="many_steps.html"), width=width)
        page.run("""window.drawn = []; window.real = CanvasRenderingContext2D.prototype.fillText; CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            if (this.textAlign === "center") { const half = this.measureText(text).width / 2; window.drawn.push([text, x - half, x + half, this.canvas.clientWidth]); } window.real.call(this, text, x, y); };
            document.getElementById("theme").click()""")
        page.wait("window.drawn.length > 0")
        drawn = page.run("window.drawn")
        numbers = [int(text) for text, *_ in drawn]
        apart = {b - a for a, b in zip(numbers, numbers[1:])}
        check(f"labels of 120,000 steps are round, {width} pixels wide", len(numbers) > 1 and len(apart) == 1 and str(apart.copy().pop()).rstrip("0") in "125" and all(n % next(iter(apart)) == 0 for n in numbers), drawn)
        check("and are neither cut nor overlap", all(low >= 0 and high <= wide for _, low, high, wide in drawn) and all(a[2] < b[1] for a, b in zip(drawn, drawn[1:])), drawn)
        page.close()


def outlier(browser, folder):
    """A step 1000 times longer is cut, and says so."""
    events, at = [], 0
    for step in range(20):
        wide = 1e6 if step == 7 else 1000
        events += [op(f"ProfilerStep#{step}", at, wide, cat="user_annotation"), op("aten::mm", at + 10, wide / 2)]
        at += wide + 10
    page = browser.open(report(folder, made(folder, "outlier", events), name="outlier.html"))
    cut = painted(page, "#page-overview-0 canvas")
    clicked(page, "[...document.querySelectorAll('#page-overview-0 button')].find((one) => one.textContent.startsWith('Show the longest in full'))", "document.querySelector('#page-overview-0 [aria-pressed=true]')")
    settle(page)
    check("a step that hides the others is cut, and can be shown in full", cut > 3 and "1.000s" in text(page, "#page-overview-0 .legend"), text(page, "#page-overview-0 .legend"))
    page.close()


# ------------------------------------------------------------------------------------------------------- operators


def calls(browser, address, name, button, rows, but=()):
    """A row's histogram and dots are of its calls, and of no others: a note would say that they are not."""
    page = browser.open(address + "#operators")
    if button:
        page.run(f"[...document.querySelectorAll('#page-operators-0 .tools button')].find((one) => one.textContent === '{button}').click()")
    wrong = []
    for number in range(min(rows, page.run("document.querySelectorAll('#operators tbody tr').length"))):
        row = f"document.querySelectorAll('#operators tbody tr:not(.detail)')[{number}]"
        page.run(row + ".querySelector('button').click()")
        page.wait("document.querySelector('#operators tr.detail canvas')?.width > 0")
        page.run("new Promise((done) => setTimeout(done, 20))")
        if text(page, "#operators tr.detail p.note") and page.run(row + ".dataset.key") not in but:
            wrong.append((page.run(row + ".innerText"), text(page, "#operators tr.detail p.note")))
        page.run(row + ".querySelector('button').click()")
    check(f"{name}, {button or 'by name'}: the calls of a row are as many as it counts", not wrong, wrong)
    check(f"{name}: no error", page.troubles() == [], "\n".join(page.troubles()))
    page.close()


def shown_places(browser, folder):
    """Host and device, this shape and that: the dots over time are those of the row."""
    shaped = lambda dims: {"args": {"Input Dims": dims, "Input type": ["float"]}}
    events = [op("mm", 10 * i, 5, **shaped([[i % 3 + 1, 4]])) for i in range(9)] + [op("both", 200, 5), op("both", 220, 7), op("both", 205, 3, tid=7, cat="gpu_user_annotation")]
    page = browser.open(report(folder, made(folder, "shapes", events), name="shapes.html") + "#operators?by=shape&q=mm&o=0")
    page.wait("document.querySelector('#operators tr.detail canvas')?.width > 0")
    settle(page)
    dots = page.run("""(() => { const c = document.querySelectorAll("#operators tr.detail canvas")[1], d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i] === 0xf0 && d[i + 1] === 0xb4 && d[i + 2] === 0x5c; return n; })()""")
    check("a link opens a row; its three calls are three dots", dots == 3 * 9, dots)
    extent = lambda number, r, g, b: page.run(f"""(() => {{ const c = document.querySelectorAll("#operators tr.detail canvas")[{number}], w = c.width, d = c.getContext("2d").getImageData(0, 0, w, c.height).data; let left = w, top = c.height;
        for (let i = 0; i < d.length; i += 4) if (d[i] === {r} && d[i + 1] === {g} && d[i + 2] === {b}) left = Math.min(left, i / 4 % w), top = Math.min(top, Math.floor(i / 4 / w)); return [left, top]; }})()""")
    (bar, _), (_, dot) = extent(0, 0x88, 0xb4, 0xe0), extent(1, 0xf0, 0xb4, 0x5c)
    check("calls of 5 us are in the first bar, and their dots just below the top", 60 < bar < 110 and 8 <= dot <= 14, (bar, dot))
    page.close()


def widths(browser, address):
    """Nothing is cut at 1280 px; at 375 px the tabs wrap."""
    page = browser.open(address + "#operators")
    check("all columns of Operators fit", page.run("(() => { const box = document.querySelector('.scroll.wide'); return box.scrollWidth - box.clientWidth; })()") <= 0)
    page.run("document.querySelector('#operators tbody td.name button').click()")
    page.wait("document.querySelector('#operators tr.detail canvas')")
    settle(page)
    check("and with a row open", page.run("(() => { const box = document.querySelector('.scroll.wide'); return box.scrollWidth - box.clientWidth; })()") <= 0)
    page.close()
    page = browser.open(address, width=375)
    check("at 375 px the tabs do not scroll", page.run("(() => { const nav = document.querySelector('nav'); return nav.scrollWidth - nav.clientWidth; })()") <= 0)
    check("and the buttons beside the name are at the edge", page.run("innerWidth - document.querySelector('#keys').getBoundingClientRect().right") < 30)
    page.close()


# -------------------------------------------------------------------------------------------------------- timeline


def searched(browser, address, trace):
    """What a search counts and sums is what the trace holds."""
    with gzip.open(trace) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    page = browser.open(address + "#timeline")
    page.wait("document.querySelector('.bar-top .note').textContent === ''")
    for name in "cudaLaunchKernelExC", "aten::transpose", "fmha_cutlassB", "ProfilerStep#2":
        matching = [event for event in events if name in event["name"]]
        threads = collections.defaultdict(list)
        for event in events:
            threads[event["pid"], event["tid"]].append(event)
        own = 0
        for event in matching:
            low, high = event["ts"], event["ts"] + event["dur"]
            inside = sorted((e["ts"], -e["dur"]) for e in threads[event["pid"], event["tid"]] if low <= e["ts"] and e["ts"] + e["dur"] <= high and e is not event and e["dur"] < event["dur"])
            own, at = own + event["dur"], low
            for start, minus in inside:
                if start >= at:
                    own, at = own + minus, start - minus
        page.run(f"""(() => {{ const i = document.querySelector(".bar-top input"); i.value = {json.dumps(name)}; i.dispatchEvent(new Event("input")); }})()""")
        page.wait(f"location.hash.includes(encodeURIComponent({json.dumps(name)}))")
        counted = text(page, ".bar-top .note")
        number = counted.split(" ")[0].replace(",", "")
        sum_ = counted.split(", ")[-1].split(" ")[0]
        sum_us = float(sum_[:-2]) * 1000 if sum_.endswith("ms") else float(sum_[:-2])
        check(f"a search for {name} counts and sums what the trace holds", int(number) == len(matching) and abs(sum_us - own) <= max(.01, own * 1e-3), (counted, len(matching), own))
    page.close()


CANVAS = "document.querySelector('.board canvas')"


def tip(page, canvas, x, y):
    """What is told of a place on a canvas: its shares of the width, and pixels from its top."""
    left, top, wide, _ = page.run(f"(() => {{ const b = {canvas}.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()")
    page.mouse("Moved", left + 1, top + 1)
    page.mouse("Moved", left + x * wide, top + y)
    page.wait("!document.querySelector('#tip').hidden")
    return text(page, "#tip")


def arrows(browser, folder):
    """A forward's arrow begins at its end: what it hands over is ready then."""
    flow = lambda phase, ts, tid: {"ph": phase, "id": 1, "pid": 1, "tid": tid, "ts": ts, "cat": "fwdbwd", "name": "fwdbwd", **({"bp": "e"} if phase == "f" else {})}
    page = browser.open(report(folder, made(folder, "arrows", [op("forward", 0, 400), op("backward", 700, 300, tid=2), flow("s", 0, 1), flow("f", 700, 2)]), name="arrows.html") + "#timeline?s=0")
    page.wait("document.querySelector('.bar-top .note').textContent === '' && document.querySelector('.side').textContent.includes('backward')")
    settle(page)
    left, right = page.run("""(() => { const c = document.querySelector(".board canvas"), w = c.width, high = c.height - 60, d = c.getContext("2d").getImageData(0, 60, w, high).data; let left = w, right = 0;
        for (let y = 0; y < high; y++) for (let x = 6; x < w - 6; x++) { const i = 4 * (y * w + x); if (d[i] === 0x0b && d[i + 1] === 0x62 && d[i + 2] === 0xc4) left = Math.min(left, x), right = Math.max(right, x); } return [left / w, right / w]; })()""")
    check("an arrow leads from the forward's end to the backward's begin", abs(left - .402) < .01 and .68 < right < .71, (left, right))
    page.close()
    events = []
    for i in range(4):
        events += [op(f"f{i}", 100 * i, 50), op(f"b{i}", 1000 - 100 * i, 50, tid=2), {**flow("s", 100 * i, 1), "id": i}, {**flow("f", 1000 - 100 * i, 2), "id": i}]
    page = browser.open(report(folder, made(folder, "arrows", events), name="arrows.html") + "#timeline?s=0")
    page.wait("document.querySelector('.bar-top .note').textContent === ''")
    got = []
    for i in range(4):
        page.wait(f"document.querySelector('.side h3')?.textContent === 'f{i}'")
        got.append(page.run("[...document.querySelectorAll('.side .tools')][0].textContent"))
        page.run(f"{CANVAS}.focus()")
        page.key("ArrowRight")
    check("each span lists what its arrows lead to", got == [f"\u2192 b{i} (backward)" for i in range(4)], got)
    page.close()


def counters(browser, folder):
    """Counters below zero are drawn; marks have their place; a trace of nothing else has a timeline."""
    events = [{"ph": "C", "name": "below", "pid": 1, "tid": 1, "ts": 10 * i, "args": {"v": -5 - i % 7}} for i in range(50)]
    events += [{"ph": "i", "s": "t", "cat": "user", "name": "here", "pid": 1, "tid": 1, "ts": 100}]
    page = browser.open(report(folder, made(folder, "counters", events), name="counters.html") + "#timeline")
    page.wait("document.querySelector('.bar-top .note').textContent === ''")
    settle(page)
    colour = lambda r, g, b: page.run(f"""(() => {{ const c = document.querySelector(".board canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i] === {r} && d[i + 1] === {g} && d[i + 2] === {b}; return n; }})()""")
    check("a counter below zero is drawn", colour(0xf0, 0xb4, 0x5c) > 1000, colour(0xf0, 0xb4, 0x5c))
# the whole is 490 us, with a margin of 1 % at each side
    told = tip(page, CANVAS, (253 / 490 + .01) / 1.02, 130)
    check("a counter's value at an instant is told", told == "below: -9", told)
    check("a mark is drawn", 8 < colour(0x9a, 0x4a, 0x00) < 100, colour(0x9a, 0x4a, 0x00))
    shoot(page, "counters")
    page.close()


# ----------------------------------------------------------------------------------------- flame graph and modules


def flame(browser, folder, address):
    events = [op(name, 100 * thread + ts, dur, tid=thread) for thread in range(400) for name, ts, dur in (("outer", 0, 60), ("inner", 10, 20), ("inner", 40, 10))]
    page = browser.open(report(folder, made(folder, "threads", events), name="threads.html") + "#flame")
    check("many threads are shown together", text(page, "#page-flame-0 [aria-pressed=true]") == "Threads together", text(page, "#page-flame-0 .tools"))
    page.run("document.querySelector('#page-flame-0 canvas').focus()")
    page.key("ArrowDown")
    check("arrow keys choose a frame", text(page, "#page-flame-0 .note[aria-live]:not(.tools *)").startswith("outer, 24.000ms (100.0%), itself 12.000ms, 400 calls"), text(page, "#page-flame-0"))
    page.key("ArrowDown")
    page.key("Enter")
    page.wait("location.hash.includes('n=')")
    hash_ = page.run("location.hash")
    check("Enter shows it in full width", "inner, 12.000ms (50.0%)" in text(page, "#page-flame-0") and "800 calls" in text(page, "#page-flame-0"), text(page, "#page-flame-0"))
    page.close()
    page = browser.open(address.replace(address.rsplit("/", 1)[1], "threads.html") + hash_ + "&q=inner&up=1")
    check("a link restores the frame, the search and the direction", "inner, 12.000ms" in text(page, "#page-flame-0") and "12.000ms (50.0%) in what matches" in text(page, "#page-flame-0") and
          page.run("[...document.querySelectorAll('#page-flame-0 [aria-pressed=true]')].map((one) => one.textContent)") == ["Threads together", "Flames upwards"], text(page, "#page-flame-0"))
    page.close()


def stacks(browser, folder, trace):
    """The widest frame of the program's stacks: its time is that of all lines that begin with it."""
    address = report(folder, trace, name="stacks.html")
    sums = collections.Counter()
    for line in Report(folder / "stacks.html").blobs["stacks-0"].decode().splitlines():
        frames, _, us = line.rpartition(" ")
        sums[frames.split(";")[0]] += int(us)
    page = browser.open(address + "#flame")
    page.run("[...document.querySelectorAll('#page-flame-0 .tools button')].find((one) => one.textContent === 'Stacks').click()")
    page.run("document.querySelector('#page-flame-0 canvas').focus()")
    page.key("ArrowDown")
    (name, us), told = sums.most_common(1)[0], text(page, "#page-flame-0 .note[aria-live]:not(.tools *)")
    check(f"{trace.name}: a frame's time is the sum of its stacks", told.startswith(f"{name}, {us / 1e3:.3f}ms ({100 * us / sum(sums.values()):.1f}%)"), (told, name, us))
    page.close()


def modules(browser, folder, trace):
    """Calls and times of modules are the sums over the trace."""
    with gzip.open(trace) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X" and event["name"].startswith("nn.Module: ")]
    expected = collections.defaultdict(lambda: [0, 0])
    for event in events:
        expected[event["name"][11:]][0] += 1
        expected[event["name"][11:]][1] += event["dur"]
    page = browser.open(report(folder, trace, name="modules.html") + "#modules")
    rows = page.run("[...document.querySelectorAll('#page-modules-0 tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
    got = collections.defaultdict(lambda: [0, 0])
    for name, number, took, *_ in rows:
        name = name.lstrip("\u25b8\u25be\u2003 ")
        got[name][0] += int(number.replace(",", ""))
        got[name][1] += float(took[:-2]) * (1000 if took.endswith("ms") else 1)
    above, own = [], collections.defaultdict(float)
    for event in sorted(events, key=lambda e: (e["tid"], e["ts"], -e["dur"])):
        while above and (above[-1]["tid"] != event["tid"] or above[-1]["ts"] + above[-1]["dur"] <= event["ts"]):
            above.pop()
        own[event["name"][11:]] += event["dur"]
        if above:
            own[above[-1]["name"][11:]] -= event["dur"]
        above.append(event)
    without = collections.defaultdict(float)
    for row in rows:
        without[row[0].lstrip("\u25b8\u25be\u2003 ")] += float(row[4][:-2]) * (1000 if row[4].endswith("ms") else 1)
    check(f"{trace.name}: and without their submodules", all(abs(without[name] - own[name]) < .002 * own[name] + .01 for name in own), [(name, without[name], own[name]) for name in own][:4])
    check(f"{trace.name}: modules' calls and times are the trace's", len(got) > 5 and got.keys() == expected.keys() and all(got[name][0] == expected[name][0] and abs(got[name][1] - expected[name][1]) < .002 * expected[name][1] for name in got),
          [(name, got[name], expected[name]) for name in got if got[name] != expected[name]][:5])
    page.close()


# --------------------------------------------------------------------------------------------------- memory, compare


def memory(browser, address):
    page = browser.open(address + "#memory")
    page.key("w")
    page.wait("location.hash.includes('t=')")
    page.key("0")
    page.wait("!location.hash.includes('t=')")
    page.key("p")
    page.wait("location.hash.includes('t=')")
    low, high = (float(at) for at in page.run("decodeURIComponent(location.hash)").split("t=")[1].split(","))
    expected = said("memory", "--json", GOLDEN / "torch/cuda_gpt.json.gz")["peak"]["time_us"]
    check("p shows the time around the peak, the first of several", low <= expected * 1e3 <= high and abs((low + high) / 2 - expected * 1e3) < .3 * (high - low), (low, high, expected))
    page.key("0")
    page.wait("!location.hash.includes('t=')")
    page.run("(() => { const s = document.querySelector('#page-memory-0 select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })()")
    page.wait("location.hash.includes('d=1')")
    peak, hash_ = text(page, "#page-memory-0 .card b"), page.run("location.hash")
    page.close()
    page = browser.open(address + hash_)
    check("a link keeps the device whose memory is shown", page.run("document.querySelector('#page-memory-0 select').selectedIndex") == 1 and text(page, "#page-memory-0 .card b") == peak, text(page, "#page-memory-0 .card b"))
    page.close()


def staircase(browser, folder):
    """What is told of an instant is in use then, and not a change later."""
    event = lambda i: {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 100 * i, "args": {"Addr": 4096 * (i + 1), "Bytes": 1024, "Device Type": 0, "Device Id": -1, "Total Allocated": 1024 * (i + 1), "Total Reserved": 0}}
    page = browser.open(report(folder, made(folder, "stairs", [op("a", 0, 1000), *map(event, range(10))]), name="stairs.html") + "#memory")
    wide = page.run("document.querySelector('#page-memory-0 canvas').clientWidth")
    told = [tip(page, "document.querySelector('#page-memory-0 canvas')", (70 + (wide - 80) * at / 1000) / wide, 300).splitlines()[1] for at in (50, 450, 950)]
    check("memory in use at an instant", told == ["Unknown 1.00 KB", "Unknown 5.00 KB", "Unknown 10.00 KB"], told)
    page.close()


def compare(browser, folder):
    """What is said in words has the counts of the table, also if one of the two has no steps."""
    page = browser.open(report(folder, GOLDEN / "torch/cuda_gpt.json.gz", GOLDEN / "torch/cuda_plain.json.gz", name="compare.html") + "#compare")
    rows = {cells[0]: cells for cells in page.run("[...document.querySelectorAll('#page-compare-0 tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")}
    words = text(page, ".words").replace("\n", " ")
    *_, before, after, _ = rows["cudaDeviceSynchronize"]
    check("words count as the table does", (before, after) == ("1", "2") and "cudaDeviceSynchronize has 2 calls instead of 1" in words and "as fast as before" not in words, (rows["cudaDeviceSynchronize"], words))
    check("what is new has the table's count and time", "Activity Buffer Request is new: 1 call, 2.27 ms in all." in words and rows["Activity Buffer Request"][3] == "2.270ms", (words, rows["Activity Buffer Request"]))
    check("time that is saved has a minus", rows["aten::item"][-1] == "\u2212172.967us" and rows["Activity Buffer Request"][-1] == "+3.405ms", rows["aten::item"])
    check("without steps nothing is called a step's", "per step" not in text(page, "#page-compare-0") and "0.67 times the work" in text(page, "#page-compare-0"), words)
    clicked(page, "[...document.querySelectorAll('#page-compare-0 tbody button')].find((one) => one.textContent === 'cudaDeviceSynchronize')", "location.hash.startsWith('#timeline') && location.hash.includes('trace=1')")
    page.wait("document.querySelector('#page-timeline-1 .bar-top .note').textContent.startsWith('2 spans')")
    check("a row of Compare leads to its calls", True)
    page.close()


DRAWN = """(() => { window.drawn = []; const { prototype } = CanvasRenderingContext2D, plain = prototype.fillText;
    prototype.fillText = function (text, x, y) {
      const wide = this.measureText(text).width, from = this.textAlign === "right" ? x - wide : this.textAlign === "center" ? x - wide / 2 : x;
      drawn.push({ text, from, to: from + wide, room: this.canvas.clientWidth });
      return plain.call(this, text, x, y);
    }; })()"""


def words(browser, folder):
    """What is no op, no call and no name is not called so; and everything can be read."""
    gaps = made(folder, "gaps", [op("aten::mm", i * 2000, 1000) for i in range(20)])
    page = browser.open(report(folder, gaps, name="gaps.html"))
    evidence = page.run("[...document.querySelectorAll('#finding-host-idle li')].map((one) => one.textContent)")
    check("gaps are no calls, and have no name", evidence == ["19.000ms in 19 gaps"], evidence)
    dim = page.run("[...document.styleSheets].flatMap((one) => [...one.cssRules]).find((one) => one.selectorText === '.none').style.opacity")
    check("a zero can be read: it is dim, and not faint", dim == "", dim)
    page.close()
    functions_only = made(folder, "python", [op(f"train.py({i}): f{i}", i, 100 - 2 * i, cat="python_function") for i in range(20)])
    page = browser.open(report(folder, functions_only, name="python.html"))
    shown = page.run("[...document.querySelectorAll('.card')].map((one) => one.textContent)")
    check("functions are no ops", any("scope or function" in one for one in shown) and not any("in an op" in one for one in shown), shown)
    page.close()
    page = browser.open(report(folder, made(folder, "nothing", []), name="nothing.html"), width=375, height=720)
    page.run(DRAWN)
    open_tab(page, "timeline")
    cut = page.run("drawn.filter((one) => one.text.length > 8 && (one.from < 0 || one.to > one.room)).map((one) => one.text)")
    check("an empty timeline says so within a narrow page", cut == [] and page.run("drawn.some((one) => one.text.startsWith('Nothing was recorded'))"), cut)
    page.close()
    page = browser.open(report(folder, made(folder, "many", [op("aten::mm", i, 1, tid=i + 1) for i in range(600)]), name="many.html"))
    open_tab(page, "about")
    about = text(page, "#page-about-0")
    check("of many tracks About shows the first ones, and says so", page.run("document.querySelectorAll('#page-about-0 tbody tr').length") == 500 and "100 more" in about, about[:300])
    page.close()


def main():
    with tempfile.TemporaryDirectory() as name, chromium.Browser() as browser:
        folder, cuda, stack = pathlib.Path(name), GOLDEN / "torch/cuda_gpt.json.gz", GOLDEN / "torch/cuda_stack.json.gz"
        functions(browser)
        address = report(folder, cuda)
        for trace in cuda, stack, GOLDEN / "torch/cuda_streams.json.gz", GOLDEN / "memory/train.json.gz":
            findings(browser, report(folder, trace, name="findings.html"), trace)
        cards(browser, address, cuda)
        wide_cards(browser, folder)
        long_keys(browser, folder)
        many_steps(browser, folder)
        outlier(browser, folder)
        calls(browser, address, "cuda", "", 12)
        calls(browser, address, "cuda", "By shape", 12, but=["aten::_foreach_sqrt", "aten::_foreach_add_"])  # lists of tensors: their shapes are written otherwise
        calls(browser, report(folder, GOLDEN / "torch/cuda_verbose.json.gz", name="verbose.html"), "verbose", "By stack", 10, but=["Activity Buffer Request", "copy", "aten::sum"])  # which torch attributes otherwise
        shown_places(browser, folder)
        widths(browser, address)
        searched(browser, address, cuda)
        arrows(browser, folder)
        counters(browser, folder)
        flame(browser, folder, address)
        stacks(browser, folder, GOLDEN / "torch/cuda_verbose.json.gz")
        modules(browser, folder, stack)
        memory(browser, address)
        staircase(browser, folder)
        compare(browser, folder)
        words(browser, folder)


if chromium.find() is None:
    print("1..0 # SKIP no Chromium (Debian: chromium)")
    sys.exit(77)
main()
end()
