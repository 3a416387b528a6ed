"""Headless Chromium, driven by its DevTools protocol over a pipe: no driver, no package, no network.

    with Browser() as browser:
        page = browser.open("file:///...", width=1280, height=800)
        page.run("document.title")
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, *more):
        self.profile = tempfile.TemporaryDirectory()
        ours, theirs = os.pipe(), os.pipe()  # we write to the first, and read from the second

        def connect():
            read, write = os.dup(ours[0]), os.dup(theirs[1])
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen([find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-background-networking",
                                         "--remote-debugging-pipe", "--user-data-dir=" + self.profile.name, *more, "about:blank"],
                                        close_fds=False, preexec_fn=connect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.source = ours[1], theirs[0]
        self.buffer, self.number, self.answers, self.events = b"", 0, {}, []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        try:
            self.call("Browser.close")
        except (OSError, EOFError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.source)
        self.profile.cleanup()

    def pump(self, seconds):
        """Reads what comes, for at most so long; False: nothing came."""
        if b"\0" not in self.buffer:
            if not select.select([self.source], [], [], max(0, seconds))[0]:
                return False
            data = os.read(self.source, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.buffer += data
        *whole, self.buffer = self.buffer.split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)
        return True

    def call(self, method, session=None, timeout=60, **parameters):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        until = time.monotonic() + timeout
        while number not in self.answers:
            if time.monotonic() > until:
                raise TimeoutError(f"{method}: no answer after {timeout} s")
            self.pump(until - time.monotonic())
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, address, width=1280, height=800, dark=False, wait="document.documentElement?.dataset.ready === '1'", timeout=60):
        return Page(self, address, width, height, dark, wait, timeout)


class Page:
    def __init__(self, browser, address, width, height, dark, wait, timeout):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log", "Audits":
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.began = time.monotonic()
        self.call("Page.navigate", url=address)
        if wait:
            self.wait(wait, timeout)
        self.took = time.monotonic() - self.began

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def run(self, expression):
        """The value of an expression; a promise is awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return done["result"].get("value")

    def wait(self, condition, timeout=30):
        until = time.monotonic() + timeout
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > until:
                raise TimeoutError(f"not within {timeout} s: {condition}; {self.troubles()}")
            time.sleep(.05)

    def key(self, key, shift=False):
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Enter": 13, "Tab": 9}.get(key, ord(key[0].upper()))
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        for letter in text:
            self.key(letter)

    def mouse(self, kind, x, y, button="left", **more):
        self.call("Input.dispatchMouseEvent", type="mouse" + kind, x=x, y=y, button=button if kind != "Moved" or more.get("buttons") else "none", clickCount=more.pop("clicks", 1 if kind != "Moved" else 0), **more)

    def click(self, x, y, clicks=1):
        self.mouse("Moved", x, y)
        for number in range(1, clicks + 1):
            self.mouse("Pressed", x, y, clicks=number)
            self.mouse("Released", x, y, clicks=number)

    def drag(self, x0, y0, x1, y1, modifiers=0):
        self.mouse("Moved", x0, y0)
        self.mouse("Pressed", x0, y0, modifiers=modifiers)
        for i in range(1, 6):
            self.mouse("Moved", x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5, buttons=1, modifiers=modifiers)
        self.mouse("Released", x1, y1, modifiers=modifiers)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def troubles(self):
        """What went wrong so far: errors, warnings, violations of the policy, requests other than for the page itself."""
        while self.browser.pump(.05):
            pass
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            kind, what = event["method"], event["params"]
            if kind == "Runtime.exceptionThrown":
                found.append("exception: " + (what["exceptionDetails"].get("exception", {}).get("description") or what["exceptionDetails"]["text"]))
            elif kind == "Runtime.consoleAPICalled":
                found.append("console: " + str([one.get("value", one.get("description")) for one in what["args"]]))
            elif kind == "Log.entryAdded" and "getImageData" not in what["entry"]["text"]:  # that is the test's own
                found.append("log: " + what["entry"]["text"])
            elif kind == "Audits.issueAdded" and "ContentSecurityPolicy" in what["issue"]["code"]:
                found.append("policy: " + json.dumps(what["issue"]["details"])[:300])
            elif kind == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "about:", "data:", "blob:")):
                found.append("request: " + what["request"]["url"])
            elif kind == "Page.javascriptDialogOpening":
                found.append("dialog: " + what["message"])
        return found

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
