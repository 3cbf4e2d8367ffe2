"""`python -m tests.behaviour.record OUT.json`: write down how this tree behaves, for `tests.behaviour.compare`."""

import json
import logging
import pathlib
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.behaviour.tree import ROOT, Tree, prepared

COLUMNS = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
Section = Callable[[Tree, Callable[[Sequence[Any]], Iterable[Any]]], Any]


@click.command(epilog="Example: python -m tests.behaviour.record before.json --sections messages,plans")
@click.argument("out", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.option(
    "--sections", "asked", metavar="A,B,...", default="", help="Sections to record (default: the quick ones)."
)
@click.option(
    "--junit", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    help="Report that pytest wrote with --junitxml, with the outcomes for the section `tests`; may be repeated.",
)  # fmt: skip
def main(out: pathlib.Path, asked: str, junit: tuple[pathlib.Path, ...]) -> None:
    """Write how this tree behaves to OUT. Run it in the root of the tree, and edit nothing meanwhile."""
    logging.disable()  # the sections provoke errors, which the roles log
    with prepared() as tree:
        from tests.behaviour.sections import LONG, sections  # imports the tree's own modules

        chosen = _chosen(sections(junit), asked, LONG)
        with Progress(*COLUMNS, console=Console(stderr=True)) as progress:
            found, took_s, failed = _recorded(tree, chosen, progress)
    content = {"commit": _commit(), "took_s": took_s, "sections": found}
    out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    for name, seconds in took_s.items():
        click.echo(f"{name}: {seconds:g} s")
    if failed:
        raise SystemExit(f"not recorded: {', '.join(failed)}")


def _chosen(known: dict[str, Section], asked: str, long: Sequence[str]) -> dict[str, Section]:
    names = [name for name in asked.split(",") if name]
    if unknown := sorted({*names} - {*known}):
        raise click.UsageError(f"there is no section {', '.join(unknown)}: there are {', '.join(known)}")
    return {name: section for name, section in known.items() if name in names or not (names or name in long)}


def _recorded(
    tree: Tree, chosen: dict[str, Section], progress: Progress
) -> tuple[dict[str, Any], dict[str, float], list[str]]:
    """Run the sections: their records, the seconds each took, and the names of those that raised."""
    found: dict[str, Any] = {}
    took_s: dict[str, float] = {}
    failed = []
    for name, section in chosen.items():
        task = progress.add_task(name, total=1)
        begun_s = time.monotonic()
        try:
            found[name] = section(tree, _tracker(progress, task))
        except Exception:
            progress.console.print(f"[red]{name} could not be recorded[/red]")
            progress.console.print(traceback.format_exc(), markup=False, highlight=False)
            failed.append(name)
        took_s[name] = round(time.monotonic() - begun_s, 1)
        progress.update(task, completed=progress.tasks[task].total)
    return found, took_s, failed


def _tracker(progress: Progress, task: Any) -> Callable[[Sequence[Any]], Iterator[Any]]:
    def track(items: Sequence[Any]) -> Iterator[Any]:
        progress.update(task, total=len(items))
        for item in items:
            yield item
            progress.advance(task)

    return track


def _commit() -> str:
    """The commit, with a remark if files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "HEAD") + (" and changes" if git("status", "--porcelain") else "")


if __name__ == "__main__":
    main()
