"""The report of a long run, and what it says in a few lines."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from replay.bench.soak.samples import Life, Sample, Watch
from replay.bench.soak.tally import MAX_NAMED, Tally

MAX_GROWTH: Final = 2.0  # % of a role's resident memory
MAX_DESCRIPTORS: Final = 3  # more: connections come and go
PARTS: Final = 20  # of a run, whose memory a report states one by one
BROKER: Final = "broker"  # Java: its heap grows up to its limit
DEFINITION: Final = (
    "growth: by how much, in %, the median of a role's resident memory over the last tenth of the requests that ended "
    "in the life of its process exceeds that over the second tenth; null with fewer than 5 samples a tenth. "
    "descriptors: the medians of open files and sockets over the same tenths"
)


@dataclass(slots=True)
class Session:
    """What all sessions of a run have used so far."""

    number: int = 1
    seconds: float = 0.0  # in which requests were sent or awaited
    disk_bytes: int = 0  # most of the broker's data
    notes: list[str] = field(default_factory=list)  # of roles that ended by themselves

    def kept(self) -> dict[str, Any]:
        """Return the facts as a table."""
        return {
            "number": self.number, "seconds": round(self.seconds, 2), "disk_bytes": self.disk_bytes,
            "notes": self.notes[-MAX_NAMED:],
        }  # fmt: skip


def build(
    tally: Tally, watch: Watch, session: Session, asked: Mapping[str, Any], facts: Mapping[str, Any], *, is_over: bool
) -> dict[str, Any]:
    """Return the report. `is_over`: all requests were sent and awaited; else what is open may still end.

    `facts`: what else the report says.
    """
    lives, ended = watch.longest(), len(tally.ended)
    lost = tally.lost() if is_over else []
    cpu_s = watch.cpu_s()
    memory = {role: life.change(_rss_kb) for role, life in lives.items()}
    files = {role: life.change(lambda sample: sample.descriptors) for role, life in lives.items()}
    growth = {role: change and round(change.percent, 2) for role, change in memory.items()}
    return {
        "run": tally.name,
        "finished": is_over,
        "asked": dict(asked),
        "accepted": len(tally.accepted),
        "lost": len(lost),
        "duplicates": tally.duplicates,
        "open": 0 if is_over else len(tally.accepted) - ended,
        "ends": dict(tally.ends),
        "named": {
            "lost": [tally.id_of(n) for n in lost[:MAX_NAMED]],
            "doubled": [tally.id_of(n) for n in tally.doubled],
        },
        "sent_again": tally.repeated,
        "growth": growth,
        "grown": [role for role, each in growth.items() if role != BROKER and each is not None and each > MAX_GROWTH],
        "descriptors": {
            role: change and {"first": change.first, "last": change.last} for role, change in files.items()
        },
        "opened": [
            role
            for role, each in files.items()
            if role != BROKER and each is not None and each.last > each.first + MAX_DESCRIPTORS
        ],
        "memory_mb": {role: _memory(lives[role], change) for role, change in memory.items()},
        "course_mb": {
            role: [_mb(each) for each in life.course(PARTS, lambda sample: sample.rss_kb)]
            for role, life in lives.items()
        },
        "processes": watch.processes(),
        "cpu_s": {role: round(each, 1) for role, each in cpu_s.items()},
        "cpu_ms_per_request": round(1000 * sum(cpu_s.values()) / max(1, ended), 2),
        "sessions": session.number,
        "seconds": round(session.seconds, 1),
        "rate_rps": round(ended / max(0.001, session.seconds), 2),
        "disk_mb": round(session.disk_bytes / 1e6),
        "ended_by_themselves": session.notes[-MAX_NAMED:],
        "load": [round(each, 2) for each in os.getloadavg()],
        "definition": DEFINITION,
        **facts,
    }


def _memory(life: Life, change: Any) -> dict[str, Any]:
    """Return what growth is made of, in MB, and over how many requests of one process."""
    over = {"requests": life.requests}
    return over | ({"first": _mb(change.first), "last": _mb(change.last)} if change else {})


def _rss_kb(sample: Sample) -> int:
    return sample.rss_kb


def _mb(kb: float) -> float:
    return round(kb / 1024, 1)


def lines(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the report in a dozen lines."""
    ended = sum(report["ends"].values())
    shown = {
        "accepted": f"{report['accepted']}, of which {report['open']} are open",
        "outcomes": ", ".join(f"{count} {status}" for status, count in report["ends"].items()) or "none",
        "lost / duplicates": f"{report['lost']} / {report['duplicates']}",
        "rate": f"{report['rate_rps']:g} a second over {report['seconds']:g} s, {report['sessions']} sessions",
        "processor": f"{report['cpu_ms_per_request']:g} ms a request, with the broker and this command",
        "disk": f"{report['disk_mb']} MB at most",
    }
    for role, change in report["growth"].items():
        memory, files = report["memory_mb"][role], report["descriptors"][role]
        if change is None:
            shown[role] = "too few samples"
            continue
        shown[role] = (
            f"{memory['first']:g} to {memory['last']:g} MB ({change:+g} %) over {memory['requests']} requests, "
            f"{files['first']:g} to {files['last']:g} descriptors, "
            f"{1000 * report['cpu_s'][role] / max(1, ended):.2f} ms of a processor a request"
        )
    return {
        **shown,
        f"above {MAX_GROWTH:g} %": ", ".join(report["grown"]) or "none",
        "more descriptors": ", ".join(report["opened"]) or "none",
    }


def broken(report: Mapping[str, Any]) -> str | None:
    """Return a sentence if a request was lost or ended twice; None otherwise."""
    if not report["lost"] and not report["duplicates"]:
        return None
    named = ", ".join([*report["named"]["lost"], *report["named"]["doubled"]][:5])
    return (
        f"of {report['accepted']} accepted requests {report['lost']} have no result, and {report['duplicates']} "
        f"results came beyond the first of a request ({named})"
    )
