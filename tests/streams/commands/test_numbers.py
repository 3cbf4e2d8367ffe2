"""Numbers on the command line: no option of any command takes NaN, infinity, or what overflows in computations."""

from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from streams.cli import main
from streams.commands.options import MOST, Ago, Number

WRITTEN = ("nan", "inf", "-inf", "1e308")
FORMS = ("{0}", "{0},{0}", "{0}:{0}", "{0}:{0}:{0}", "{0}={0}", "{0}x{0}", "{0}/h", "{0}s", "9{0}")
TEXTS = [form.format(text) for text in WRITTEN for form in FORMS] + ["9" * 400 + unit for unit in ("", "s", "d", "/h")]


def options_in(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Parameter, click.Context]]:
    """Yield each parameter of a command and of those below it, with the command's name."""
    yield from ((f"{context.command_path} {each.name}", each, context) for each in command.params)
    group = command if isinstance(command, click.Group) else click.Group()
    for name in group.list_commands(context):
        if (found := group.get_command(context, name)) is not None:
            yield from options_in(found, click.Context(found, parent=context, info_name=name))


def flat(value: Any) -> list[Any]:
    return [one for each in value for one in flat(each)] if isinstance(value, tuple) else [value]


def taken(parameter: click.Parameter, text: str, context: click.Context) -> list[float]:
    """Return the floats that a parameter makes of a text; none if it refuses it."""
    try:
        return [each for each in flat(parameter.type.convert(text, parameter, context)) if isinstance(each, float)]
    except click.UsageError:
        return []


def test_no_option_takes_nan_infinity_or_what_overflows() -> None:
    named = [*options_in(main, click.Context(main, info_name="pochade"))]
    read = [each for each in named if not isinstance(each[1].type, (click.File, click.Path))]  # which have any name
    wrong = [
        f"{name} {text:.20}"
        for name, parameter, context in read
        for text in TEXTS
        if not all(abs(number) <= MOST for number in taken(parameter, text, context))
    ]
    assert wrong == []
    assert sum(isinstance(parameter.type, Number) for _, parameter, _ in read) > 40


@pytest.mark.parametrize(
    "command", ["submit x --deadline", "submit x --wait --timeout", "plan solve --workers 2 --demand"]
)
@pytest.mark.parametrize("text", ["nan", "inf", "1e308"])
def test_such_a_number_is_refused_by_its_option(command: str, text: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), text])
    assert done.exit_code == 2
    assert f"Invalid value for '{command.split()[-1]}': '{text}' is no number up to 1e+09" in done.stderr


def test_numbers_up_to_the_largest_are_taken() -> None:
    assert [Number().convert(text, None, None) for text in ("-1e9", "0", "1e9")] == [-MOST, 0, MOST]
    with pytest.raises(click.BadParameter, match="is not in the range x>=2"):
        Number(min=2).convert("1", None, None)
    assert Ago().convert("36500d", None, None) == 36500 * 86_400_000
