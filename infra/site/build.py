"""Writes what the site's generator reads: every page of the navigation and what these link to, and its settings.

`python -m infra.site.build FOLDER`; `infra/bin/build-site` calls it, and the generator after it.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from infra.site import pages
from infra.site.reference import commands, errors, http, settings, topics

ROOT: Final = pathlib.Path(__file__).parents[2]
HERE: Final = ROOT / pages.ROOM
MADE: Final = {"commands": commands, "errors": errors, "http": http, "settings": settings, "topics": topics}
PAGE: Final = re.compile(r'"([^"]+\.md)"')


def navigation() -> list[str]:
    """Return the paths of the navigation, in its order."""
    return list(_leaves(tomllib.loads((HERE / "zensical.toml").read_text())["project"]["nav"]))


def _leaves(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for each in part if isinstance(part, list) else part.values() if isinstance(part, dict) else ():
        yield from _leaves(each)


def texts() -> dict[str, str]:
    """Path -> text of every page: those of the navigation, and what is linked from them, as far as links go.

    Files that are no Markdown are among them, and images, whose text is empty.
    """
    made = {f"{pages.ROOM}reference/{name}.md": module.body for name, module in MADE.items()}
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    tracked = set(subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"))
    found, waiting = dict[str, str](), navigation()
    while waiting:
        path = waiting.pop()
        if path in found or path not in tracked:
            continue
        found[path] = "" if path.endswith(pages.IMAGES) else (ROOT / path).read_text()
        if path in made:
            found[path] += made[path]()
        if path.endswith(".md"):
            waiting += [target.path for target in pages.links(found[path], path)]
    return found


def write(there: Mapping[str, str], folder: pathlib.Path) -> None:
    """Write pages, as `texts` has them, and the generator's settings into a folder, in place of what it held."""
    shutil.rmtree(folder, ignore_errors=True)
    titled = set(navigation())
    for path, text in there.items():
        file = folder / "pages" / pages.place(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(pages.IMAGES):
            shutil.copyfile(ROOT / path, file)
            continue
        is_page = path.endswith(".md")
        page = (
            pages.as_python_markdown(pages.titled(pages.rewritten(text, path, there)))
            if is_page
            else pages.shown(path, text)
        )
        file.write_text(page if path in titled else pages.unsearched(page))
    for name in ("site.css", "site.js"):
        shutil.copyfile(HERE / name, folder / "pages" / name)
    settings = (HERE / "zensical.toml").read_text()
    placed = PAGE.sub(lambda found: json.dumps(pages.place(found[1])), settings)
    (folder / "zensical.toml").write_text(placed)
    print(f"{len(there)} pages, files and images in {folder}")


if __name__ == "__main__":
    write(texts(), pathlib.Path(sys.argv[1]))
