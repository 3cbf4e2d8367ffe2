"""Shows what was measured of caching: tables for a terminal, and lines to read them by."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from planner.catalog.caching import BegunFrom, Bounded, CachingMeasurement


def tables_of(level: str, found: CachingMeasurement) -> Iterator[Table]:
    """Quality by steps skipped, what routes save, what is allowed where facts differ, against fewer steps, leaks."""
    yield _quality(level, found)
    yield _routes(level, found)
    if found.differences:
        yield _differences(level, found)
    yield _against(level, found)
    if found.evictions:
        yield _evictions(level, found)
    if found.leak:
        yield _leak(level, found)
    if found.diversity:
        yield _diversity(level, found)


def remarks(level: str, found: CachingMeasurement) -> list[str]:
    """Return what the measurement found and on how many requests, one sentence a line."""
    lines = [
        f"{level}: {found.requests} requests, of which {found.exact_share:.1%} repeat an earlier prompt word for word; "
        f"at most {found.tolerance} of quality may be lost over all of them"
    ]
    best = found.best
    if best is None:
        return [
            *lines,
            f"{level}: no floor was found, so that nothing is reused; more --requests prove smaller losses",
        ]
    floors = ", ".join(f"{floor.share:.3g} of the steps from {floor.similarity:.5f}" for floor in best.floors)
    return [
        *lines,
        f"{level}: the route that saves most is {best.share:.3g}, with the floors {floors}",
        f"{level}: the guard allows, where facts differ: {_allowed(found)}",
        f"{level}: {best.hit_rate:.1%} of the requests are hits and save {best.saved_share:.1%} of all steps "
        f"(exact repeats {best.saved_exact_share:.1%}); quality changes by {_shown(best.change)}",
    ]


def _allowed(found: CachingMeasurement) -> str:
    allowed = {str(kind): share for kind, share in found.guard.differs.items()} | {"unsure": found.guard.unsure}
    return ", ".join(f"{kind} {share:.3g}" for kind, share in allowed.items() if share) or "nothing"


def _quality(level: str, found: CachingMeasurement) -> Table:
    """A row for each share, a column for each set of requests."""
    table = Table(
        title=f"{level}: quality (change against the same seed from noise, 95 % interval)", title_justify="left"
    )
    table.add_column("skipped", justify="right")
    columns: list[Sequence[BegunFrom]] = []
    for band in found.similarity:
        if band.passed or band.low < _SIMILAR:
            named = "guard passes" if band.passed else "all"
            table.add_column(f"{band.low:g} to {band.high:g}\n{named}, n={band.begun[0].pairs}", justify="right")
            columns.append(band.begun)
    if found.unrelated:
        table.add_column(f"unrelated\nn={found.unrelated[0].pairs}", justify="right")
        columns.append(found.unrelated)
    for rows in zip(*columns, strict=True):
        table.add_row(f"{rows[0].share:.3g}", *(_cell(row) for row in rows))
    return table


_SIMILAR = 0.99  # bands below it have hardly a pair that the guard passes


def _cell(row: BegunFrom) -> str:
    return f"{row.quality.value:.3f}\n{_shown(row.change)}" if row.share else f"{row.quality.value:.3f}"


def _routes(level: str, found: CachingMeasurement) -> Table:
    headers = ("route", "floors", "hits", "exact", "saved", "of exact", "quality changes by", "facts change by")
    table = _table(f"{level}: what routes save over all requests", *headers)
    for route in found.routes:
        rates = (route.hit_rate, route.exact_rate, route.saved_share, route.saved_exact_share)
        shares = (f"{each:.1%}" for each in rates)
        floors = ", ".join(f"{floor.share:.3g} from {floor.similarity:.4f}" for floor in route.floors)
        table.add_row(f"{route.share:.3g}", floors or "none", *shares, _shown(route.change), _shown(route.facts_change))
    return table


def _differences(level: str, found: CachingMeasurement) -> Table:
    shares = [row.share for row in next(iter(found.differences.values())) if row.share]
    table = _table(
        f"{level}: change of quality where one kind of fact differs", "kind", "n", *(f"{s:.3g}" for s in shares)
    )
    for kind, rows in found.differences.items():
        table.add_row(kind, str(rows[0].pairs), *(_shown(row.change) for row in rows if row.share))
    return table


def _against(level: str, found: CachingMeasurement) -> Table:
    headers = ("skipped", "from", "n", "reuse", "fewer steps", "reuse less fewer", "of facts")
    table = _table(f"{level}: against as many steps and no cache", *headers)
    for row in found.against_fewer_steps:
        figures = (
            f"{row.reuse_quality.value:.3f}",
            f"{row.fewer_quality.value:.3f}",
            _shown(row.quality),
            _shown(row.facts),
        )
        table.add_row(f"{row.share:.3g}", f"{row.similarity:.4f}", str(row.pairs), *figures)
    return table


def _evictions(level: str, found: CachingMeasurement) -> Table:
    table = _table(
        f"{level}: the best route where the index holds few images", "images", "leaves first", "hits", "saved"
    )
    for row in found.evictions:
        table.add_row(str(row.entries), row.eviction, f"{row.hit_rate:.1%}", f"{row.saved_share:.1%}")
    return table


def _leak(level: str, found: CachingMeasurement) -> Table:
    shares = sorted({row.share for row in found.leak})
    title = f"{level}: images that show what only the neighbour's prompt states"
    table = _table(title, "begun from", "kind", "n", *(f"{share:.3g}" for share in shares))
    for begun, kind in dict.fromkeys((row.begun, row.kind) for row in found.leak):
        rows = {row.share: row for row in found.leak if (row.begun, row.kind) == (begun, kind)}
        pairs = str(next(iter(rows.values())).pairs)
        table.add_row(begun, kind, pairs, *(f"{rows[s].leaked.value:.3f}" if s in rows else "" for s in shares))
    return table


def _diversity(level: str, found: CachingMeasurement) -> Table:
    table = _table(
        f"{level}: distance of the images of one prompt", "begun from", "skipped", "prompts", "images", "distance"
    )
    for row in found.diversity:
        distance = f"{row.distance.value:.3f} ({row.distance.low:.3f} {row.distance.high:.3f})"
        table.add_row(row.begun, f"{row.share:.3g}", str(row.prompts), str(row.images), distance)
    return table


def _table(title: str, *headers: str) -> Table:
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, justify="right")
    return table


def _shown(change: Bounded) -> str:
    return f"{change.value:+.4f} ({change.low:+.4f} {change.high:+.4f})"
