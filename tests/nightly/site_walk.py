"""What a browser does on the documentation site: a program of its own, run with Playwright's own environment.

`python site_walk.py ADDRESS FOLDER` reads `{"closely": [...], "others": [...]}`, paths of pages, from standard input,
and prints JSON; `FOLDER` gets the screenshots.
"""

import json
import pathlib
import sys
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
VIEWS = (("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360))
SEARCHED = "deadline_ms"


class Walk:
    """A browser on the site, and what it found."""

    def __init__(self, browser: Browser, address: str, folder: pathlib.Path) -> None:
        self.browser, self.address, self.folder = browser, address, folder
        self.hosts: set[str] = set()
        self.complaints: list[str] = []

    def page(self, scheme: str, width: int) -> Page:
        """A page of a browser of its own."""
        context = self.browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 860})  # type: ignore[arg-type]
        context.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        page = context.new_page()
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        return page

    def look(self, page: Page, path: str, scheme: str, width: int, *, closely: bool) -> dict[str, Any]:
        """Open a page: by how much it is wider than the window, and where it breaks WCAG 2.2 AA."""
        page.goto(f"{self.address}/{path}")
        page.wait_for_load_state("load")
        page.wait_for_function(
            "!document.querySelector('.md-typeset table') || !!document.querySelector('.md-typeset__table')"
        )
        beside = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found = Axe().run(page, options={"runOnly": RULES}).response["violations"] if closely else []
        if closely:
            page.screenshot(path=str(self.folder / f"{path.replace('/', '_')}-{scheme}-{width}.png"))
        broken = [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
        return {"path": path, "scheme": scheme, "width": width, "beside": beside, "broken": broken}

    def search(self) -> list[str]:
        """The titles that the search finds for a field of a request, on the first page."""
        page = self.page("light", 1280)
        page.goto(f"{self.address}/index.html")
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type(SEARCHED)
        results = page.locator(".focus-visible a")  # of the dialog, which has a tree of its own
        results.first.wait_for(timeout=30_000)
        return results.all_inner_texts()


if __name__ == "__main__":
    paths = json.load(sys.stdin)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        walk = Walk(opened, sys.argv[1], pathlib.Path(sys.argv[2]))
        seen = []
        for scheme, width in VIEWS:
            page = walk.page(scheme, width)
            seen += [walk.look(page, path, scheme, width, closely=True) for path in paths["closely"]]
            if (scheme, width) == VIEWS[2]:
                seen += [walk.look(page, path, scheme, width, closely=False) for path in paths["others"]]
            page.context.close()
        found = walk.search()
        print(json.dumps({"seen": seen, "search": found, "hosts": sorted(walk.hosts), "complaints": walk.complaints}))
        opened.close()
