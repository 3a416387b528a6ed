#!/usr/bin/env python3
"""The report's page of ranks in headless Chromium: real NCCL ranks, made jobs from 2 ranks to 512, hostile names. usage: tests/browser/report_ranks.py MTPROF ROOT [SHOTS]

Skipped where there is no Chromium.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import chromium
import ranks_made
from report_base import GOLDEN, MTPROF, check, end, open_tab, painted, report, settle, shoot, visible

TRACES = sorted((GOLDEN / "ranks").glob("nccl*.json.gz"))
TITLES = {"rank": "rank", "step": "wall", "compute": "compute", "exposed": "exposed", "waiting": "waiting", "transfer": "transfer", "idle": "idle", "late": "late"}
OTHERS = ["overview", "timeline", "operators", "compare", "about"]


def text(page, selector):
    return page.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")


def rows(page):
    return page.run("[...document.querySelectorAll('#ranks tbody tr')].map((row) => [...row.cells].map((cell) => cell.dataset.value))")


def heads(page):
    return page.run("[...document.querySelectorAll('#ranks thead th')].map((head) => head.textContent.replace(/ [\\u25b4\\u25be]$/, ''))")


def place(page, name):
    """Left, top, width and height of a chart: 0 the map, 1 the bars, 2 the line."""
    page.run(f"[...document.querySelectorAll('canvas.ranks-chart')][{name}].scrollIntoView({{ block: 'center' }})")
    return page.run(f"(() => {{ const b = [...document.querySelectorAll('canvas.ranks-chart')][{name}].getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()")


def tip(page):
    return page.run("document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').textContent")


def state(page):
    return page.run("location.hash")


def wide(page):
    return page.run("document.documentElement.scrollWidth - innerWidth")


def figures(page, expected):
    """The table against `mtprof ranks --json`."""
    got, titles = rows(page), heads(page)
    for title, key in TITLES.items():
        values = [float(row[titles.index(title)]) for row in got]
        right = [rank["rank"] if key == "rank" else rank["per_step"][key + "_us"] for rank in expected["ranks"]]
        check(f"the column {title} is that of `mtprof ranks --json`", values == right, (values, right))
    told = text(page, "#page-ranks-0")
    check("findings and notes are those of `mtprof ranks --json`", all(one["title"] in told and one["text"] in told for one in expected["findings"]) and all(note in told for note in expected["notes"]), told[:500])
    check("the straggler comes first, and is marked", text(page, ".finding h3") == expected["findings"][0]["title"] and text(page, "#ranks tr.straggler td").startswith("\u25b8 2"), text(page, ".finding h3"))
    page.run("[...document.querySelectorAll('#ranks th button')].find((one) => one.textContent.startsWith('late')).click()")
    late = [float(row[heads(page).index("late")]) for row in rows(page)]
    check("a click on a heading sorts, the largest first", late == sorted(late, reverse=True) and "sort=-late" in state(page), (late, state(page)))
    page.run("[...document.querySelectorAll('#ranks th button')].find((one) => one.textContent.startsWith('late')).click()")
    check("and again, the smallest", [float(row[heads(page).index("late")]) for row in rows(page)] == late[::-1] and "sort=late" in state(page), state(page))


def mouse(page, expected):
    left, top, width, height = place(page, 0)
    cell = (min(width - 60, 6 * 110) / 6, 22)
    x, y = left + 52 + 2.5 * cell[0], top + 20 + 2.5 * cell[1]
    page.mouse("Moved", x, y)
    late = expected["ranks"][2]["steps"][2]["late_us"]
    check("the map tells rank, step and time", tip(page) == f"rank 2, step 4: {late / 1e3:.3f}ms late", tip(page))
    page.click(left + 52 + 4.5 * cell[0], top + 20 + .5 * cell[1])
    page.wait("location.hash.includes('step=6')")
    check("a click selects rank and step", "rank=0" in state(page) and "Where the time goes: step 6" in text(page, "#page-ranks-0") and text(page, "#ranks tr.open td") == "0", state(page))
    left, top, width, height = place(page, 1)
    page.mouse("Moved", left + 100, top + 20 + 3.5 * 22)
    step = expected["ranks"][3]["steps"][4]
    check("a bar tells where the time of that step goes", tip(page).startswith(f"rank 3, step 6: {step['wall_us'] / 1e3:.3f}ms") and f"waiting for later ranks {step['waiting_us'] / 1e3:.3f}ms" in tip(page), tip(page))
    page.click(left + 100, top + 20 + 3.5 * 22)
    check("a click on a bar selects the rank", "rank=3" in state(page) and "step=6" in state(page), state(page))
    left, top, width, height = place(page, 2)
    page.mouse("Moved", left + 52 + (width - 60) * .5 / 6, top + 60)
    check("the line tells that rank and the median", tip(page).startswith("step 2, time\nrank 3 ") and "the median rank" in tip(page), tip(page))
    page.run("[...document.querySelectorAll('#page-ranks-0 .ranks-head button')].find((one) => one.textContent === 'Mean of all steps').click()")
    check("a button goes back to the mean", "step=" not in state(page) and "the mean step" in text(page, "#page-ranks-0"), state(page))
    page.run("document.querySelector('#ranks tbody tr:nth-child(2)').click()")
    check("a click on a row selects its rank", page.run("document.querySelector('#ranks tr.open').rowIndex") == 2, state(page))


def keyboard(page):
    page.mouse("Moved", 5, 5)
    place(page, 0)
    settle(page)
    page.run("document.activeElement.blur(); document.querySelector('canvas.ranks-chart').focus({ focusVisible: true })")
    page.key("Home")
    check("the focus tells a cell", tip(page).startswith("rank ") and "step 2: " in tip(page) and text(page, "#ranks-cell") == tip(page), (tip(page), text(page, "#ranks-cell")))
    for _ in range(9):
        page.key("ArrowUp")
    for key in "ArrowRight", "ArrowRight", "ArrowDown":
        page.key(key)
    check("arrow keys go from cell to cell", tip(page).startswith("rank 1, step 4: "), tip(page))
    page.key("Enter")
    page.wait("location.hash.includes('step=4')")
    check("Enter selects it", "rank=1" in state(page), state(page))
    page.key("Escape")
    check("Escape goes back to the mean", "step=" not in state(page) and "rank=1" in state(page), state(page))
    page.run("[...document.querySelectorAll('canvas.ranks-chart')][1].focus({ focusVisible: true })")
    page.key("ArrowDown")
    check("so it is with the bars", tip(page).startswith("rank 2, mean step: "), tip(page))
    page.key("Enter")
    check("and Enter", "rank=" not in state(page), state(page))
    page.key("2")
    page.wait("location.hash.startsWith('#overview')")
    page.key("1")
    page.wait("location.hash.startsWith('#ranks')")
    check("number keys open the pages, this one first", True)
    page.key("?")
    page.wait("document.querySelector('#help').open")
    check("? shows its keys", "the mean of all steps" in text(page, "#help") and "undefined" not in text(page, "#help") and "false" not in text(page, "#help"), text(page, "#help"))
    page.key("Escape")


def leads(browser, address):
    """From the page to the others: the two traces are told apart by what they are to each other."""
    page = browser.open(address)
    check("the traces are called what they are", page.run("[...document.querySelectorAll('#which option')].map((one) => one.textContent)") == ["typical: rank 1 (nccl1.json.gz)", "straggler: rank 2 (nccl2.json.gz)"], text(page, "#which"))
    page.run("[...document.querySelectorAll('.leads button')].find((one) => one.textContent === 'In the timeline').click()")
    page.wait("location.hash.startsWith('#timeline') && location.hash.includes('trace=1') && location.hash.includes('t=')")
    check("the straggler's first late step is shown in its timeline", page.run("document.querySelector('#which select').selectedIndex") == 1, state(page))
    page.run("history.back()")
    page.wait("location.hash.startsWith('#ranks') || location.hash === ''")
    page.run("[...document.querySelectorAll('.leads button')].find((one) => one.textContent.startsWith('Compared with')).click()")
    page.wait("location.hash.startsWith('#compare')")
    shown = "[...document.querySelectorAll('main section')].find((one) => one.offsetParent)"
    page.wait(f"{shown}?.textContent.includes('Calls, typical')")
    told = page.run(f"{shown}.textContent")
    check("and what it does differently", "rank 2 (nccl2.json.gz)" in told and "softmax_warp_forward (on the device) is new" in told and "Calls, typical" in told and not told.endswith("false"), told)
    check("no error on the way", page.troubles() == [], "\n".join(page.troubles()))
    page.close()
    for width, boxes in (375, "main"), (1280, "main, main .scroll"):  # long names of kernels
        page = browser.open(address + "#compare", width=width)
        page.wait("document.querySelectorAll('#page-compare-0 tbody tr').length > 0")
        wide = page.run(f"[...document.querySelectorAll('{boxes}')].filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth).map((one) => one.className + ' ' + one.scrollWidth)")
        check(f"Compare does not scroll sideways, {width} pixels wide", wide == [], wide)
        page.close()
    page = browser.open(address)
    ticks = page.run("[...document.querySelectorAll('.late-scale .ticks span')].map((one) => one.textContent)")
    check("ticks of the scale of lateness are round", len(ticks) >= 3 and all(tick.split()[0] in ("0", "1", "2", "5", "10", "20", "50", "100", "200", "500") for tick in ticks), ticks)
    page.close()


def restored(browser, address):
    for hash_ in "#ranks?rank=3&step=5&m=waiting&sort=-compute", "#ranks?step=7":
        page = browser.open(address + hash_)
        shown = [text(page, "#ranks tr.open td:first-child"), page.run("document.querySelector('#page-ranks-0 select').value"), page.run("document.querySelector('#ranks th[aria-sort]').textContent")]
        expected = ["3", "waiting", "compute \u25be"] if "rank=3" in hash_ else ["\u25b8 2, the straggler", "step", "rank \u25b4"]
        check(f"{hash_}: a link restores the view", shown == expected and f"step {hash_.split('step=')[1][0]}" in text(page, ".ranks-two"), shown)
        page.close()
    for hash_ in "#ranks?rank=99&step=x&m=__proto__&sort=nosuch", "#ranks?rank=-1&step=-1", "#ranks?rank=1e99&step=1.5&trace=1":
        page = browser.open(address + hash_)
        check(f"{hash_} opens without an error", page.troubles() == [] and "could not be" not in text(page, "main") and text(page, "#ranks tr.open td").startswith("\u25b8 2"), "\n".join(page.troubles()))
        page.close()


SIZES = {"two": {"ranks": 2, "steps": 3, "straggler": 1}, "one-step": {"ranks": 8, "steps": 1}, "no-steps": {"ranks": 4, "steps": 0, "straggler": 2}, "many": {"ranks": 512, "steps": 60, "straggler": 37, "since": 20}, "long": {"ranks": 64, "steps": 2000, "straggler": 5, "since": 900},
         "coarse": {"ranks": 600, "steps": 420, "straggler": 599, "since": 100}}


def sizes(browser, folder, source):
    """Every size of job: drawn, not wider than the window, in both themes and on a telephone."""
    for name, job in SIZES.items():
        address = ranks_made.put_into(source, folder / f"{name}.html", **job)
        for look, how in {"wide": {}, "dark": {"dark": True}, "narrow": {"width": 375}}.items():
            page = browser.open(address, timeout=240, **how)
            settle(page)
            charts = [painted(page, f".ranks-two > :nth-child({i}) canvas") for i in (1, 2)]
            check(f"{name}, {look}: the charts are drawn, and nothing scrolls sideways", min(charts) > 4 and wide(page) <= 0, (charts, wide(page)))
            check(f"{name}, {look}: no error", page.troubles() == [] and len(rows(page)) == job["ranks"], "\n".join(page.troubles()))
            if look == "wide" and job["steps"] > 50:
                left, top, width, height = place(page, 0)
                late = page.run("document.querySelector('#ranks tr.straggler').dataset.index")
                tall = max(1, min(22, 480 // -(-job["ranks"] // -(-job["ranks"] // 512))))
                page.mouse("Moved", left + width - 30, top + 20 + (int(late) // -(-job["ranks"] // 512) + .5) * tall)
                check(f"{name}: the straggler is found with the mouse, whatever shares its pixel", tip(page).startswith(f"rank {late}, step ") and "3." in tip(page), (tip(page), late))
            shoot(page, f"ranks-{name}-{look}")
            page.close()


HOSTILE = ["</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "\u202e\x1b[31m\u2028", "__proto__", "constructor", "x" * 3000]


def hostile(browser, folder, source):
    for i, name in enumerate(HOSTILE):
        address = ranks_made.put_into(source, folder / "hostile.html", ranks=3, steps=4, straggler=1, host=name, file=name, notes=[f"Left out: {name}: {name}."] * 20)
        for width in 1280, 375:
            page = browser.open(address, width=width)
            check(f"hostile name {i}, {width} px: it is text, and no wider than the window", page.run("window.hacked === undefined && ({}).x === undefined") and wide(page) <= 0 and page.troubles() == [], (wide(page), page.troubles()))
            check(f"hostile name {i}, {width} px: of many notes the first are shown", page.run("document.querySelectorAll('.notes > ul li').length") == 6 and "14 notes more" in text(page, ".notes summary"), text(page, ".notes"))
            page.close()


def hostile_files(browser, folder):
    """The same from the files on."""
    away = folder / "'\"<b>&%d %s"
    away.mkdir()
    for rank in range(2):
        events = [{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10 * i, "dur": 5, "args": {}} for i, name in enumerate(HOSTILE)]
        (away / f"<img src=x onerror=hacked()>{rank}.json").write_text(json.dumps({"hostname": HOSTILE[rank], "distributedInfo": {"rank": rank, "world_size": 3, "backend": HOSTILE[1]}, "traceEvents": events}))
    page = browser.open(report(folder, "--ranks", away, name="files.html"))
    told = text(page, "#page-ranks-0")
    check("ranks without communication: what is not known is said", "Who waits for whom is not known" in told and "1 is missing: 2" in told, told)
    check("hostile files: their names are text", page.run("window.hacked === undefined") and HOSTILE[0] in text(page, "#ranks") and page.troubles() == [], page.troubles())
    page.close()


def empty(browser, folder, source):
    page = browser.open(ranks_made.put_into(source, folder / "started.html", ranks=4, steps=5, started=True))
    told = text(page, "#page-ranks-0")
    check("calls that were only started: who waits cannot be said", "Who waits for whom cannot be said" in told and "Nothing stands out" not in told and "Not known:" in told and page.troubles() == [], told)
    page.close()
    page = browser.open(ranks_made.put_into(source, folder / "fine.html", ranks=4, steps=5))
    check("no finding: nothing stands out", "Nothing stands out" in text(page, "#page-ranks-0") and page.troubles() == [])
    page.close()


def printed(browser, address):
    page = browser.open(address, dark=True)
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.call("Emulation.setDeviceMetricsOverride", width=700, height=1000, deviceScaleFactor=1, mobile=False)
    settle(page)
    edge = page.run("Math.max(...[...document.querySelectorAll('#ranks tr > :last-child')].map((cell) => cell.getBoundingClientRect().right))")
    check("no column is cut on paper", edge <= 700, edge)
    titles = page.run("[...document.querySelectorAll('#page-ranks-0 h2')].filter((one) => one.offsetParent).map((one) => one.textContent)")
    check("charts have their titles on paper", titles == ["How late each rank is", "Where the time goes: the mean step", "Rank 2: each step", "Ranks"], titles)
    corner = page.run("[...document.querySelector('canvas.ranks-chart').getContext('2d').getImageData(1, 1, 1, 1).data]")
    check("charts are light on paper", corner[:3] == [255, 255, 255], corner)
    page.run("dispatchEvent(new Event('afterprint'))")
    page.close()


def main():
    with tempfile.TemporaryDirectory() as name, chromium.Browser() as browser:
        folder = pathlib.Path(name)
        address, source = report(folder, "--ranks", *TRACES), folder / "report.html"
        expected = json.loads(subprocess.run([MTPROF, "ranks", "--json", *TRACES], capture_output=True, check=True).stdout)
        for look, how in {"wide": {}, "dark": {"dark": True}, "narrow": {"width": 375}}.items():
            page = browser.open(address, **how)
            check(f"{look}: the page of ranks opens first, drawn", state(page) == "" and visible(page, "ranks") > 0 and painted(page, "canvas.ranks-chart") > 8 and wide(page) <= 0, (state(page), wide(page)))
            shoot(page, f"ranks-nccl-{look}")
            for tab in OTHERS:
                open_tab(page, tab)
                check(f"{look}: {tab} is there", visible(page, tab) > 0 and wide(page) <= 0, wide(page))
            check(f"{look}: no error, request or violation", page.troubles() == [], "\n".join(page.troubles()))
            page.close()
        page = browser.open(address)
        figures(page, expected)
        mouse(page, expected)
        keyboard(page)
        check("and still no error", page.troubles() == [], "\n".join(page.troubles()))
        check("what is not there is no word", not {"false", "undefined", "null", "NaN"} & set(page.run("document.querySelector('main').innerText").split()))
        page.close()
        leads(browser, address)
        restored(browser, address)
        printed(browser, address)
        sizes(browser, folder, source)
        hostile(browser, folder, source)
        hostile_files(browser, folder)
        empty(browser, folder, source)


if chromium.find() is None:
    print("1..0 # SKIP no Chromium (Debian: chromium)")
    sys.exit(77)
main()
end()
