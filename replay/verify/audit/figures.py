"""The figures of an audit, and the sentence that says which promise is broken."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from streams.visible import counted

NAMED = 5  # ids in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of the accepted requests, from the topics; accepted: on `prompts`, or acknowledged to a run."""

    accepted: int
    outcomes: dict[str, int]  # status -> requests, by their first result
    records: int = 0  # on `prompts`; one that was moved to `prompts.batch` counts once
    repetitions: int = 0  # of these: under the id of an earlier one, so that they got nothing new
    differing: tuple[str, ...] = ()  # ids of repetitions whose content is another, and where the first record lies
    open: int = 0  # without a result, and a role has not committed past some record of theirs
    unread: tuple[str, ...] = ()  # without a result: a record of theirs is of an unknown schema, and lies on the dlq
    lost: tuple[str, ...] = ()  # without a result, and no role will make one
    lost_at: dict[str, str] = field(
        default_factory=dict
    )  # id of each of these -> where its record lies; "": it is gone
    deleted_unread: tuple[str, ...] = ()  # a sentence for each span of offsets that was deleted before it was read
    doubled: dict[str, int] = field(default_factory=dict)  # id -> results beyond its first
    failed: dict[str, str] = field(default_factory=dict)  # id -> reason, of those that ended FAILED
    late_commits: tuple[str, ...] = ()  # ids with a result of an outcome that was not the first: a former owner's
    late_outcomes: int = 0  # outcomes of requests that had ended otherwise; the ledger dropped all of them
    painted: int = 0  # jobs of which an image was generated
    painted_twice: int = 0  # generations beyond the first of a job
    painted_anew: int = 0  # jobs generated of a request and stage of which another job was generated, on whatever level
    wasted_s: float = 0.0  # worker seconds of both
    begun_in_vain: int = 0  # generations without an image
    dead_letters: int = 0
    unreadable: dict[str, int] = field(default_factory=dict)  # topic -> records that are none of ours; not `prompts`
    reuse: dict[str, int] = field(default_factory=dict)  # hit, or why not -> stages under a plan with reuse
    reuse_contradictory: tuple[str, ...] = ()  # results whose fields of reuse are not those of their path
    reuse_sourceless: tuple[str, ...] = ()  # begun from a latent, and none of their tenant was there; or not known
    components_checked: int = 0  # completed requests that named components, a base or an input image
    components_wrong: dict[str, str] = field(default_factory=dict)  # id -> what its result says instead
    components_unlisted: tuple[str, ...] = ()  # whose result names what the catalog does not list: not compared
    components_undigested: dict[str, int] = field(default_factory=dict)  # component without a digest -> requests


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFigures:
    """Figures of the images that results name, from the object store."""

    checked: int = 0  # images named, drafts included
    broken: tuple[str, ...] = ()  # a sentence for each that has gone or has other bytes than its result says
    orphans: int = 0  # stored, and nothing names them: what crashed and repeated work left
    orphan_bytes: int = 0
    marks_checked: int = 0  # images of the engine `profile` that show whose latent they began from
    foreign: tuple[
        str, ...
    ] = ()  # a sentence for each that began from a latent of another tenant, or of no known request


def as_json(figures: Figures, images: ImageFigures | None) -> dict[str, Any]:
    """Return both figures as one JSON object; counts have the short names, ids and the verdict stand beside them."""
    one = asdict(figures)
    one |= {"lost": len(figures.lost), "lost_ids": list(figures.lost)}
    one |= {"unread": len(figures.unread), "unread_ids": list(figures.unread)}
    one |= {"differing": len(figures.differing), "differing_ids": list(figures.differing)}
    one |= {"duplicates": sum(figures.doubled.values()), "duplicate_ids": list(one.pop("doubled"))}
    one |= {"late_commits": len(figures.late_commits), "late_commit_ids": list(figures.late_commits)}
    one |= {"failed": len(figures.failed), "failed_for": figures.failed}
    one |= {"components_wrong": len(figures.components_wrong), "components_wrong_for": figures.components_wrong}
    for name in ("reuse_contradictory", "reuse_sourceless", "components_unlisted"):
        ids = one.pop(name)
        one |= {name: len(ids), f"{name}_ids": list(ids)}
    one |= {"deleted_unread": len(figures.deleted_unread), "deleted_unread_where": list(figures.deleted_unread)}
    one["wasted_s"] = round(figures.wasted_s, 3)
    if images is not None:
        one["pictures"] = {**asdict(images), "broken": list(images.broken), "foreign": list(images.foreign)}
    return one | {"broken_promises": verdict(figures, images)}


def verdict(figures: Figures, images: ImageFigures | None = None) -> str | None:
    """Return one sentence about each broken promise; None when all are kept."""
    broken = []
    if figures.lost:
        names = _some([f"{name} at {place}" if (place := figures.lost_at.get(name)) else name for name in figures.lost])
        broken.append(f"{len(figures.lost)} of {figures.accepted} accepted requests are lost ({names})")
    if figures.unread:
        broken.append(
            f"{len(figures.unread)} of {figures.accepted} accepted requests have a record that was set aside unread "
            f"({_some(figures.unread)}): `pochade dlq redrive` once its schema is known"
        )
    broken += [f"{each} were deleted before they were read" for each in figures.deleted_unread]
    if figures.doubled:
        names = _some(tuple(figures.doubled))
        broken.append(f"{sum(figures.doubled.values())} results came beyond a request's first ({names})")
    if figures.late_commits:
        names = _some(figures.late_commits)
        broken.append(f"{len(figures.late_commits)} results are not of the first outcome ({names})")
    if figures.reuse_contradictory:
        names = _some(figures.reuse_contradictory)
        broken.append(f"{len(figures.reuse_contradictory)} results say of reuse what their path does not ({names})")
    if figures.reuse_sourceless:
        names = _some(figures.reuse_sourceless)
        broken.append(f"{len(figures.reuse_sourceless)} results began from no latent of their tenant ({names})")
    if figures.components_wrong:
        name, why = next(iter(figures.components_wrong.items()))
        broken.append(f"{len(figures.components_wrong)} results name other components than were asked ({name}: {why})")
    if images is not None and images.foreign:
        broken.append(f"{len(images.foreign)} images began from what is not their tenant's ({images.foreign[0]})")
    if images is not None and images.broken:
        broken.append(f"{len(images.broken)} images are not what their results say ({images.broken[0]})")
    return "; ".join(broken) or None


def warning(figures: Figures) -> str | None:
    """Return a sentence on findings that break no promise, but that a producer may not expect; None without any."""
    if not figures.differing:
        return None
    ids = counted(len(figures.differing), "id")
    return (
        f"{ids} came with other content again: an id names one request, and the first record with it was served "
        f"({_some(figures.differing)}). Give each request an id of its own, or none"
    )


def describe_success(images: ImageFigures | None = None) -> str:
    """Return the verdict where no promise is broken."""
    checked = "" if images is None else f", and {counted(images.checked, 'image')} are what their results say"
    return f"the promise holds: no request was lost or ended twice{checked}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (" ..." if len(names) > NAMED else "")
