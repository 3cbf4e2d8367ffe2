"""Tables of a model card, from the JSON files of trainings and measurements."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# A figure's key -> its name on the card; a key that is missing here is shown itself.
MEANINGS: Final[dict[str, str]] = {
    "loss": "loss at the end of training",
    "quality": "images with every fact right",
    "all_facts": "images with every fact right",
    "facts": "share of stated facts that hold",
    "quality_easy": "images with every fact right, easiest quarter of prompts",
    "quality_hard": "images with every fact right, hardest quarter of prompts",
    "fid": "FID on the scorer's features",
    "cost_ms": "ms an image, batch 1",
    "auc": "AUC",
    "recovery_at_half": "recovery at half the heavy work (0 random, 1 oracle)",
    "ms": "ms a prompt, one core",
    "round_trip": "images with every fact right after encoding and decoding",
    "round_trip_noise_03": "images with every fact right after encoding and decoding with latent noise 0.3",
    "scenes_read": "captions read entirely right",
    "bare": "facts right without the adapter, in poster",
    "at_zero": "facts right at weight 0, in poster",
    "restyled": "facts right in the adapter's style, at weight",
    "placed_without": "facts of shape and place right without the ControlNet",
    "placed_with": "facts of shape and place right with the ControlNet",
    "pictures": "images",
    "told_apart": "images sorted rightly into real and generated",
    "latency_ms": "ms a call, batch",
    "load_ms": "ms to load",
}
# Keys of a note that the table of training shows; the rest are figures.
_COURSE: Final = ("seed", "parameters", "samples", "steps", "seconds", "minutes", "device", "scale")
_BOOKKEEPING: Final = ("is_finished", "made_from", "name", "kind", "base", "style", "rank", "teacher", "taught")
_INTERVALS: Final = {"ci": ("recovery_at_half", "value")}  # the figures that a key "ci" is the interval of


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def training_table(notes: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> str:
    """Seed, size, samples and time of each part that has a note, and how its runs went on; empty if none has."""
    rows, histories = [], []
    for name in names:
        if note := notes.get(name):
            minutes = note["seconds"] / 60 if "seconds" in note else note.get("minutes")
            spent = "" if minutes is None else f"{_cell(round(minutes, 1))} min on a {note.get('device', 'cpu')}"
            rows.append([name, *(_cell(note.get(key, "")) for key in ("seed", "parameters", "samples")), spent])
            histories += [f"\n`{name}`: {note['history']}."] if "history" in note else []
    return "\n".join([table(["part", "seed", "parameters", "samples", "time"], rows), *histories]) if rows else ""


def figures_of(note: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a training's note, without how long and on what it ran."""
    return {key: value for key, value in note.items() if key not in (*_COURSE, *_BOOKKEEPING)}


def figures_table(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """One column of figures for each name, nested ones by their path, intervals in brackets; empty without figures."""
    flat = {name: flattened(figures) for name, figures in columns.items()}
    keys = dict.fromkeys(key for figures in flat.values() for key in figures)
    if not keys:
        return ""
    rows = [[key, *(figures.get(key, "") for figures in flat.values())] for key in keys]
    return table(["figure", *(flat if len(flat) > 1 else ["value"])], rows)


def flattened(figures: Mapping[str, Any], path: str = "") -> dict[str, str]:
    """Name for people -> value with its interval. Curves, matrices and texts are left to the JSON."""
    out: dict[str, str] = {}
    for key, value in figures.items():
        name = f"{path}{MEANINGS.get(key, key.replace('_', ' '))}"
        if isinstance(value, Mapping):
            if set(value) <= {"value", "ci", "prompts"}:
                out[name] = with_interval(value.get("value"), value.get("ci"))
            else:
                out |= flattened(value, f"{name} ")
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) and "value" in v for v in value):
            out |= {f"{name} {at}": with_interval(v["value"], v.get("ci")) for at, v in enumerate(value, start=1)}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            plain = figures.get("ci") if key in _INTERVALS["ci"] else None
            out[name] = with_interval(value, figures.get(f"{key}_ci", plain))
    return out


def with_interval(value: float | None, interval: Sequence[float | None] | None) -> str:
    if value is None:
        return "not measured"
    shown = _cell(value)
    known = interval is not None and len(interval) == 2 and None not in interval
    return f"{shown} [{', '.join(_cell(end) for end in interval)}]" if known and interval else shown


def _cell(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
