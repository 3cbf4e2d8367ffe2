"""Which options the caller gave, and the refusal of those that cannot have an effect."""

from collections.abc import Iterable

import click
from click.core import ParameterSource

UNASKED = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)


def options_given(context: click.Context) -> dict[str, str]:
    """Return the parameters that the caller gave, not the command's defaults: name -> how it is typed."""
    return {
        str(parameter.name): _typed(parameter, context.params.get(str(parameter.name)))
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) not in UNASKED
    }


def refuse_given(context: click.Context, names: Iterable[str], why: str) -> None:
    """Raise click.UsageError where the caller gave one of these parameters. `why` follows "has no effect"."""
    given = options_given(context)
    refuse([given[name] for name in names if name in given], why)


def refuse(options: Iterable[str], why: str) -> None:
    """Raise click.UsageError where there are any options. `why` follows "has no effect"."""
    named = list(dict.fromkeys(options))
    if named:
        has, them = ("has", "it") if len(named) == 1 else ("have", "them")
        raise click.UsageError(f"{', '.join(named)} {has} no effect {why}; leave {them} out")


def _typed(parameter: click.Parameter, value: object) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.make_metavar(click.get_current_context()).strip("[]")
    return parameter.secondary_opts[0] if parameter.secondary_opts and value is False else max(parameter.opts, key=len)
