"""What the browser's tests share: counting, making reports, opening and reading their pages."""
import json
import pathlib
import subprocess
import sys

MTPROF, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
GOLDEN = ROOT / "tests/golden"
count = failed = 0


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}", flush=True)
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]), flush=True)


def end():
    print(f"1..{count}")
    sys.exit(failed > 0)


def report(folder, *traces, name="report.html", options=()):
    out = folder / name
    subprocess.run([MTPROF, "report", *map(str, traces), "-o", out, *options], check=True, stdout=subprocess.DEVNULL)
    return out.as_uri()


def visible(page, name):
    return page.run(f"""(() => {{ const root = document.getElementById("page-{name}-0"); return root && root.style.display !== "none" ? root.textContent.length + root.querySelectorAll("canvas").length : 0; }})()""")


def painted(page, selector):
    """How many colours a canvas shows."""
    return page.run(f"""(() => {{ const c = [...document.querySelectorAll({json.dumps(selector)})].find((one) => one.offsetParent !== null); if (!c) return 0;
        const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer); return new Set(d).size; }})()""")


def settle(page):
    page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def open_tab(page, name):
    page.run(f"""document.querySelector('#tabs [data-page="{name}"]').click()""")
    page.wait(f"""document.getElementById("page-{name}-0")?.childNodes.length > 0""")
    page.run("new Promise((done) => setTimeout(done, 150))")
    settle(page)


def shoot(page, name):
    if SHOTS:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(SHOTS / f"{name}.png")
