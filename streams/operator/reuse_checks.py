"""The verdicts of `doctor` on reuse: whether its index is written, can be searched, and has usable rows."""

from collections.abc import Mapping, Set

from schemas.topics import RESULTS
from streams.operator.checks import BEHIND, Attendance
from streams.operator.reuse_index import Collection, Missing
from streams.operator.verdicts import Check, fail, ok, warn
from streams.visible import counted


def check_store_named(url: str, *, is_asked: bool) -> Check | None:
    """Check that a vector store is named where a route of the plan asks for reuse; None where one is named."""
    if url:
        return None
    if not is_asked:
        return ok("reuse", "no route of the plan asks for it, and vectors.url names no vector store")
    do = "set vectors.url, for example to lite, for workers and index writers"
    return warn("reuse", "the plan asks for it, but vectors.url names no vector store: all steps are run", do)


def check_indexer(seen: Attendance) -> Check:
    """Check that an index writer runs, and its lag: without it no request is lost, but hits are."""
    waits = f"{counted(seen.behind, 'record')} of {RESULTS} {'waits' if seen.behind == 1 else 'wait'}"
    if seen.members is None:
        return warn("indexer", f"this user may not see its members; {waits}", "grant DESCRIBE on the groups PREFIX.*")
    if not seen.members:
        do = "pochade serve indexer; until then no new image can be begun from"
        return warn("indexer", f"no member serves, {waits}", do)
    shown = f"{counted(seen.members, 'member')}, {waits}"
    behind = "see its log: it waits while a store is away, or start another indexer"
    return warn("indexer", shown, behind) if seen.behind > BEHIND else ok("indexer", shown)


def check_collection(found: Collection) -> Check:
    """Check that the plan's collection is there, and holds vectors of its encoder's dimension."""
    if found.dimension is None:
        do = "pochade serve indexer makes it; `pochade reuse rebuild` fills it from what there is"
        return warn("index", f"the collection {found.name} is not there", do)
    if found.dimension != found.wanted:
        do = f"drop the collection {found.name} in the vector store; then `pochade reuse rebuild`"
        dimensions = f"holds vectors of {found.dimension} dimensions, the plan's encoder makes {found.wanted}"
        return fail("index", f"the collection {found.name} {dimensions}: nothing can be searched", do)
    return ok("index", f"about {counted(found.rows, 'row')} of {found.wanted} dimensions in {found.name}")


def check_missing_rows(found: Missing) -> Check:
    """Warn of images that have no row, though the store still has latents of theirs: the index was lost, or a part."""
    if not found.there:
        gone = f"; {found.lacking} have neither row nor latent any more" if found.lacking else ""
        return ok("missing rows", f"none, of {counted(found.of, 'image')} whose latents results name{gone}")
    shown = f"{found.lacking} of {counted(found.of, 'image')} whose latents results name have no row"
    read = f"{found.there} of {counted(found.looked_at, 'latent')} of these that were read lie in the store"
    return warn("missing rows", f"{shown}; {read}", "pochade reuse rebuild")


def check_stale_rows(stale: Mapping[str, Set[str]]) -> Check:
    """Warn of rows of autoencoders that no variant has any more. `stale`: autoencoder's digest -> its latents."""
    if not stale:
        return ok("stale rows", "every row is of an autoencoder that a variant has")
    named = ", ".join(f"{counted(len(uris), 'latent')} of {digest}" for digest, uris in stale.items())
    return warn("stale rows", f"no variant has the autoencoder any more: {named}", "pochade reuse clear --stale")
