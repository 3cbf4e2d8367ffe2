"""The traces that questions ask for, by name: published ones from a folder, or of the same shape; and the papers' own.

Source of the shapes generated here: the published traces, as planner/policies/SOURCES.md 4 describes them. Azure's is
one number an hour, scaled, an hour made a second; Twitter's are a swell, and bursts at seven times the calm.
"""

import csv
import gzip
import pathlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from replay.bench.traces.gentd26_folder import Drawing, RequestFiles
from replay.bench.traces.made import phased, sparse
from replay.traces import Trace, read
from replay.traces.rates import EXPONENTIAL, POISSON, within
from replay.traces.shapes import Shape, shaped
from replay.traces.trace import InvalidTrace, of_arrivals
from replay.traces.transforms import limited, redrawn, sped
from schemas.errors import Unknown

SEED: Final = 7  # of every made trace
MINUTE_S: Final = 60.0

AZURE = {
    "azure-1to8": ("azure_functions_1to8qps.csv", 1.0, 8.0),
    "azure-1to28": ("azure_functions_1to28qps.csv", 1.0, 28.0),
    "azure-4to32": ("azure_functions_4to32qps.csv", 4.0, 32.0),
}
TWITTER = {"twitter-normal": "twitter_2018_normal.csv", "twitter-bursty": "twitter_2018_bursty.csv"}
GENAI, GENAI_FILE = "genai2026", "qps.csv.gz"  # in the folder, or in the folder `genai2026` beside it
ROW_S, ROW_RUN_S = 57.0, 0.25  # a row of its file, and how long it takes here: a day in 6 minutes
GENAI_RATES = (4.0, 32.0)  # a second, that its lowest and highest row are scaled to, as Azure's are
PAPERS: Final = (*AZURE, *TWITTER)  # of the papers
PUBLISHED: Final = (*PAPERS, GENAI)
TUNING: Final = ("azure-1to8", "twitter-normal", GENAI)  # on which constants and settings are chosen
HELD_OUT: Final = ("azure-1to28", "azure-4to32", "twitter-bursty")  # which nothing is chosen on
REQUESTS: Final = "components-x"  # and how many times as fast: a stretch of GenTD26's requests, with their components
SPARSE: Final = "sparse-x"  # the same, made of combinations that seldom come again (MLoRA 5.3)
EVERY_REQUEST: Final = "components"  # of GenTD26, or as many made ones: for statistics
STRETCH: Final = 2000  # requests of a stretch
COMPONENTS_RPS: Final = 0.01265  # of made requests: the mean rate of GenTD26's file with times
CONTROL_SHARE: Final = 0.1  # of GenTD26's requests, whose files name no ControlNet. Ours
CONSTANT, STEADY = "constant-", "steady-"  # and a rate a second, for 10 to 30 minutes; a minute, for 80 minutes


def open_trace(name: str, folder: pathlib.Path | None, limit: int | None, redraw: int | None = None) -> Trace:
    """The trace of this name; `limit`: its first requests only. Raises Unknown, and InvalidTrace of a file.

    `redraw`: the number of another draw of its arrivals: of a published one at the recorded rates, of a made one at the
    rates that it is made of; None for arrivals that are always the same.
    """
    if name in PUBLISHED:
        trace = _limited(_published(name, folder), limit)
        return trace if redraw is None else redrawn(trace, redraw)
    return _limited(_opened(name, folder, SEED if redraw is None else SEED + 1 + redraw), limit)


def _limited(trace: Trace, limit: int | None) -> Trace:
    return trace if limit is None else limited(trace, limit)


def _opened(name: str, folder: pathlib.Path | None, seed: int) -> Trace:
    if name == EVERY_REQUEST or name.startswith((REQUESTS, SPARSE)):
        return _requests(name, folder, seed - SEED)
    if name.startswith(CONSTANT):
        rate = float(name.removeprefix(CONSTANT))
        return _trace_of_rates(name, np.full(600 if rate >= 2 else 1800, rate), 1.0, POISSON, seed)
    if name.startswith(STEADY):
        return _trace_of_rates(name, np.full(80, float(name.removeprefix(STEADY)) / MINUTE_S), MINUTE_S, POISSON, seed)
    if name not in SYNTHETIC:
        raise Unknown("trace", name, (*PUBLISHED, *SYNTHETIC))
    return SYNTHETIC[name](folder, seed)


def _published(name: str, folder: pathlib.Path | None) -> Trace:
    if name == GENAI:
        return _trace_of_rates(name, _day(folder), ROW_RUN_S, POISSON)
    if folder is not None:
        return read(folder / (AZURE[name][0] if name in AZURE else TWITTER[name]))
    if name in AZURE:
        _, low, high = AZURE[name]
        return _trace_of_rates(name, _hours(low, high), 1.0, EXPONENTIAL)
    return _trace_of_rates(name, _tweets(is_bursty=name == "twitter-bursty"), 1.0, EXPONENTIAL)


def _day(folder: pathlib.Path | None) -> np.ndarray:
    """Requests a second, row by row of a day of a production service, scaled; made of the same shape without a folder.

    Source: Alibaba, cluster-trace-v2026-GenAI, qps.csv: the rate of API requests about once a minute, with gaps, which
    are filled along a straight line.
    """
    if folder is None:
        at = np.arange(1409) / 1409
        swell = 0.55 + 0.35 * np.sin(2 * np.pi * (at - 0.05)) - 0.2 * np.cos(4 * np.pi * at)
        found = np.clip(swell + np.random.default_rng(SEED).normal(0, 0.12, len(at)), 0.02, None)
    else:
        found = _read_day(genai_file(folder))
    low, high = GENAI_RATES
    return np.asarray(low + (high - low) * (found - found.min()) / (found.max() - found.min()))


def genai_file(folder: pathlib.Path) -> pathlib.Path:
    """Return where the file of request rates lies. Raises InvalidTrace where it does not."""
    places = (folder / GENAI_FILE, folder.parent / GENAI / GENAI_FILE)
    for place in places:
        if place.is_file():
            return place
    raise InvalidTrace(f"no request rates of {GENAI}: neither {places[0]} nor {places[1]} is there")


def _read_day(file: pathlib.Path) -> np.ndarray:
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        rows = [
            (float(row["timestamp_anon"]), float(row["value"]))
            for row in csv.DictReader(lines)
            if row["request_type"] == "API Requests"
        ]
    if len(rows) < 2:
        raise InvalidTrace(f"{file} has {len(rows)} rows of API requests: expected two or more")
    at_s, rates = np.array(sorted(rows)).T
    return np.asarray(np.interp(np.arange(at_s[0], at_s[-1] + 1, ROW_S), at_s, rates))


def _requests(name: str, folder: pathlib.Path | None, number: int) -> Trace:
    """Requests for components: the stretch of this number, with times and users of its own; or all of them.

    Without a folder, and where SPARSE asks for them, made ones.
    """
    prefix = next((each for each in (REQUESTS, SPARSE) if name.startswith(each)), EVERY_REQUEST)
    speed = float(name.removeprefix(prefix) or 1.0)
    if folder is None or prefix == SPARSE:
        seconds = (10 if prefix == EVERY_REQUEST else 1) * STRETCH / COMPONENTS_RPS
        return sped(sparse(seconds, SEED + number, COMPONENTS_RPS), speed)
    files = _files(folder)
    first = number * STRETCH % max(1, len(files) - STRETCH + 1)
    whole = Drawing(seed=number, control_share=CONTROL_SHARE)
    asked = whole if prefix == EVERY_REQUEST else replace(whole, first=first, limit=STRETCH)
    return sped(files.draw(asked)[0], speed)


@lru_cache(maxsize=2)
def _files(folder: pathlib.Path) -> RequestFiles:
    """Read GenTD26's request files, in the folder or in `genai2026` beside it; bad lines are skipped."""
    places = (folder, folder.parent / GENAI)
    place = next((each for each in places if any(each.glob("data_trace_processed.csv*"))), places[1])
    return RequestFiles(place, is_lenient=True)


def _hours(low: float, high: float) -> np.ndarray:
    """A swell from the lowest to the highest rate in 347 s, and what an hour differs from its neighbours."""
    at = np.linspace(0, 1, 347)
    swell = np.sin(np.pi * at**1.3) ** 0.8
    noise = np.random.default_rng(SEED).normal(0, 0.05, len(at))
    shape = np.clip(swell + noise, 0, 1)
    return np.asarray(low + (high - low) * shape)


def _tweets(*, is_bursty: bool) -> np.ndarray:
    at = np.arange(291)
    if is_bursty:
        is_high = np.isin(at // 45 % 2, 1)
        return np.where(is_high, 128.0, 18.0)
    return np.asarray(35 + 215 * np.exp(-(((at - 90) / 30) ** 2)) + 65 * np.exp(-(((at - 245) / 22) ** 2)))


def _trace_of_rates(name: str, rates: np.ndarray, interval_s: float, spacing: str, seed: int = SEED) -> Trace:
    source = f"made: {len(rates)} intervals of {interval_s:g} s, {spacing}, seed {seed}"
    return of_arrivals(within(rates * interval_s, interval_s, spacing, seed), name, source)


def _by_minutes(folder: pathlib.Path | None, source: str, low: float, high: float, seed: int) -> Trace:
    """The shape of a Twitter trace, ten of its seconds made five minutes, between two rates a minute.

    ARGUS 5.1 scales its traces to the cluster; Fig. 16 shows 100 to about 500 a minute where ours carries 220.
    """
    arrivals = _published(source, folder).arrival_ms
    counts = np.bincount((arrivals // 10_000).astype(np.int64))[:-1].astype(np.float64)
    rates = low + (high - low) * (counts - counts.min()) / (counts.max() - counts.min())
    return _trace_of_rates(f"{source}-minutes", rates / MINUTE_S, 5 * MINUTE_S, POISSON, seed)


def _shape(shape: Shape) -> Callable[[pathlib.Path | None, int], Trace]:
    return lambda _folder, seed: shaped(shape, POISSON, seed)


CAPACITY_RPS: Final = 8 / 4.2  # what eight workers that generate one image in 4.2 s carry


def _loads(name: str, *spans: tuple[float, int]) -> Callable[[pathlib.Path | None, int], Trace]:
    """Return the generator of a trace of (load, seconds) one after the other; a load of 1 is CAPACITY_RPS."""
    rates = np.concatenate([np.full(seconds, load * CAPACITY_RPS) for load, seconds in spans])
    return lambda _folder, seed: _trace_of_rates(name, rates, 1.0, POISSON, seed)


LOW, HIGH = 40.0, 200.0  # a minute: from the paper's least to nine tenths of what eight workers carry
SYNTHETIC: Final[dict[str, Callable[[pathlib.Path | None, int], Trace]]] = {  # generators of traces by name
    "steps": _shape(Shape(name="steps", rates_rps=(1.0, 3.0, 8.0, 4.0, 1.0), seconds=1500)),
    "phases": lambda _folder, seed: phased(2400, seed),
    "ramp": _shape(Shape(name="ramp", seconds=3600)),
    "bursts": _shape(Shape(name="burst", rates_rps=(LOW / 60, HIGH / 60), seconds=3600, every_s=600)),
    "burst-8x": _loads("burst-8x", (0.6, 300), (4.8, 300), (0.6, 1200)),
    "silence": _loads("silence", (0.15, 120), (0.0, 1800), (0.15, 300)),
    "twitter-minutes": lambda folder, seed: _by_minutes(folder, "twitter-normal", LOW, HIGH, seed),
}
