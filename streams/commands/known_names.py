"""Options that take a name which a part of the product knows: their help lists all of them.

They lie apart from the other options, as their names reach policies and solvers, which quick commands must not load.
"""

from collections.abc import Iterable

import click


class NamesOption(click.Option):
    """An option whose help lists the names that it knows; they are looked up when help is shown, not before."""

    def known(self) -> Iterable[str]:
        """Return the names."""
        raise NotImplementedError

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help, the names at the end."""
        record = super().get_help_record(ctx)
        return record and (record[0], f"{record[1]} Known: {', '.join(sorted(self.known()))}.")


class PolicyOption(NamesOption):
    """An option that takes the name of a policy."""

    def known(self) -> Iterable[str]:
        """Return the policies."""
        from planner.policies import POLICIES

        return POLICIES.names()


class CatalogOption(NamesOption):
    """An option that takes the name of a catalog, or a file."""

    def known(self) -> Iterable[str]:
        """Return the catalogs that ship."""
        from streams.shipped import INFRA

        return [path.stem for path in (INFRA / "catalogs").glob("*.toml")]
