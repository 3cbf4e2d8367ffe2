"""Reads the files that DiffServe's and HADIS's authors published, to hold the re-typed figures of catalogs to them.

`published_catalog` is a catalog with the full files instead of the figures re-typed from them. What is wrong in a file
is reported with file and line.

DiffServe's are profiles whose scores are P(fake) there and confidences, 1 - P(fake), here: `runtimes`, `deferral`,
`confidences`, `discriminator`. HADIS's are of its L40S testbed: `hybrid_configs`, `scores`. Source:
planner/policies/SOURCES.md 3.4 and 4.
"""

import csv
import gzip
import io
import math
import pathlib
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.catalog.curves import PairRow
from planner.catalog.entries import Curve, DeferralPoint
from planner.catalog.model import Catalog
from schemas.errors import PochadeError, Unknown
from streams.catalogs import load

LIGHT, HEAVY = "sdturbo", "sdv15"  # what DiffServe's files call the two models of any cascade
IMAGES: Final = 4  # a prompt
NEVER_MS: Final = 100_000.0  # stands for a batch that does not fit
STEP: Final = 0.005  # between the thresholds of the published table
ACCELERATOR: Final = "ampere"  # the rows of the A100; those of the others are copies of them


FILES: Final[dict[str, dict[str, str]]] = {  # catalog -> kind of file -> its name
    "diffserve-sdturbo": {
        "runtimes": "diffserve_runtimes_sdturbo.csv",
        "discriminator": "diffserve_discriminator_sdturbo.csv",
    },
    "diffserve-sdxs": {"runtimes": "diffserve_runtimes_sdxs.csv", "discriminator": "diffserve_discriminator_sdxs.csv"},
    "diffserve-sdxlltn": {
        "runtimes": "diffserve_runtimes_sdxlltn.csv",
        "discriminator": "diffserve_discriminator_sdxs.csv",  # the third cascade's are the second's (SOURCES.md 3.5)
    },
    "hadis-l40s": {"hybrid_configs": "hadis_hybrid_configs.csv"},
}
GZIP_MAGIC = b"\x1f\x8b"


def published_catalog(name: str, folder: pathlib.Path) -> Catalog:
    """The shipped catalog of this name with the full files of the folder.

    Raises Unknown for a catalog without any, PochadeError for a file that is missing or damaged.
    """
    if name not in FILES:
        raise Unknown("catalog of published figures", name, FILES)
    return with_published(load(name), {kind: published_text(folder, file) for kind, file in FILES[name].items()})


def published_text(folder: pathlib.Path, name: str) -> tuple[str, str]:
    """(text, file as messages call it) of FOLDER/name, or of FOLDER/name.gz where that is there instead.

    Raises PochadeError: neither is there, or it is no text.
    """
    file = next((f for f in (folder / name, folder / f"{name}.gz") if f.is_file()), None)
    if file is None:
        there = ", ".join(sorted(f.name for f in folder.glob("*.csv*"))) if folder.is_dir() else "no such folder"
        raise PochadeError(f"no {name} or {name}.gz in {folder}: there is {there or 'no CSV file'}")
    try:
        data = file.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data).decode("utf-8-sig"), str(file)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise PochadeError(f"{file} cannot be read as text, plain or gzip: {error}") from error


def with_published(catalog: Catalog, texts: Mapping[str, tuple[str, str]]) -> Catalog:
    """The catalog with the files of some kinds; a kind's value is (text, file as messages call it).

    "runtimes" and "discriminator" are of the first cascade, "hybrid_configs" number the variants in their order. Raises
    Unknown for another kind, InvalidPublished or InvalidCatalog for what a file holds.
    """
    for kind, (text, file) in texts.items():
        if kind not in _KINDS:
            raise Unknown("kind of published file", kind, _KINDS)
        catalog = _KINDS[kind](catalog, text, file)
    return catalog


def _runtimes(catalog: Catalog, text: str, file: str) -> Catalog:
    measured = runtimes(text, file)
    names = {LIGHT: catalog.pair().light, HEAVY: catalog.pair().heavy}
    faster = {
        names[model]: replace(catalog.level(names[model]), latency_ms=times)
        for model, times in measured.items()
        if model in names
    }
    return replace(catalog, variants=catalog.variants | faster)


def _discriminator(catalog: Catalog, text: str, file: str) -> Catalog:
    name = catalog.pair().discriminator
    means = [sum(images) / len(images) for images in discriminator(text, file)]
    judged = replace(catalog.discriminator(name), deferral=curve_of(means))
    return replace(catalog, discriminators=catalog.discriminators | {name: judged})


def _hybrid_configs(catalog: Catalog, text: str, file: str) -> Catalog:
    return replace(catalog, pair_rows=hybrid_configs(text, file, tuple(catalog.variants)))


_KINDS: Final[dict[str, Callable[[Catalog, str, str], Catalog]]] = {
    "runtimes": _runtimes,
    "discriminator": _discriminator,
    "hybrid_configs": _hybrid_configs,
}


class InvalidPublished(PochadeError):
    """A published file that does not hold what it should; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a published file, below the header."""

    where: str  # FILE:LINE
    cells: Mapping[str, str]

    def number(self, column: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A cell as a finite number in [low, high]. Raises InvalidPublished."""
        return number(self.cells[column], f"{self.where}: {column}", low, high)

    def whole(self, column: str, low: int = 0) -> int:
        """A cell as a whole number of at least `low`. Raises InvalidPublished."""
        value = self.number(column, low)
        if value != int(value):
            raise InvalidPublished(f"{self.where}: {column} must be a whole number: got {self.cells[column]!r}")
        return int(value)


def lines(text: str, file: str, columns: Sequence[str]) -> Iterator[Line]:
    """The lines of a CSV text that has at least these columns, blank ones left out.

    Raises InvalidPublished: no header, a missing column, a line of another length, no line at all.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    header = next(reader, [])
    missing = [column for column in columns if column not in header]
    if missing:
        raise InvalidPublished(f"{file}:1: no column {', '.join(missing)}: got {', '.join(header) or 'nothing'}")
    found = False
    for cells in reader:
        where = f"{file}:{reader.line_num}"
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise InvalidPublished(f"{where}: {len(header)} columns are needed: got {len(cells)}")
        found = True
        yield Line(where, dict(zip(header, cells, strict=True)))
    if not found:
        raise InvalidPublished(f"{file} has a header and no line below it")


def number(text: str, where: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number in [low, high]. Raises InvalidPublished."""
    try:
        value = float(text)
    except ValueError:
        raise InvalidPublished(f"{where} must be a number: got {text[:80]!r}") from None
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidPublished(f"{where} must be a finite number in [{low:g}, {high:g}]: got {text[:80]}")
    return value


def grouped(values: Sequence[float], size: int, file: str) -> tuple[tuple[float, ...], ...]:
    """Values by prompt: row `size` i + j is image j of prompt i. Raises InvalidPublished for a rest."""
    if not values or len(values) % size:
        expected = f"a multiple of {size} rows above 0, images of one prompt together"
        raise InvalidPublished(f"{file} must have {expected}: got {len(values)}")
    return tuple(tuple(values[at : at + size]) for at in range(0, len(values), size))


def runtimes(text: str, file: str, accelerator: str = ACCELERATOR) -> dict[str, dict[int, float]]:
    """`Model, Accel, batchsize, avg_runtime` -> model -> batch size -> ms a call, of one accelerator.

    "sdturbo" stands for a cascade's light model and "sdv15" for its heavy one, whatever they are. Raises
    InvalidPublished.
    """
    found: dict[str, dict[int, float]] = {}
    for line in lines(text, file, ("Model", "Accel", "batchsize", "avg_runtime")):
        batch, ms = line.whole("batchsize", low=1), line.number("avg_runtime", low=0)
        if line.cells["Accel"].endswith(accelerator) and ms < NEVER_MS:
            found.setdefault(line.cells["Model"], {})[batch] = ms
    if not found:
        raise InvalidPublished(f"{file}: no run time of an accelerator that ends with {accelerator!r}")
    return found


def deferral(text: str, file: str) -> Curve:
    """`t, f_t` -> f(t), thresholds rising. Raises InvalidPublished, also where f falls."""
    points: list[DeferralPoint] = []
    for line in lines(text, file, ("t", "f_t")):
        point = DeferralPoint(line.number("t", 0, 1), line.number("f_t", 0, 1))
        if points and (point.threshold <= points[-1].threshold or point.deferred < points[-1].deferred):
            raise InvalidPublished(f"{line.where}: t must rise and f_t not fall: got {point} after {points[-1]}")
        points.append(point)
    return tuple(points)


def confidences(text: str, file: str) -> dict[str, tuple[float, ...]]:
    """Parse `content_id, MODEL...` into model -> confidence of each prompt, its images' mean, in the file's order.

    Raises InvalidPublished, also for content ids that do not count up.
    """
    found: dict[str, list[float]] = {}
    before: int | None = None
    for line in lines(text, file, ("content_id",)):
        content = line.whole("content_id")
        if before is not None and content != before + 1:
            raise InvalidPublished(f"{line.where}: content_id must count up: got {content} after {before}")
        before = content
        for model in line.cells:
            if model not in ("content_id", ""):
                found.setdefault(model, []).append(1 - line.number(model, 0, 1))
    return {model: tuple(values) for model, values in found.items()}


def discriminator(text: str, file: str, images: int = IMAGES) -> tuple[tuple[float, ...], ...]:
    """Parse one P(fake) per line, without a header, into prompt -> image -> confidence. Raises InvalidPublished."""
    rows = text.removeprefix("\ufeff").splitlines()
    scores = [1 - number(row.strip(), f"{file}:{at}", 0, 1) for at, row in enumerate(rows, 1) if row.strip()]
    return grouped(scores, images, file)


def curve_of(scores: Sequence[float], step: float = STEP) -> Curve:
    """f(t) of confidences on a grid of thresholds, up to where nothing is kept. `scores` must not be empty."""
    assert scores, "a curve of no confidences"
    rising = sorted(scores)
    thresholds = [round(at * step, 12) for at in range(round(1 / step) + 1)]
    points = [DeferralPoint(t, bisect_left(rising, t) / len(rising)) for t in thresholds]
    kept = sum(point.deferred < 1 for point in points)
    return tuple(points[: kept + 1])


def hybrid_configs(text: str, file: str, levels: Sequence[str]) -> tuple[PairRow, ...]:
    """`light_model, heavy_model, router_ratio, disc_ratio, latency, fid` -> rows, in ms and -FID.

    `levels` name the models by their numbers. Raises InvalidPublished, also for a number without a name.
    """
    needed = ("light_model", "heavy_model", "router_ratio", "disc_ratio", "latency", "fid")
    rows = []
    for line in lines(text, file, needed):
        models = line.whole("light_model"), line.whole("heavy_model")
        if max(models) >= len(levels) or models[0] == models[1]:
            raise InvalidPublished(f"{line.where}: two of the models 0..{len(levels) - 1} are needed: got {models}")
        light, heavy = (levels[model] for model in models)
        ratios = line.number("router_ratio", 0, 1), line.number("disc_ratio", 0, 1)
        latency_ms = round(1000 * line.number("latency", 0), 6)  # 0.58 s is 580 ms, whatever 1000 * 0.58 is
        rows.append(PairRow(light, heavy, *ratios, latency_ms, -line.number("fid", 0)))
    return tuple(rows)


def scores(text: str, file: str, images: int = IMAGES) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Parse one column of P(real) per model into model -> prompt -> image -> confidence. Raises InvalidPublished.

    They are saturated, with medians from .001 to .01: only their order means anything.
    """
    columns: dict[str, list[float]] = {}
    for line in lines(text, file, ()):
        for model, cell in line.cells.items():
            columns.setdefault(model, []).append(number(cell, f"{line.where}: {model}", 0, 1))
    return {model: grouped(values, images, f"{file}: {model}") for model, values in columns.items()}
