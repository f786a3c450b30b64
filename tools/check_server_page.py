#!/usr/bin/env python3
"""Uses the page of a running `elmo serve` in Debian's chromium, without a window, as a reader would.

Types a text, asks why, searches labels, looks at the run, by mouse and by keyboard; at 360 and 1200 pixels, light and
dark. The page must log no error, ask only its own server, not be wider than the window, and have text that stands out
from its background. Exit status 77 (skipped) without chromium.

    tools/check_server_page.py http://127.0.0.1:PORT/ TEXT [--screenshots FOLDER]
"""
import argparse
import base64
import json
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from check_pages import SCHEMES, SKIPPED, WIDTHS, Browser, complaints  # noqa: E402

# Waits for changes of the page, not for time; a page that never gets there fails after a minute.
TOOLS = r"""
window.until = test => Promise.race([new Promise(done => {
  const look = () => { const value = test(); if (value) { observer.disconnect(); done(value); } };
  const observer = new MutationObserver(look);
  observer.observe(document.documentElement, {subtree: true, childList: true, attributes: true, characterData: true});
  look();
}), new Promise((_, fail) => setTimeout(() => fail(new Error('never: ' + test)), 60000))]);
window.seen = id => { const box = document.getElementById(id).getBoundingClientRect(); return box.width > 0 && box.height > 0; };
window.press = (element, key) => element.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
"""
ASK = r"""(async text => {
  await until(() => document.getElementById('model').options.length > 0);
  const field = document.getElementById('text');
  field.value = text;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  const why = await until(() => document.querySelector('#answers button'));
  const bars = document.querySelectorAll('.bar i').length;
  why.click();
  const marks = (await until(() => document.querySelector('.why mark') && document.querySelectorAll('.why mark'))).length;
  return {bars, marks, expanded: why.ariaExpanded};
})"""
LABELS = r"""(async () => {
  press(document.getElementById('tab-ask'), 'ArrowRight');
  await until(() => document.querySelector('#found-labels tr'));
  document.querySelector('#found-labels button').click();
  const near = (await until(() => document.querySelector('.near li') && document.querySelectorAll('.near li'))).length;
  return {shown: seen('labels'), near, errs: document.querySelector('tr.detail').textContent.includes('errs') || document.querySelector('tr.detail').textContent.includes('recall'), rows: document.querySelectorAll('#found-labels tr').length,
          focus: document.activeElement.id, found: document.getElementById('found').textContent};
})"""
RUN = r"""(async () => {
  document.getElementById('tab-run').click();
  await until(() => document.querySelector('#run table'));
  return {shown: seen('run'), charts: document.querySelectorAll('#run svg').length, tables: document.querySelectorAll('#run table').length};
})"""
LOOK = r"""(() => {
  const light = colour => { const v = colour.match(/[\d.]+/g).map(Number); return (2*v[0] + 5*v[1] + v[2]) / 8; };
  const style = getComputedStyle(document.body);
  return JSON.stringify({scroll: document.documentElement.scrollWidth, inner: innerWidth, text: light(style.color),
    back: light(style.backgroundColor), error: document.getElementById('error').textContent});
})()"""


def evaluate(browser, expression):
    answer = browser.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
    if "exceptionDetails" in answer:
        raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
    return answer["result"].get("value")


def check(browser, url, text, screenshots):
    for width in WIDTHS:
        for scheme in SCHEMES:
            where = f"{url} at {width} px, {scheme}"
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                         mobile=width < 500)
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.open("about:blank")
            browser.open(url)
            evaluate(browser, TOOLS)
            for view, steps in (("ask", f"{ASK}({json.dumps(text)})"), ("labels", LABELS + "()"), ("run", RUN + "()")):
                found = evaluate(browser, steps)
                if any(not value for value in found.values() if value != "labels"):
                    yield f"{where}: expected all of {view}, found {found}"
                look = json.loads(evaluate(browser, LOOK))
                if look["scroll"] > look["inner"]:
                    yield f"{where}, {view}: expected a page of {look['inner']} px, found {look['scroll']} px"
                if look["error"]:
                    yield f"{where}, {view}: the page says {look['error']}"
                if (look["back"] > 128) != (scheme == "light") or abs(look["text"] - look["back"]) < 120:
                    yield f"{where}: expected {scheme} colours, found text {look['text']} on {look['back']}"
                if screenshots:
                    height = max(900, browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"])
                    picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
                        "x": 0, "y": 0, "width": width, "height": height, "scale": 1})
                    (screenshots / f"{view}-{width}-{scheme}.png").write_bytes(base64.b64decode(picture["data"]))
            for complaint in complaints(browser, url):
                if not complaint.startswith("asks for " + url) and not complaint.startswith("asks for data:"):
                    yield f"{where}: {complaint}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("text")
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("Page: skipped, chromium is not installed (apt-get install chromium)")
        return SKIPPED
    if given.screenshots:
        given.screenshots.mkdir(parents=True, exist_ok=True)
    browser = Browser(program)
    try:
        problems = list(check(browser, given.url, given.text, given.screenshots))
    finally:
        browser.close()
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"Page: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
