"""Tables of parts by name: those that ship, and those that other packages name in an entry-point group.

A name that ships is looked up in the table alone, and its module is imported when the part is asked for. Only another
name, or the list of all, reads what is installed: some ten milliseconds, once a process.
"""

import functools
import importlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from schemas.errors import PochadeError, Unknown

if TYPE_CHECKING:  # takes 10 ms to import, which only names that do not ship need
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Installed(NamedTuple):
    """The entry points of a group, and the packages whose entry points cannot be read."""

    entries: "Mapping[str, tuple[EntryPoint, ...]]"  # name -> of each package that has the name
    unreadable: tuple[str, ...]  # "package: error"


class UnknownPart(Unknown):
    """A name of no part; the message says where else it was looked for."""

    def __init__(self, kind: str, name: str, known: Iterable[str], looked: str) -> None:
        super().__init__(kind, name, known)
        self.args = (f"{self}; {looked}",)


class Table(MutableMapping[str, T], Generic[T]):
    """Parts of one kind by name. As a mapping: those that ship; `load`, `check` and `names` know the installed too.

    A part that ships goes before an installed one of its name.
    """

    def __init__(self, kind: str, group: str, shipped: Mapping[str, T | str]) -> None:
        """`kind`: as errors call one. `group`: of entry points. `shipped`: name -> the part, or "module:attribute"."""
        self.kind, self.group = kind, group
        self._shipped: dict[str, T | str] = dict(shipped)

    def __getitem__(self, name: str) -> T:
        part = self._shipped[name]
        if isinstance(part, str):
            module, _, attribute = part.partition(":")
            self._shipped[name] = part = getattr(importlib.import_module(module), attribute)
        return part

    def __setitem__(self, name: str, part: T) -> None:
        self._shipped[name] = part

    def __delitem__(self, name: str) -> None:
        del self._shipped[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shipped)

    def __len__(self) -> int:
        return len(self._shipped)

    def __contains__(self, name: object) -> bool:
        return name in self._shipped

    def names(self) -> list[str]:
        """Return all names, sorted: those that ship, and those of installed packages. Imports none of them."""
        return sorted({*self._shipped, *_installed(self.group).entries})

    def check(self, name: str) -> None:
        """Raise Unknown for a name of no part, with the known ones, the nearest, and the group that was looked at."""
        if name not in self._shipped and name not in _installed(self.group).entries:
            raise UnknownPart(self.kind, name, self.names(), self._looked())

    def load(self, name: str) -> T:
        """Import a part.

        Raises:
            Unknown: there is none of that name.
            PochadeError: two packages have the name, or a package's part cannot be imported.
        """
        if name in self._shipped:
            return self[name]
        self.check(name)
        entry, *others = _installed(self.group).entries[name]
        if others:
            owners = " and ".join(_owner(each) for each in (entry, *others))
            raise PochadeError(f"{self.kind} {name!r} is named by {owners}: uninstall all but one of them")
        try:
            part: T = entry.load()
        except Exception as error:  # whatever a module raises when it is imported
            raise PochadeError(
                f"{self.kind} {name!r} of {_owner(entry)} cannot be loaded from {entry.value}: "
                f"{type(error).__name__}: {error}; correct or uninstall that package"
            ) from error
        return part

    def _looked(self) -> str:
        unreadable = _installed(self.group).unreadable
        said = f"looked for it in the entry-point group {self.group} of the installed packages, too"
        return f"{said} (cannot be read: {', '.join(unreadable)})" if unreadable else said


@functools.cache
def _installed(group: str) -> Installed:
    """Read the entry points of a group, package by package: one that is broken hides no other."""
    from importlib.metadata import distributions

    found: dict[str, dict[str, EntryPoint]] = {}  # name -> package -> its entry
    unreadable = list[str]()
    for distribution in distributions():
        try:
            for entry in distribution.entry_points.select(group=group):
                found.setdefault(entry.name, {}).setdefault(_owner(entry), entry)  # the first of the path is imported
        except Exception as error:  # whatever broken metadata leads the parser to
            unreadable.append(f"{getattr(distribution, '_path', distribution)}: {error!r}")
    return Installed({name: tuple(owned.values()) for name, owned in found.items()}, tuple(unreadable))


def _owner(entry: "EntryPoint") -> str:
    return f"package {entry.dist.metadata['Name']}" if entry.dist else "a package"
