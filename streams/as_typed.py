"""Keeps the words of a command line as they were typed, so that a report can show what runs it again."""

import click

AS_GIVEN = "pochade.as_given"  # key of a context's `meta`: command path -> its words


def keep_words(context: click.Context, words: list[str]) -> None:
    """Keep the words of a command line before click parses them, for `words_given`."""
    context.meta.setdefault(AS_GIVEN, {})[context.command_path] = list(words)


def words_given(context: click.Context) -> list[str]:
    """Return the words that a command was called with, as they were typed; those of its subcommand among them."""
    words: list[str] = context.meta.get(AS_GIVEN, {}).get(context.command_path, [])
    return words


class RepeatableCommand(click.Command):
    """A command that can be shown as it was typed, whatever its options make of their values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, and keep them."""
        keep_words(ctx, args)
        return super().parse_args(ctx, args)
