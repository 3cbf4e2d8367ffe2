"""Pages of the repository as pages of the site: where each lies there, and its text with its links rewritten.

Pure: texts and names in, texts and names out.
"""

import os.path
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

ROOM: Final = "infra/site/"  # whose pages lie at the site's top
SOURCE: Final = "source/"  # below which files of the repository are shown that are no Markdown
IMAGES: Final = (".png", ".svg", ".jpg")
WORDS: Final = r"(?:[^\[\]]|\[[^\[\]]*\])*"
LINK: Final = re.compile(rf"!?\[(?P<words>{WORDS})\]\((?P<path>[^)#:\s]*)(?P<heading>#[^)\s]*)?\)")
FILE: Final = re.compile(r"[\w/.-]+\.md")
ITEM: Final = re.compile(r"\s*(?:[-*]|\d+\.) ")
FENCE: Final = re.compile(r"\s*```")
CODE: Final = re.compile(r"^ *(`{3,}).*?^ *\1 *$|(`+)[^`]+?\2", re.M | re.S)


class Target(NamedTuple):
    """What a link of a page leads to."""

    path: str  # of a file or folder of the repository
    heading: str  # with its #; "": the whole


def place(path: str) -> str:
    """Return where a file of the repository lies on the site: `agents/README.md` is `agents/index.md`."""
    if path.endswith(IMAGES):
        return path
    if not path.endswith(".md"):
        return f"{SOURCE}{path}.md"
    if path == "README.md":
        return "project.md"  # the site's first page is another
    if path != f"{ROOM}README.md":
        path = path.removeprefix(ROOM)
    return path.lstrip(".").lower().replace("/readme.md", "/index.md")


def links(text: str, page: str) -> Iterator[Target]:
    """Yield the links of a page of the repository to files of it, and to its own headings."""
    for found in LINK.finditer(_without_code(text)):
        yield _target(found, page)


def rewritten(text: str, page: str, there: Mapping[str, str]) -> str:
    """Return a page with links to places of the site.

    A link to what is not on it, as a folder, is its words alone. Where the words are the name of a page's file, its
    title stands in their place. `there`: path in the repository -> text of what is on the site.
    """
    for found in reversed(list(LINK.finditer(_without_code(text)))):
        target = _target(found, page)
        if target.path in there:
            way = posixpath.relpath(place(target.path), posixpath.dirname(place(page)) or ".")
            words = title(there[target.path]) if FILE.fullmatch(found["words"]) else text[slice(*found.span("words"))]
            before, between = text[: found.start("words")], text[found.end("words") : found.start("path")]
            text = f"{before}{words}{between}{way}{target.heading}){text[found.end() :]}"
        else:
            text = text[: found.start()] + text[found.start("words") : found.end("words")] + text[found.end() :]
    return text


def title(text: str) -> str:
    """Return the title of a page, without the path that a room's begins with; "" if it has none."""
    found = re.search(r"^# (?:[a-z_]+(?:[/-][a-z_]+)+: )?(.*)$", _without_code(text), re.M)
    return text[found.start(1) : found.end(1)][:1].upper() + text[found.start(1) + 1 : found.end(1)] if found else ""


def titled(text: str) -> str:
    """Return a page whose first heading is its title."""
    return re.sub(r"^# .*$", lambda _: f"# {title(text)}", text, count=1, flags=re.M)


def as_python_markdown(text: str) -> str:
    """Return a page as Python-Markdown must have it to read what a forge reads.

    A list has an empty line before it, what belongs to an item is indented by four, and in a cell's code a bar is bare.
    """
    written, before, shift = list[str](), "", None
    for line in text.splitlines():
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if shift is None:
            if ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith(" "):
                written.append("")
            if bare.startswith("|"):
                bare = CODE.sub(lambda code: code[0].replace("\\|", "|"), bare)
            written.append(" " * (indent // 2 * 4) + bare)
        else:  # a block of code moves as its first line does
            written.append(" " * shift + line if bare else "")
        if FENCE.match(line):
            shift = indent // 2 * 4 - indent if shift is None else None
        before = line
    return "\n".join(written) + "\n"


def shown(path: str, text: str) -> str:
    """Return the page that shows a file which is no Markdown."""
    return f"# {path}\n\n``````{os.path.splitext(path)[1][1:]}\n{text.rstrip()}\n``````\n"


def unsearched(text: str) -> str:
    """Return a page that the search passes over. What a page states before its text stays there."""
    stated, rest = text.removeprefix("---\n").split("---\n", 1) if text.startswith("---\n") else ("", text)
    return f"---\n{stated}search:\n  exclude: true\n---\n{rest}"


def _target(found: re.Match[str], page: str) -> Target:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), found["path"])) if found["path"] else page
    return Target(path, found["heading"] or "")


def _without_code(text: str) -> str:
    """The text with dots in place of its code, so that what is found in it stands where it stands in the text."""
    return CODE.sub(lambda code: re.sub(r"[^\n]", ".", code[0]), text)
