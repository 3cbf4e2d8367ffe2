"""The report of a chaos run: one JSON object, and the sentence that makes a run fail."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from replay.local.deployment import versions
from replay.verify.audit.figures import Figures, as_json, verdict
from replay.verify.audit.reading import Audited
from replay.verify.chaos.doing import Faults
from replay.verify.chaos.lookups import LookupWatch
from replay.verify.chaos.options import ChaosOptions
from replay.verify.chaos.oracle import Counted
from replay.verify.chaos.recovery import Recovery, too_slow
from replay.verify.chaos.weights.checks import Checked

ENDS_S = 120.0  # after the last fault and the last request, within which all have ended


def report_of(
    options: ChaosOptions,
    found: Audited,
    faults: Faults,
    recovery: Recovery,
    orphans_left: int,
    *,
    endings: Mapping[str, int],
    start_ms: float,
    seconds: float,
    lookups: LookupWatch | None = None,
    components: Checked | None = None,
    counted: Counted,
    gone: frozenset[str],
    last_ms: float,
) -> dict[str, Any]:
    """Return the report of a run; `broken` is None when every promise was kept.

    `lookups`: of a run whose images begin from stored ones; `components`: of one whose requests name components.
    `counted`: what the oracle found; `gone`: ids of requests that a fault deleted unread; `last_ms`: when the last
    fault was over and the last request published. `too_slow` breaks no promise, as the machine has a part in it.
    """
    figures = _without_gone(found.figures, gone)
    said = (
        verdict(figures, found.images), _open(found), _check_repeats(found, recovery), _left(orphans_left),
        counted.broken(), _unnoticed(found.figures, gone), _late(counted, last_ms),
    )  # fmt: skip
    broken = [each for each in (*said, components.broken() if components is not None else None) if each]
    return {
        "seed": options.seed,
        "engine": options.engine,
        "rate_rps": options.rate,
        "workers": options.workers,
        "brokers": options.brokers,
        **as_json(found.figures, found.images),
        "oracle": counted.report() | {"gone": len(gone), "last_end_s": _after_s(counted, last_ms)},
        "orphans": found.images.orphans if found.images else 0,
        "orphans_left": orphans_left,
        "recovery": asdict(recovery),
        "too_slow": too_slow(recovery),
        "lookups": None if lookups is None else lookups.report(),
        "components": None if components is None else components.report(),
        "faults": [doing.report(start_ms) for doing in faults.begun],
        "endings": dict(endings),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "broken": "; ".join(broken) or None,
    }


def _after_s(counted: Counted, last_ms: float) -> float:
    return round(max(0.0, counted.last_end_ms - last_ms) / 1000, 1)


def _late(counted: Counted, last_ms: float) -> str | None:
    """Liveness: once everything is well again, all ends within a bound."""
    after_s = _after_s(counted, last_ms)
    return (
        f"the last request ended {after_s:g} s after the last fault (limit {ENDS_S:g} s)" if after_s > ENDS_S else None
    )


def _without_gone(figures: Figures, gone: frozenset[str]) -> Figures:
    """The figures without what a fault deleted unread, which no role can serve."""
    if not gone:
        return figures
    return replace(figures, lost=tuple(name for name in figures.lost if name not in gone), deleted_unread=())


def _unnoticed(figures: Figures, gone: frozenset[str]) -> str | None:
    if not gone or figures.deleted_unread:
        return None
    return f"{len(gone)} acknowledged requests were deleted unread, and the audit does not say so"


def _open(found: Audited) -> str | None:
    """A run is over when everything has ended: what is open then is as bad as lost."""
    count = found.figures.open
    return f"{count} requests have not ended, two minutes after the last thing moved" if count else None


def _check_repeats(found: Audited, recovery: Recovery) -> str | None:
    """Work is repeated only for what ran as a process ended: without faults none is."""
    count, most = found.figures.painted_twice, recovery.painted_twice_limit
    counts = f"{recovery.running_at_kills} that ran as processes ended, {recovery.become_new_record} written again"
    return f"{count} jobs were generated twice, more than {most:g} ({counts})" if count > most else None


def _left(orphans: int) -> str | None:
    return f"{orphans} orphans are left after they were collected" if orphans else None
