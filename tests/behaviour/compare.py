"""`python -m tests.behaviour.compare BEFORE.json AFTER.json`: describe each difference of two records."""

import difflib
import json
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

INFORMATION = "(information)"  # in a key: what is beneath may differ
INFORMATIVE_SECTIONS = ("size", "serving", "benches", "processor")
AROUND = 60  # characters shown before and after the first difference of two long texts
LONG = 200
MISSING = "nothing"


class Difference(NamedTuple):
    """One thing that is not as it was."""

    what: str
    before: str
    after: str
    is_information: bool = False

    def __str__(self) -> str:
        return f"{self.what}\n    before: {self.before}\n    after:  {self.after}"


FILE = click.Path(exists=True, dir_okay=False, path_type=pathlib.Path)


@click.command(epilog="Example: python -m tests.behaviour.compare before.json after.json --except help")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option("--except", "left_out", metavar="A,B,...", default="", help="Sections that are not compared.")
@click.option(
    "--max",
    "limit",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Number of differences shown per section.",
)
def main(before: pathlib.Path, after: pathlib.Path, left_out: str, limit: int) -> None:
    """Describe what AFTER does differently from BEFORE. The exit status is 1 if there is a difference."""
    old, new = (json.loads(path.read_text()) for path in (before, after))
    excepted = {name for name in left_out.split(",") if name}
    if unknown := sorted(excepted - {*old["sections"], *new["sections"]}):
        raise click.UsageError(f"neither record has a section {', '.join(unknown)}")
    click.echo(f"before: {old['commit']}\nafter:  {new['commit']}")
    counts = Counter[bool]()
    for name in [name for name in {**old["sections"], **new["sections"]} if name not in excepted]:
        found = list(differences(name, old["sections"].get(name), new["sections"].get(name)))
        counts.update(each.is_information for each in found)
        _report(name, found, limit)
    click.echo(f"{counts[False]} differences, {counts[True]} notes, not compared: {', '.join(excepted) or 'nothing'}")
    sys.exit(1 if counts[False] else 0)


def _report(name: str, found: list[Difference], limit: int) -> None:
    wrong, notes = [each for each in found if not each.is_information], [each for each in found if each.is_information]
    click.echo(f"\n== {name}: {f'{len(wrong)} differences' if wrong else 'the same'}")
    for each in wrong[:limit]:
        click.echo(f"- {each}")
    if len(wrong) > limit:
        click.echo(f"- and {len(wrong) - limit} more: see --max")
    for each in notes[:limit]:
        click.echo(f"  note: {each.what}: {each.before} -> {each.after}")


def differences(section: str, before: Any, after: Any) -> Iterator[Difference]:
    """Compare two records of one section. A record of None means that the section was not recorded."""
    if before is None or after is None:
        was, now = (MISSING if each is None else "recorded" for each in (before, after))
        yield Difference(f"section {section}", was, now)
        return
    if section == "tests":
        moved, before, after = _without_moved(before, after)
        yield from moved
    for each in _between(section, before, after):
        yield each._replace(is_information=section in INFORMATIVE_SECTIONS or INFORMATION in each.what)


def _between(what: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _between_tables(what, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _between_lists(what, before, after)
    elif before == after:
        return
    elif isinstance(before, str) and isinstance(after, str):
        yield _between_texts(what, before, after)
    else:
        yield Difference(what, _describe(before), _describe(after))


def _between_tables(what: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    for key in {**before, **after}:
        place = f"{what} / {key}"
        if key not in after:
            yield Difference(place, _describe(before[key]), MISSING)
        elif key not in before:
            yield Difference(place, MISSING, _describe(after[key]))
        else:
            yield from _between(place, before[key], after[key])
    common = [key for key in before if key in after]
    if common != (others := [key for key in after if key in before]):
        yield Difference(f"{what}, the order of its keys", _describe(common), _describe(others))


def _between_lists(what: str, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    if len(before) == len(after):
        for nth, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _between(f"{what} / {nth}", old, new)
        return
    old, new = (Counter(json.dumps(each, ensure_ascii=False) for each in values) for values in (before, after))
    for each in (old - new).elements():
        yield Difference(what, _describe(each), MISSING)
    for each in (new - old).elements():
        yield Difference(what, MISSING, _describe(each))


def _between_texts(what: str, before: str, after: str) -> Difference:
    if "\n" in before or "\n" in after:
        lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
        gone, new = (" | ".join(line[2:].strip() for line in lines if line.startswith(mark)) for mark in "-+")
        return Difference(what, gone or MISSING, new or MISSING)
    if max(len(before), len(after)) <= LONG:
        return Difference(what, before or '""', after or '""')
    at = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    was, now = (
        f"{len(text)} characters, at {at}: {text[max(0, at - AROUND) : at + AROUND]}" for text in (before, after)
    )
    return Difference(what, was, now)


def _describe(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONG else f"{text[:LONG]}... ({len(text)} characters)"


def _without_moved(before: Any, after: Any) -> tuple[list[Difference], Any, Any]:
    """Pair tests that kept name and outcome but stand in a file of another name: one note per pair of files."""
    old, new = ({**each["ids"]} for each in (before, after))
    files = Counter[tuple[str, str]]()
    free: dict[tuple[str, str], list[str]] = {}
    for test in [test for test in new if test not in old]:
        free.setdefault((_name(test), json.dumps(new[test], sort_keys=True)), []).append(test)
    for test in [test for test in old if test not in new]:
        if found := free.get((_name(test), json.dumps(old[test], sort_keys=True))):
            other = found.pop(0)
            files[_file(test), _file(other)] += 1
            del old[test], new[other]
    notes = [
        Difference(f"tests / {count} of a file", was, now, is_information=True) for (was, now), count in files.items()
    ]
    return notes, before | {"ids": old}, after | {"ids": new}


def _file(test: str) -> str:
    return test.partition("::")[0]


def _name(test: str) -> str:
    return test.partition("::")[2]


if __name__ == "__main__":
    main()
