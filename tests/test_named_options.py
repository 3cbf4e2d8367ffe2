"""Options that texts name are those of the command beside them: in help, errors, comments, pages and catalogs."""

import pathlib
import re
import subprocess
from collections.abc import Iterator

import click

from streams.cli import main

ROOT, HERE = pathlib.Path(__file__).parent.parent, pathlib.Path(__file__).name
TEXTS = ("*.py", "*.md", "*.jinja", "*.html", "*.toml", "*.yaml", "*.tpl", "*.txt")
NAMED = re.compile(r"pochade ((?:[a-z][a-z-]*(?: |$))+)([^`\n\"|;#&)]*)")  # the command, and what stands beside it
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+[a-z0-9](?![\w-])")


OTHERS = {  # options of Kafka's tools, curl, git and Hugging Face's, and of our own spellings that no help shows
    "--add", "--add-config", "--allow-principal", "--alter", "--bootstrap-server", "--cluster-id", "--command-config",
    "--deadline-in-s", "--deadline-s", "--entity-name", "--entity-type", "--help", "--ignore-formatted", "--json",
    "--local-dir", "--operation", "--partitions", "--resource-pattern-type", "--timeout-s", "--topic",
}  # fmt: skip


def command_of(words: list[str]) -> tuple[str, click.Command] | None:
    """Return the command that words begin with; None if they name none, or a group of commands."""
    command: click.Command = main
    context, used = click.Context(main), list[str]()
    for word in words:
        if not isinstance(command, click.Group) or (found := command.get_command(context, word)) is None:
            break
        command, context = found, click.Context(found, parent=context, info_name=word)
        used.append(word)
    return None if isinstance(command, click.Group) else (" ".join(used), command)


def options_of(command: click.Command) -> set[str]:
    return {name for each in (*command.params, *main.params) for name in (*each.opts, *each.secondary_opts)} | {
        "--help"
    }


def wrong_in(line: str) -> Iterator[str]:
    for named in NAMED.finditer(line):
        if (found := command_of(named[1].split())) is not None:
            name, command = found
            yield from (
                f"pochade {name} {each}" for each in OPTION.findall(named[2]) if each not in options_of(command)
            )


def test_each_option_that_a_text_names_beside_a_command_is_one_of_it() -> None:
    asked = ["git", "grep", "-hI", "pochade [a-z].* --[a-z]", "--", *TEXTS, ":!CHANGELOG.md", f":!tests/{HERE}"]
    lines = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [wrong for line in lines for wrong in wrong_in(line)] == []


def test_an_option_of_another_command_is_found() -> None:
    assert list(wrong_in("as `pochade submit PROMPT --control canny --control-image URI` does")) == [
        "pochade submit --control-image"
    ]
    assert not list(wrong_in("`pochade doctor && pochade audit --since 1h`, or `pochade submit x --wait`"))


def all_options(command: click.Command, context: click.Context) -> set[str]:
    """Return the options of a command and of those below it."""
    names = options_of(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else []:
        if (found := command.get_command(context, name)) is not None:
            names |= all_options(found, click.Context(found, parent=context, info_name=name))
    return names


def test_each_option_that_the_product_or_a_catalog_names_exists() -> None:
    rooms = ["agents/*.py", "planner/*.py", "schemas/*.py", "streams/*.py", "replay/*.py", "infra/catalogs/*.toml"]
    listed = subprocess.run(["git", "ls-files", *rooms], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    known = all_options(main, click.Context(main)) | OTHERS
    files = [
        each
        for each in listed.splitlines()
        if not each.startswith(("replay/bench/peers/", "replay/reports/page/", "agents/lab/"))
    ]
    named = {file: {*OPTION.findall((ROOT / file).read_text())} - known for file in files}
    assert {file: names for file, names in named.items() if names} == {}
