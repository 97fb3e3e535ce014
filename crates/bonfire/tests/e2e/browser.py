"""Drives Chromium by its debugging pipe, with nothing but the standard library.

browser.py CHROMIUM URL CHECK...    where a check is one of
  points TITLE=COUNT    the chart of this title has so many points
  text FRAGMENT         the page says this
  moves                 the number of rounds grows, and the page was not loaded again
  until FRAGMENT        the page says this within a minute
  click SELECTOR        clicks on the first such element, or the first option of one
  keyboard              the tabulator key reaches everything that can be used
  shot FILE WIDTHxHEIGHT [dark]
Ends with an error when a check fails, when the console has an error, or when anything but the page's own address was
asked for.
"""

import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 60


class Browser:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        here, theirs = os.pipe(), os.pipe()  # What it reads, what it writes.
        command = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--window-size=1280,900",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost", "about:blank",
        ]

        def take_pipes():
            # Above both of the numbers that they are to have.
            read, write = os.dup2(here[0], 63), os.dup2(theirs[1], 62)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(command, preexec_fn=take_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(here[0])
        os.close(theirs[1])
        self.write, self.read = here[1], theirs[0]
        self.bytes, self.number, self.session = b"", 0, None
        self.requests, self.errors = [], []

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + DEADLINE_S
        while True:
            answer = self.next(until)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def next(self, until):
        while b"\0" not in self.bytes:
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser says nothing"
            part = os.read(self.read, 1 << 20)
            assert part, "the browser is gone"
            self.bytes += part
        line, self.bytes = self.bytes.split(b"\0", 1)
        message = json.loads(line)
        self.hear(message.get("method"), message.get("params", {}))
        return message

    def hear(self, method, parameters):
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(parameters["args"])[:600])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.querySelector('h1') !== null", "the page")
        self.value("window.neverLoadedAgain = true")

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result}"
        return result["result"].get("value")

    def wait(self, expression, what):
        until = time.monotonic() + DEADLINE_S
        while not self.value(expression):
            assert time.monotonic() < until, f"waited for {what} in vain: {self.value('document.body.innerText')[:2000]}"
            time.sleep(0.1)

    def close(self):
        self.process.kill()
        self.process.wait()


def charts(browser):
    pairs = browser.value("[...document.querySelectorAll('.chart:not(.empty)')].map((chart) => "
                          "[chart.querySelector('h2').textContent, Number(chart.dataset.points)])")
    return dict(pairs)


def keyboard(browser):
    """Everything that can be used is reached, one after the other."""
    wanted = browser.value("""(() => {
      const all = 'a[href], button:not([disabled]), input:not([type=radio]), input[type=radio]:checked, summary, [tabindex="0"]';
      const shown = [...document.querySelectorAll(all)].filter((e) => e.checkVisibility());
      shown.forEach((e, i) => { e.dataset.place = i; });
      return shown.length;
    })()""")
    reached = set()
    for _ in range(wanted + 5):
        for kind in ["rawKeyDown", "keyUp"]:
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        reached.add(browser.value("document.activeElement.dataset.place ?? null"))
    missing = browser.value(f"""[...document.querySelectorAll('[data-place]')]
      .filter((e) => !{json.dumps(sorted(int(place) for place in reached if place))}.includes(Number(e.dataset.place)))
      .map((e) => e.outerHTML.slice(0, 120))""")
    assert not missing, f"the keyboard does not reach {missing}"
    print(f"the keyboard reaches all {wanted} places")


def shot(browser, file, size, scheme="light"):
    width, height = map(int, size.split("x"))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
    time.sleep(0.5)
    wide = browser.value("document.documentElement.scrollWidth")
    assert wide <= width, f"the page is {wide} pixels wide on a screen of {width}"
    height = min(6000, browser.value("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    data = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
    with open(file, "wb") as out:
        out.write(base64.b64decode(data))


def check(browser, name, rest):
    if name == "points":
        title, count = rest.rsplit("=", 1)
        assert charts(browser).get(title) == int(count), f"{title}: not {count} in {charts(browser)}"
    elif name == "text":
        text = browser.value("document.body.innerText")
        assert rest in text, f"no {rest!r} in {text[:3000]}"
    elif name == "until":
        browser.wait(f"document.body.innerText.includes({json.dumps(rest)})", rest)
    elif name == "moves":
        rounds = ("Number([...document.querySelectorAll('.tile')].find((tile) => tile.textContent.startsWith('rounds'))"
                  "?.querySelector('dd').firstChild.textContent.replaceAll(',', '') ?? -1)")
        browser.wait(f"{rounds} > 0", "the first rounds")
        before = browser.value(rounds)
        browser.wait(f"{rounds} > {before}", "more rounds")
        assert browser.value("window.neverLoadedAgain"), "the page was loaded again"
    elif name == "click":
        browser.value(f"document.querySelector({json.dumps(rest)}).click()")
        time.sleep(0.3)
    elif name == "keyboard":
        keyboard(browser)
    elif name == "shot":
        shot(browser, *rest.split())
    else:
        sys.exit(f"no such check: {name}")


def main():
    browser, url = Browser(sys.argv[1]), sys.argv[2]
    try:
        browser.open(url)
        paint = browser.value("performance.getEntriesByType('paint').map((entry) => entry.startTime)[0] ?? 0")
        for argument in sys.argv[3:]:
            name, _, rest = argument.partition(" ")
            check(browser, name, rest)
        origin = "file://" if url.startswith("file:") else "/".join(url.split("/")[:3]) + "/"
        foreign = [asked for asked in browser.requests if not asked.startswith((origin, "data:"))]
        assert not foreign, f"asked for {foreign}"
        assert not browser.errors, f"the console says {browser.errors}"
        assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
        print(f"charts {charts(browser)}, first paint after {paint:.0f} ms, {len(browser.requests)} requests")
        assert paint < 3000, "late"
    finally:
        browser.close()


main()
