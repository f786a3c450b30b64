#!/usr/bin/env python3
"""Opens pages of studies in Debian's chromium, without a window, and checks what a reader would see.

Each page is shown 360 and 1200 pixels wide, light and dark. It must log no error, fetch nothing but itself, not
be wider than the window, show every chart (with marks and tooltips) at the width it is drawn for, and have text that
stands out from its background. Exit status 77 (skipped) without chromium.

    tools/check_pages.py PAGE.html... [--screenshots FOLDER]
"""
import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = (360, 1200)
SCHEMES = ("light", "dark")
SKIPPED = 77

# What the page says of itself, as JSON.
PROBE = r"""
(() => {
  const seen = element => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const light = colour => { const v = colour.match(/[\d.]+/g).map(Number); return (2*v[0] + 5*v[1] + v[2]) / 8; };
  const charts = [...document.querySelectorAll('figure')];
  const style = getComputedStyle(document.body);
  const clipped = [];
  for (const text of document.querySelectorAll('svg text')) {
    if (!seen(text)) continue;
    const t = text.getBoundingClientRect(), s = text.ownerSVGElement.getBoundingClientRect();
    if (t.left < s.left - 1 || t.right > s.right + 1 || t.top < s.top - 1 || t.bottom > s.bottom + 1)
      clipped.push(text.textContent);
  }
  return JSON.stringify({
    scroll: document.documentElement.scrollWidth, inner: innerWidth, title: document.title,
    charts: charts.length,
    shown: charts.map(c => [...c.querySelectorAll('svg')].filter(seen).length),
    marks: charts.map(c => [...c.querySelectorAll('svg')].filter(seen)
                            .flatMap(s => [...s.querySelectorAll('title')]).length),
    tables: document.querySelectorAll('table').length,
    text_size: Math.min(...[...document.querySelectorAll('svg text')].filter(seen).map(t =>
      parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width
      / t.ownerSVGElement.viewBox.baseVal.width)),
    clipped, text: light(style.color), back: light(style.backgroundColor)});
})()
"""


class Browser:
    """Chromium spoken to through pipes (DevTools protocol, messages ended by a zero byte)."""

    def __init__(self, program):
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()
        # Processes of the browser that outlive it by a moment may still write to its profile.
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

        def connect():  # the browser reads descriptor 3 and writes descriptor 4
            copies = os.dup(to_read), os.dup(from_write)
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-background-networking", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.events, self.number, self.rest, self.session = [], 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.from_read, 1 << 16)
            if not more:
                raise RuntimeError("chromium ended unexpectedly")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def close(self):
        os.close(self.to_write)
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()


def complaints(browser, url):
    """Errors the page logged and addresses it asked for."""
    for event in browser.events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield "an exception: " + parameters["exceptionDetails"]["text"]
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            yield "the log says: " + parameters["entry"]["text"]
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            yield "the console says: " + json.dumps(parameters["args"])
        elif method == "Network.requestWillBeSent" and parameters["request"]["url"] != url:
            yield "asks for " + parameters["request"]["url"]


def check(browser, page, screenshots):
    url = page.resolve().as_uri()
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                         mobile=False)
            browser.call("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.open(url)
            found = json.loads(browser.call("Runtime.evaluate", expression=PROBE)["result"]["value"])
            where = f"{page} at {width} px, {scheme}"
            for complaint in complaints(browser, url):
                yield f"{where}: {complaint}"
            if found["scroll"] > found["inner"]:
                yield f"{where}: expected a page of {found['inner']} px, found {found['scroll']} px"
            if not found["title"]:
                yield f"{where}: expected a title, found none"
            if found["charts"] == 0 or found["tables"] == 0:
                yield f"{where}: expected charts and tables, found {found['charts']} and {found['tables']}"
            if any(shown != 1 for shown in found["shown"]):
                yield f"{where}: expected one drawing of each chart, found {found['shown']}"
            if any(marks == 0 for marks in found["marks"]):
                yield f"{where}: expected tooltips in each chart, found {found['marks']}"
            if found["clipped"]:
                yield f"{where}: text outside of its chart: {found['clipped'][:5]}"
            if found["text_size"] < 9:
                yield f"{where}: expected text of 9 px or more in charts, found {found['text_size']:.1f} px"
            if (found["back"] > 128) != (scheme == "light") or abs(found["text"] - found["back"]) < 120:
                yield f"{where}: expected {scheme} colours, found text {found['text']} on {found['back']}"
            if screenshots:
                height = browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
                picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
                    "x": 0, "y": 0, "width": width, "height": height, "scale": 1})
                name = f"{page.resolve().parent.name}-{page.stem}-{width}-{scheme}.png"
                (screenshots / name).write_bytes(base64.b64decode(picture["data"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("Pages: skipped, chromium is not installed (apt-get install chromium)")
        return SKIPPED
    if given.screenshots:
        given.screenshots.mkdir(parents=True, exist_ok=True)
    browser = Browser(program)
    try:
        problems = [problem for page in given.pages for problem in check(browser, page, given.screenshots)]
    finally:
        browser.close()
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"Pages: {len(given.pages)} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
