"""Publishes a catalog's components to a remote, from which workers fetch them: bases, adapters and controls."""

import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from agents.components.opening import url_of, with_own_base
from agents.components.sources import check_digest, weights_of
from agents.components.weight_files import ComponentFailed
from planner.catalog.components import Component
from planner.catalog.entries import Variant
from schemas.errors import PochadeError, Unknown
from streams.weights import manifest, publish
from streams.weights.manifest import Manifest
from streams.weights.remotes.remote import Remote


class Local(NamedTuple):
    """A component that lies on this machine."""

    component: Component
    source: pathlib.Path  # a folder or one file
    listed: Manifest


class Compared(NamedTuple):
    """A component, where it goes, and what that place lacks of it."""

    local: Local
    remote: Remote
    lacking: publish.Missing


def fetched_components(variants: Iterable[Variant], names: Sequence[str] = ()) -> list[Component]:
    """Return the components that workers of these variants fetch from a remote, each once; of these ids, if any.

    Raises PochadeError where there are none, Unknown for an id that is not among them.
    """
    known = {each.id: each for variant in variants if variant.components for each in with_own_base(variant).components}
    if not known:
        raise PochadeError(
            "no variant of the catalog generates with components: nothing to publish; name another by --catalog"
        )
    for name in names:
        if name not in known:
            raise Unknown("component", name, known)
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def describe(component: Component, resolve: Callable[[str], str]) -> Local:
    """Read a component's files and hold their sha-256 against the catalog's. `resolve`: source -> where it lies here.

    Raises ComponentFailed: it is not here, has no weight files, or other bytes than the catalog says.
    """
    source = pathlib.Path(resolve(component.source))
    if not source.exists():
        raise ComponentFailed(
            f"{component.id} must lie on this machine to be published: {component.source!r} is neither folder nor "
            "file; download it, and name its folder as the component's source in the catalog"
        )
    try:
        listed = manifest.describe(component.id, source)
    except OSError as error:
        raise ComponentFailed(f"{component.id} at {source} cannot be read: {error}") from error
    digests = weights_of(listed)
    if not digests:
        raise ComponentFailed(f"{component.id} at {source} has no .safetensors file: correct its source in the catalog")
    check_digest(component, digests, str(source))
    return Local(component, source, listed)


def compare(local: Local, to: str, open_remote: Callable[[str], Remote], *, force: bool = False) -> Compared:
    """Return what the remote `to` lacks of a component; `force`: all of it. Raises what the remote raises."""
    remote = open_remote(url_of(local.component, to))
    lacking = publish.everything(local.listed) if force else publish.missing(local.listed, remote)
    return Compared(local, remote, lacking)


def send(compared: Compared, on_bytes: Callable[[int], None]) -> None:
    """Copy what a remote lacks of a component; `on_bytes` as in `streams.weights.publish.send`, which raises."""
    publish.send(compared.local.listed, compared.lacking, compared.local.source, compared.remote, on_bytes)
