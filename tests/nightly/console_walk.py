"""What a browser does on the console: a program of its own, run with Playwright's own environment, not by pytest.

`python console_walk.py ADDRESS FOLDER STEP` prints JSON; `FOLDER` gets the screenshots. A step that waits for the test
prints a word on a line of its own, and goes on as the page says so.
"""

import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
SCREENS = ("/", "/requests", "/gallery", "/try", "/fleet", "/plan", "/quality", "/dead-letters", "/checks", "/what-if")
NOWHERE = "/nothing"  # a page that there is not: the browser says so
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
WAIT_MS = 60_000
COMMAND_MS = 330_000  # a command of the page, on a busy machine; above the console's own limit in this test
CUT = "Math.max(0, ...[...document.querySelectorAll('.scroll')].map((each) => each.scrollWidth - each.clientWidth))"
HAS_DRAFT = "document.querySelector('.status.completed, figure.draft') !== null"
Step = Callable[["Walk"], Any]


class Walk:
    """One browser at one console, and what went wrong on its pages."""

    def __init__(self, browser: Browser, address: str, folder: pathlib.Path) -> None:
        self.browser, self.address, self.folder = browser, address, folder
        self.complaints: list[str] = []
        self.hosts: set[str] = set()

    def context(self, **options: Any) -> BrowserContext:
        """A browser of its own, whose complaints are noted."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        context.set_default_timeout(WAIT_MS)
        context.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        return context

    def page(self, **options: Any) -> Page:
        """A page whose complaints are noted."""
        page = self.context(**options).new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        return page

    def _said(self, said: ConsoleMessage) -> None:
        if said.type == "error" and not said.location["url"].endswith(NOWHERE):
            self.complaints.append(f"{said.text} at {said.location['url']}")

    def go(self, page: Page, path: str) -> None:
        """Open a page of the console."""
        page.goto(self.address + path)

    def shot(self, page: Page, name: str, *, is_whole: bool = True) -> None:
        """Keep a picture of a page, as it is."""
        page.screenshot(path=str(self.folder / f"{name}.png"), full_page=is_whole, animations="disabled")


def until(page: Page, expression: str) -> None:
    """Wait for something on a page; Playwright's own way evaluates a text there, which the console's policy forbids."""
    end_s = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end_s, f"not in time: {expression}"
        page.wait_for_timeout(50)


def an_escalated(walk: Walk, page: Page) -> str:
    """The address of a request that was escalated, the newest in the list."""
    walk.go(page, "/requests?escalated=yes")
    return str(page.locator("td.id a").first.get_attribute("href"))


def screens(walk: Walk) -> Any:
    """Every screen in the light and in the dark, wide and narrow: held to WCAG 2.2 AA, nothing beside the page."""
    found = []
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)):
        page = walk.page(color_scheme=scheme, viewport={"width": width, "height": 860})
        for path in (*SCREENS, an_escalated(walk, page), NOWHERE):
            walk.go(page, path)
            page.wait_for_load_state("load")
            painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
            until(page, f"{painted} >= 0")
            violations = Axe().run(page, options={"runOnly": RULES}).response["violations"]
            found.append(
                {
                    "path": path, "scheme": scheme, "width": width, "paint_ms": page.evaluate(painted),
                    "answered_ms": page.evaluate("performance.getEntriesByType('navigation')[0].responseEnd"),
                    "overflow": page.evaluate("document.documentElement.scrollWidth") - width,
                    "cut": page.evaluate(CUT),
                    "violations": [(each["id"], each["nodes"][0]["html"][:200]) for each in violations],
                }
            )  # fmt: skip
            name = "request" if path.startswith("/requests/") else path.strip("/") or "now"
            walk.shot(page, f"{name}-{scheme}-{width}")
        page.context.close()
    return found


def draft(walk: Walk) -> Any:
    """Ask for images until one is escalated; its draft is seen while it waits for heavy, then refined, unreloaded."""
    page, tries = walk.page(), 0
    while True:
        tries += 1
        _ask(walk, page, f"a red heart above {tries} blue boats and a small yellow star on the beach")
        until(page, HAS_DRAFT)
        if page.locator("figure.draft").count() and page.locator(".status.completed").count() == 0:
            break
        assert tries < 40, "none was escalated"
    page.locator("figure.draft img").first.wait_for()
    waits = page.locator(".status").first.inner_text()
    walk.shot(page, "draft")
    other = walk.page()
    cancelled = _cancelled(walk, other, page.url)
    page.evaluate("window.wasNotReloaded = true")
    print("draft", flush=True)  # the test lets heavy go on
    page.locator("figure.image img").first.wait_for()
    page.locator(".status.completed").first.wait_for()
    walk.shot(page, "refined")
    return {
        "tries": tries, "waits": waits, "ended": page.locator(".status").first.inner_text(), "cancelled": cancelled,
        "pictures": page.locator(".images figure").count(), "same": page.evaluate("window.wasNotReloaded === true"),
        "bars": page.locator(".timeline .what").all_inner_texts(),
    }  # fmt: skip


def _ask(walk: Walk, page: Page, prompt: str) -> None:
    walk.go(page, "/try")
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/try?*said=*")
    page.get_by_role("link", name="How it was made").click()
    page.wait_for_url("**/requests/*")


def _cancelled(walk: Walk, page: Page, kept: str) -> dict[str, Any]:
    """Cancel a request that waits: what the console answers, and how many buttons cancel it once it has ended."""
    for tries in range(60):
        _ask(walk, page, f"two green fish and {tries} purple moons")
        until(page, HAS_DRAFT)
        if page.locator(".status.completed").count() == 0:
            break
    assert page.url != kept
    page.get_by_role("button", name="Cancel").click()
    page.locator("p.said").wait_for()
    first = page.locator("p.said").inner_text()
    page.locator(".status.cancelled").first.wait_for()
    return {"waiting": first, "ended": page.locator("#cancel:visible").count()}


def orders(walk: Walk) -> Any:
    """What limits the plan, shadow, pin, roll back, unpin; an audit, a simulation, an estimate: all from the pages."""
    page, told = walk.page(), {}
    page.set_default_timeout(COMMAND_MS)

    def heading() -> str:
        return page.locator("main").inner_text()

    walk.go(page, "/plan")
    first = page.locator(".plan.big b").inner_text()
    page.get_by_role("button", name="What limits the plan").click()
    page.get_by_role("heading", name="What limits the plan").wait_for()
    told["explained"] = heading()
    walk.go(page, "/plan")
    page.get_by_label("Policy").select_option("joint")
    page.get_by_role("button", name="Shadow").click()
    page.get_by_role("heading", name="What joint would plan now").wait_for()
    walk.go(page, "/plan")
    page.get_by_label("Policy").select_option("clipper-heavy")
    page.get_by_role("button", name="Pin, dry run", exact=True).click()
    page.get_by_role("heading", name="Pin clipper-heavy?").wait_for()
    walk.shot(page, "dry-run")
    told["tried"] = heading()
    page.get_by_role("button", name="Confirm").click()
    page.locator(".plan.big b", has_text="clipper-heavy").wait_for()
    told["pinned"] = page.locator(".plan.big").inner_text()
    link = page.locator("tr", has=page.get_by_text(first, exact=True)).get_by_text("roll back", exact=True).first
    link.click()
    page.get_by_role("heading", name="Roll back to plan").wait_for()
    page.get_by_role("button", name="Confirm").click()
    page.locator(".plan.big", has_text="rolled back").locator("b", has_text=first).wait_for()
    told["rolled"] = page.locator(".plan.big").inner_text()
    walk.shot(page, "plan")
    page.get_by_role("button", name="Unpin, dry run").click()
    page.get_by_role("heading", name="Unpin").wait_for()
    page.get_by_role("button", name="Confirm").click()
    until(page, "!document.querySelector('.plan.big').innerText.includes('rolled back')")
    walk.go(page, "/checks")
    page.get_by_role("button", name="Audit").click()
    page.locator("p.said").wait_for()
    told["audit"] = page.locator("p.said").inner_text()
    told["actions"] = page.locator("table.list").last.inner_text()
    walk.go(page, "/what-if")
    page.get_by_role("button", name="Simulate").click()
    page.locator("#h-found, p.said.bad").first.wait_for()
    told["simulated"] = heading()
    walk.shot(page, "simulated")
    walk.go(page, "/what-if")
    page.get_by_role("button", name="Estimate").click()
    page.locator("#h-found, p.said.bad").first.wait_for()
    told["estimated"] = heading()
    return told


def keyboard(walk: Walk) -> Any:
    """By keys alone: into a request, and through a form; the focus is seen, and live news keep it."""
    page = walk.page()
    walk.go(page, "/")
    page.keyboard.press("Tab")
    skip = page.evaluate("document.activeElement.className")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        style = (
            "(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.outlineWidth })()"
        )
        seen.append([page.evaluate("document.activeElement.innerText?.slice(0, 20) ?? ''"), page.evaluate(style)])
        if seen[-1][0] == "Requests":
            page.keyboard.press("Enter")
            page.wait_for_url("**/requests")
            break
    page.locator("td.id a").first.focus()
    href = page.evaluate("document.activeElement.getAttribute('href')")
    page.wait_for_timeout(3500)  # three looks for news: the list is rendered anew, its times have changed
    kept = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    page.wait_for_url("**/requests/*")
    walk.go(page, "/try")
    page.get_by_label("Prompt", exact=True).focus()
    page.keyboard.type("a red heart, typed")
    while page.evaluate("document.activeElement.innerText ?? ''") != "Submit":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/try?*said=*")
    walk.go(page, "/")
    page.get_by_role("button", name="Live").focus()
    page.keyboard.press("Enter")
    paused = page.locator("#pause").get_attribute("aria-pressed")
    return {"skip": skip, "seen": seen, "asked": href, "kept": kept, "paused": paused}


def without_script(walk: Walk) -> Any:
    """With JavaScript off: every screen is read, filters filter, forms send."""
    page = walk.page(java_script_enabled=False)
    words = {}
    for path in SCREENS:
        walk.go(page, path)
        words[path] = len(page.locator("main").inner_text())
    walk.go(page, "/requests")
    page.get_by_label("Status").select_option("COMPLETED")
    page.get_by_role("button", name="Filter").click()
    rows = page.locator("tbody tr").count()
    page.get_by_text("Submit a request").click()
    page.get_by_label("Prompt", exact=True).fill("a red heart without a script")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/try?*said=*")
    said = page.locator("p.said").inner_text()
    walk.go(page, "/requests?before=" + str(int(time.time() * 1000)) + "-x")
    return {"words": words, "rows": rows, "said": said, "live": page.locator(".live:visible").count()}


def hostile(walk: Walk) -> Any:
    """Requests whose prompts mean harm: read on each page, none runs, none widens the page."""
    found = []
    for width in (1280, 360):
        page = walk.page(viewport={"width": width, "height": 860})
        walk.go(page, "/requests?tenant=hostile")
        links = [str(each.get_attribute("href")) for each in page.locator("td.id a").all()]
        for path in ("/requests?tenant=hostile", "/gallery?tenant=hostile", "/", *links):
            walk.go(page, path)
            page.wait_for_timeout(300)
            overflow = page.evaluate("document.documentElement.scrollWidth") - width
            ran = page.evaluate(
                "window.hacked === true || document.querySelector('main script, main [onerror]') !== null"
            )
            found.append({"path": path, "width": width, "overflow": overflow, "ran": ran})
        walk.go(page, "/requests?tenant=hostile")
        walk.shot(page, f"hostile-{width}")
        walk.go(page, "/gallery?tenant=hostile")
        walk.shot(page, f"hostile-gallery-{width}")
    return {"pages": found, "requests": len(links)}


def letters(walk: Walk) -> Any:
    """Redrive the first dead letter that is offered, from its page: what the dry run says, and what came of it."""
    page = walk.page()
    walk.go(page, "/dead-letters")
    page.get_by_role("checkbox").first.check()
    walk.shot(page, "dead-letters")
    page.get_by_role("button", name="Redrive, dry run").click()
    page.get_by_role("heading", name="Redrive one dead letter?").wait_for()
    tried = page.locator("main").inner_text()
    page.get_by_role("button", name="Confirm").click()
    page.locator("p.said").wait_for()
    return {"tried": tried, "sent": page.locator("p.said").inner_text(), "ran": page.evaluate("window.hacked === true")}


def ten_thousand(walk: Walk) -> Any:
    """Scroll the list to its end: each request once, and no task of the page that is felt."""
    page = walk.page()
    page.add_init_script(
        "window.longest = 0; new PerformanceObserver((list) => list.getEntries().forEach((each) => "
        "{ window.longest = Math.max(window.longest, each.duration) })).observe({ type: 'longtask', buffered: true })"
    )
    walk.go(page, "/requests?tenant=many")
    begun_s = time.monotonic()
    while page.locator("#next").count():
        page.mouse.wheel(0, 20_000)
        page.wait_for_timeout(30)
        assert time.monotonic() - begun_s < 240, page.locator("td.id a").count()
    hrefs = page.evaluate("[...document.querySelectorAll('td.id a')].map((each) => each.getAttribute('href'))")
    return {
        "rows": len(hrefs), "once": len(set(hrefs)), "s": time.monotonic() - begun_s,
        "longest_task_ms": page.evaluate("window.longest"), "paused": page.locator("#pause").inner_text(),
    }  # fmt: skip


def restart(walk: Walk) -> Any:
    """A page stays open while the broker restarts, and then shows a request that came after, unreloaded."""
    page = walk.page()
    walk.go(page, "/requests?tenant=after")
    page.evaluate("window.wasNotReloaded = true")
    print("open", flush=True)  # the test restarts the broker, then sends a request of this tenant
    page.locator("td.id a").first.wait_for(timeout=240_000)
    page.locator(".status.completed").first.wait_for(timeout=120_000)
    return {"same": page.evaluate("window.wasNotReloaded === true")}


def pictures(walk: Walk) -> Any:
    """The README's screenshots."""
    page = walk.page(device_scale_factor=1.5, viewport={"width": 1180, "height": 760})
    walk.go(page, "/")
    page.wait_for_timeout(1500)
    walk.shot(page, "console-now", is_whole=False)
    walk.go(page, an_escalated(walk, page))
    page.wait_for_timeout(500)
    walk.shot(page, "console-request", is_whole=False)
    dark = walk.page(device_scale_factor=1.5, viewport={"width": 1180, "height": 760}, color_scheme="dark")
    walk.go(dark, "/gallery")
    dark.wait_for_timeout(1500)
    walk.shot(dark, "console-gallery", is_whole=False)
    return True


STEPS: dict[str, Step] = {
    each.__name__: each
    for each in (screens, draft, orders, keyboard, without_script, hostile, letters, ten_thousand, restart, pictures)
}

if __name__ == "__main__":
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        walking = Walk(opened, sys.argv[1], pathlib.Path(sys.argv[2]))
        answer = STEPS[sys.argv[3]](walking)
        print(json.dumps({"found": answer, "complaints": walking.complaints, "hosts": sorted(walking.hosts)}))
        opened.close()
