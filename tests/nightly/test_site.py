"""The documentation site is built; its links, hosts and search, a browser on its pages; the tutorial is run."""

import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from infra.site import build, pages
from tests.integration.pages import blocks, run_by_hand
from tests.nightly.test_console import CHROMIUM, browser_python
from tests.paths import ROOT

WALK = ROOT / "tests" / "nightly" / "site_walk.py"
TUTORIAL = "infra/site/tutorial.md"
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "srcset")}
OF_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?(https?:)?//")
OUT = os.environ.get("TEST_SITE_OUT")


class Read(HTMLParser):
    """What a page links to, what a browser loads for it, and the places in it that links may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.loaded, self.ids = list[str](), list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif (tag, name) in LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        ["infra/bin/build-site", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=550
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def read(html: pathlib.Path) -> dict[pathlib.Path, Read]:
    """File -> what is in it."""
    return {file: Read(file.read_text()) for file in html.rglob("*.html") if file.name != "404.html"}


def test_each_page_of_the_navigation_is_built(html: pathlib.Path) -> None:
    missing = [path for path in build.navigation() if not (html / built_as(path)).is_file()]
    assert not missing


def built_as(path: str) -> str:
    return pages.place(path).removesuffix(".md") + ".html"


def test_no_link_and_no_anchor_is_broken(read: dict[pathlib.Path, Read]) -> None:
    followed, broken = 0, []
    for file, found in read.items():
        for link in [*found.links, *found.loaded]:
            asked = urllib.parse.urlsplit(link)
            if asked.scheme or asked.netloc:
                continue
            there = (file.parent / urllib.parse.unquote(asked.path)).resolve() if asked.path else file
            place = urllib.parse.unquote(asked.fragment)
            followed += 1
            is_named = not place or there not in read or place in read[there].ids
            if not there.is_file() or not is_named:
                broken.append(f"{file}: {link}")
    assert not broken, broken[:20]
    assert followed > 5_000


def test_a_browser_loads_nothing_from_another_host(html: pathlib.Path, read: dict[pathlib.Path, Read]) -> None:
    loaded = {link for found in read.values() for link in found.loaded}
    assert not [link for link in loaded if urllib.parse.urlsplit(link).netloc]
    styles = [file for file in html.rglob("*.css") if OF_STYLES.search(file.read_text())]
    assert not styles


@pytest.fixture
def address(html: pathlib.Path) -> Iterator[str]:
    """A server of the site, on this machine alone."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium: apt-get install chromium")
@pytest.mark.timeout(3600)
def test_in_a_browser_pages_fit_meet_wcag_and_are_found(
    address: str, read: dict[pathlib.Path, Read], html: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    closely = [built_as(path) for path in build.navigation()]
    others = sorted({str(file.relative_to(html)) for file in read} - set(closely))
    found = walked(address, pathlib.Path(OUT) if OUT else tmp_path, {"closely": closely, "others": others})
    assert found["hosts"] == [address.removeprefix("http://")]
    assert found["complaints"] == []
    assert [each for each in found["seen"] if each["beside"] > 0] == []
    assert [each for each in found["seen"] if each["broken"]] == []
    assert any("options of a request" in each for each in found["search"])


def walked(address: str, out: pathlib.Path, paths: dict[str, list[str]]) -> Any:
    """What a browser found."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["NO_PROXY"] = environment["no_proxy"] = "127.0.0.1"
    done = subprocess.run(
        [browser_python(), str(WALK), address, str(out)], input=json.dumps(paths), capture_output=True, text=True,
        env=environment, check=False, timeout=3500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(900)
def test_the_tutorial_works_block_by_block(new_home: Callable[[], pathlib.Path]) -> None:
    told, place = run_by_hand(new_home(), blocks(TUTORIAL))
    assert (place / "hearts.png").read_bytes()[:4] == b"\x89PNG"
    assert told.count("COMPLETED") >= 40
