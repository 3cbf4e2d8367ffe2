"""Groups of commands that help who mistypes one, and show the first sentence of each whole."""

import click

from schemas.errors import Unknown

WHOLE = 1000  # characters of a first sentence: none is longer


class CommandGroup(click.Group):
    """A group that names the nearest command, and all of them, for one that it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names. Raises click.UsageError with the known ones and the nearest."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(str(Unknown("command", name, self.list_commands(ctx))))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands; a sentence that is longer than a line is wrapped, not cut off."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(WHOLE)) for name, each in commands if each is not None])
