"""A measured catalog as the values and files that `planner` reads: NAME.json and NAME-quality.npz."""

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from agents.learning.bounds import bounds_of
from agents.profiling.classes import class_arrays
from agents.profiling.generation.orders import GeneratedImages
from agents.profiling.rounds import Measured
from agents.profiling.run import CascadeFound, Found, Wanted
from agents.profiling.statistics.sweeps import Sweep
from planner.catalog.entries import DeferralPoint
from planner.catalog.evidence.estimates import share_interval
from planner.catalog.guarantees import Guarantee
from planner.catalog.measured import Interval, Shares, Start
from planner.catalog.profile import FORMAT, CascadeProfile, LevelProfile, Profile
from planner.catalog.prompt_table import prompt_table
from streams.parsing.profile import parse

BANDS = (0.0, 0.25, 0.5, 0.75, 1.0)  # hardness
_THRESHOLDS = np.round(np.linspace(0, 1, 21), 2)


def profile_of(wanted: Wanted, found: Found) -> Profile:
    """The values, as far as they were measured."""
    return Profile(
        catalog=wanted.catalog.name,
        seed=wanted.seed,
        prompts=len(wanted.asked.prompts) if wanted.is_generating else 0,
        bands=BANDS,
        levels={
            name: _level(measured, found.generated.get(name), found.hardness)
            for name, measured in found.measured.items()
        },
        cascades=tuple(_cascade(cascade, found.hardness) for cascade in found.cascades),
        reuse={level: _starts(swept, found.hardness) for level, swept in found.reuse.items()},
        judging_ms={n: {batch: round(ms, 3) for batch, ms in times.items()} for n, times in found.judging_ms.items()},
        guarantees=tuple(_guarantees(wanted, found, datetime.date.today().isoformat())),
    )


def _guarantees(wanted: Wanted, found: Found, date: str) -> Iterator[Guarantee]:
    """What is promised of the images of each level that were judged right or wrong, and of those each judge keeps."""
    quality = {name: each.quality for name, each in found.generated.items() if _is_verdict(each.quality)}
    judged = [(c.pair.light, c.pair.discriminator, c.confidence) for c in found.cascades if c.confidence is not None]
    for level, judge, scores in [*((level, "", None) for level in quality), *judged]:
        if level in quality and (known := ~np.isnan(quality[level])).any():
            yield bounds_of(
                level, judge, None if scores is None else scores[known], quality[level][known] == 1,
                found.hardness[known], BANDS, standard=wanted.standard_in_words(), date=date,
            )  # fmt: skip


def _is_verdict(quality: np.ndarray) -> bool:
    """Whether each image is right, wrong, or not judged."""
    return bool(np.isin(quality[~np.isnan(quality)], (0, 1)).all())


def render(profile: Profile, provenance: Mapping[str, Any], notes: Sequence[str]) -> str:
    """The JSON text that `streams.parsing.profile.parse` reads back as the same values."""
    about = {"format": FORMAT, **provenance, "notes": list(notes)}
    text = json.dumps(about | _plain(asdict(profile)), indent=1) + "\n"
    assert parse(text, "the one just measured").levels.keys() == profile.levels.keys(), "a profile must be readable"
    return text


def save_table(wanted: Wanted, found: Found, file: Path) -> None:
    """Write the quality of every judged level on each prompt, for `planner.catalog.prompt_table`."""
    n, nothing = len(wanted.asked.prompts), np.full(len(wanted.asked.prompts), np.nan)
    swept = next((c.sweep for c in found.cascades if c.sweep is not None), None)
    quality, facts, cost_ms = _levels(found, n)
    arrays = {
        "prompts": np.array(wanted.asked.prompts),
        "seeds": np.array(wanted.asked.seeds, np.int64),
        "hardness": found.hardness.astype(np.float32),
        "levels": np.array(list(cost_ms), str),
        "cost_ms": np.array(list(cost_ms.values()), float),
        "quality": _columns(quality, n).astype(np.float16),
        "facts": _columns(facts, n).astype(np.float16),
        "judged": np.array([f"{c.pair.discriminator}: {c.pair.light} > {c.pair.heavy}" for c in found.cascades], str),
        "confidence": _columns([nothing if c.confidence is None else c.confidence for c in found.cascades], n).astype(
            np.float16
        ),
        "over_rows": np.zeros(0, int) if swept is None else swept.rows,
        "over_k": np.zeros(0, int) if swept is None else swept.k,
        "over_quality": (np.zeros((0, 0)) if swept is None else swept.quality.T).astype(np.float16),
    }
    write_table(arrays | class_arrays(found.classes, n), file)


def write_table(arrays: Mapping[str, np.ndarray], file: Path) -> None:
    """Write the arrays of NAME-quality.npz. Raises InvalidCatalog for arrays that `prompt_table` cannot read."""
    prompt_table(arrays, file.name)
    with file.open("wb") as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)


def _levels(found: Found, n: int) -> tuple[list[np.ndarray], list[np.ndarray], dict[str, float]]:
    """Quality and share of facts [n] of each level, and level -> ms; reuse levels are nan where none was generated."""
    quality = [generated.quality for generated in found.generated.values()]
    facts = [generated.facts for generated in found.generated.values()]
    cost_ms = {name: found.measured[name].calls[1].ms for name in found.generated}
    for level, swept in found.reuse.items():
        for k, share, some_quality, some_facts in zip(
            swept.k, swept.cost_share, swept.quality, swept.facts, strict=True
        ):
            quality.append(np.full(n, np.nan))
            facts.append(np.full(n, np.nan))
            quality[-1][swept.rows], facts[-1][swept.rows] = some_quality, some_facts
            cost_ms[f"{level}~k{k}"] = cost_ms[level] * float(share)
    return quality, facts, cost_ms


def deferral(confidence: np.ndarray) -> tuple[DeferralPoint, ...]:
    """f(t) at 21 thresholds: the share of images with a confidence [n] below t; at 1 all. Empty for no image."""
    known = confidence[~np.isnan(confidence)]
    if not len(known):
        return ()
    shares = [(known < t).mean() for t in _THRESHOLDS[:-1]] + [1.0]
    return tuple(
        DeferralPoint(round(float(t), 3), round(float(share), 4)) for t, share in zip(_THRESHOLDS, shares, strict=True)
    )


def _level(measured: Measured, generated: GeneratedImages | None, hardness: np.ndarray) -> LevelProfile:
    is_judged = generated is not None and not np.isnan(generated.quality).all()
    return LevelProfile(
        latency_ms={batch: round(call.ms, 2) for batch, call in measured.calls.items()},
        spread_ms={batch: round(call.high_ms - call.low_ms, 2) for batch, call in measured.calls.items()},
        clock=measured.clock,
        load_ms=round(measured.load_ms, 1),
        disk_load_ms=measured.disk_load_ms,
        cold_load_ms=round(measured.cold_load_ms, 1),
        memory_bytes=measured.memory_bytes,
        cuda_bytes=measured.cuda_bytes,
        quality=round(float(np.nanmean(generated.quality)), 4) if generated is not None and is_judged else None,
        quality_interval=_interval(generated.quality) if generated is not None and is_judged else None,
        quality_by_band=_by_band(generated.quality, hardness) if generated is not None and is_judged else (),
        judged_by_band=_judged(generated.quality, hardness) if generated is not None and is_judged else (),
        facts=_mean(generated.facts) if generated is not None else None,
        compiled=measured.is_compiled,
    )


def _mean(values: np.ndarray) -> float | None:
    """Mean of those that are known; None if none is."""
    return None if np.isnan(values).all() else round(float(np.nanmean(values)), 4)


def _cascade(found: CascadeFound, hardness: np.ndarray) -> CascadeProfile:
    confidence = np.full(len(hardness), np.nan) if found.confidence is None else found.confidence
    curves = tuple(deferral(confidence[band]) for band in _bands(hardness)) if found.confidence is not None else ()
    return CascadeProfile(
        light=found.pair.light,
        heavy=found.pair.heavy,
        discriminator=found.pair.discriminator,
        latency_ms=round(found.confidence_ms, 3),
        deferral=deferral(confidence),
        deferral_by_band=curves,
        paint_over=() if found.sweep is None else _starts(found.sweep, hardness),
        chosen_k=found.chosen_k,
    )


def _starts(swept: Sweep, hardness: np.ndarray) -> tuple[Start, ...]:
    return tuple(
        Start(
            k=int(k),
            cost_share=round(float(cost), 4),
            quality=round(float(quality.mean()), 4),
            quality_by_band=_by_band(quality, hardness[swept.rows]),
            quality_interval=_interval(quality),
            judged_by_band=_judged(quality, hardness[swept.rows]),
        )
        for k, cost, quality in zip(swept.k, swept.cost_share, swept.quality, strict=True)
    )


def _by_band(quality: np.ndarray, hardness: np.ndarray) -> Shares:
    parts = [quality[band][~np.isnan(quality[band])] for band in _bands(hardness)]
    return tuple(round(float(part.mean()), 4) if len(part) else None for part in parts)


def _judged(quality: np.ndarray, hardness: np.ndarray) -> tuple[int, ...]:
    return tuple(int((~np.isnan(quality[band])).sum()) for band in _bands(hardness))


def _interval(quality: np.ndarray) -> Interval:
    known = quality[~np.isnan(quality)]
    low, high = share_interval(float(known.mean()), len(known))
    return Interval(round(low, 4), round(high, 4))


def _bands(hardness: np.ndarray) -> list[np.ndarray]:
    """bool [n] for each band, as `Profile.band` has it."""
    at = np.clip(np.searchsorted(BANDS, hardness, side="right") - 1, 0, len(BANDS) - 2)
    return [at == band for band in range(len(BANDS) - 1)]


def _columns(columns: Sequence[np.ndarray], n: int) -> np.ndarray:
    return np.stack(columns, axis=1) if columns else np.zeros((n, 0))


def _plain(value: Any) -> Any:
    """JSON values; fields that are None are left out, so that an absent figure is an absent key."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
