"""GenTD26's two request files as one trace: what is asked for of one, when and by whom of the other.

`data_trace_processed.csv` names bases and LoRAs and has no times and no users; `lora_request_trace.csv` has times and
users and only counts LoRAs. So one trace of both can only be drawn:

    order, bases, LoRAs with scales, steps, images   of the first, row by row
    times    the gaps between the second's requests, in their order from a gap that is drawn, over again as they end;
             its times are whole seconds, so that each is moved by less than a second, drawn
    users    of the second: the n-th request to the k-th most popular base has the user of the n-th request (from one
             that is drawn) to its k-th most popular base, so that a user's run of requests to one base stays a run
    controls neither has any: by default no request has one, else a share of them, drawn, one each of `N_CONTROLS`, as
             skewed as the most popular LoRAs

Bases and LoRAs are named by their rank, `base-000` the most popular, as the catalog `genai2026` lists them.
"""

import ast
import pathlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from replay.simulation.draws.chance import uniform
from replay.traces.formats.building import Builder, Rules
from replay.traces.formats.csv_rows import table
from replay.traces.formats.faults import Faults, quoted
from replay.traces.formats.fields import Unfit, moment_ms, whole
from replay.traces.formats.lines import open_lines
from replay.traces.trace import InvalidTrace, Overrides, Row, Trace
from schemas.messages import GenerateOptions

TIME: Final = "gmt_create"
MODEL: Final = "checkpoint_model_version_id"
NEEDED: Final = {MODEL, "num_inference_steps", "num_images_per_prompt"}
MAX_LORAS: Final = 100  # a request
LORAS: Final = "lora_args"
USER: Final = "groupid"  # headers are read in lower case
N_CONTROLS: Final = 24  # ControlNets that the study saw (MLoRA 5.3)
NO_IMAGE: Final = "none:"  # stands for the image that a control follows
RESOLUTION_MS: Final = 1000.0  # of the times
FOLDER: Final = "the folder of GenTD26 with lora_request_trace.csv and data_trace_processed.csv, plain or gzip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Options of drawing one trace from both files."""

    seed: int = 0
    control_share: float = 0.0  # [0, 1], of the requests, that have a ControlNet
    control_image: str = NO_IMAGE  # URI in the store of the image that controls follow; a live replay needs one
    first: int = 0  # row of the file without times to begin with
    limit: int | None = None  # requests to take from there; None: all


class _Asked(NamedTuple):
    """A row of the file without times."""

    where: int
    base: str
    loras: tuple[tuple[str, float], ...]
    images: int
    steps: int | None


class _Timed(NamedTuple):
    """A row of the file with times."""

    at_ms: float
    user: str
    base: str


class RequestFiles:
    """A folder's two request files, read once, of which traces are drawn."""

    def __init__(self, folder: pathlib.Path, *, is_lenient: bool = False) -> None:
        """Read both files. `is_lenient`: bad lines are counted and skipped.

        Raises InvalidTrace: a file is not there or has no requests, or a line that cannot be read, with file and line.
        """
        self._folder, self._is_lenient = folder, is_lenient
        self._untimed_file, self._timed_file = _files(folder)
        self._faults = Faults(str(self._untimed_file), is_lenient=is_lenient)
        self._requests = list(_read_asked(self._untimed_file, self._faults))
        timed_faults = Faults(str(self._timed_file), is_lenient=is_lenient)
        self._timed = sorted(_read_timed(self._timed_file, timed_faults))
        self._skipped = self._faults.skipped + timed_faults.skipped
        if not self._requests or len(self._timed) < 2:
            raise InvalidTrace(
                f"{folder} must have a request with LoRA ids and two with times: got {len(self._requests)} and "
                f"{len(self._timed)}; give {FOLDER}"
            )
        self._names = _Names(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def draw(self, asked: Drawing) -> tuple[Trace, dict[str, Any]]:
        """Return a trace, and how it was made, as JSON values. Raises InvalidTrace where no request is left."""
        past = None if asked.limit is None else asked.first + asked.limit
        requests, timed, names = self._requests[asked.first : past], self._timed, self._names
        if not requests:
            raise InvalidTrace(f"{self._folder} has {len(self)} requests: none from {asked.first} on")
        arrivals_ms = _arrivals(np.array([each.at_ms for each in timed]), len(requests), asked.seed)
        users = _users(requests, timed, names, asked.seed)
        controls = _controls(requests, asked)
        faults = Faults(str(self._untimed_file), is_lenient=self._is_lenient)
        builder = Builder(faults, Rules())
        for at_ms, request, user, control in zip(arrivals_ms.tolist(), requests, users, controls, strict=True):
            options = names.options(request, control, asked.control_image)
            builder.add(Row(at_ms, wish=Overrides(options=options, tenant=user)), request.where)
        trace = builder.trace(self._folder.name)
        return trace, {
            "made_from": {"components": self._untimed_file.name, "times_and_users": self._timed_file.name},
            "drawn": {
                "seed": asked.seed,
                "rows": [asked.first, asked.first + len(requests)],
                "times": "gaps of the second file in their order from a drawn one, over again; moved by less than 1 s",
                "users": "of the second file's requests to the base of equal rank, in their order, from a drawn one",
                "controls": f"{asked.control_share:g} of the requests, one each, as skewed as the most popular LoRAs; "
                "the files name none",
            },
            "requests": len(trace),
            "requests_in_files": {"components": len(self), "times": len(timed)},
            "bases": len(names.bases),
            "adapters": len(names.loras),
            "controls": N_CONTROLS if asked.control_share else 0,
            "users": len({each.user for each in timed}),
            "names": "base-000, lora-000: by popularity in the whole first file",
            "skipped": dict(self._skipped + faults.skipped),
        }


def draw_trace(folder: pathlib.Path, asked: Drawing, *, is_lenient: bool = False) -> tuple[Trace, dict[str, Any]]:
    """Return the trace drawn from a folder's two request files, and how it was made. Raises as `RequestFiles` does."""
    return RequestFiles(folder, is_lenient=is_lenient).draw(asked)


class _Names:
    """Names of bases and LoRAs by how often the file asks for them."""

    def __init__(self, requests: Sequence[_Asked]) -> None:
        self.bases = _ranked(each.base for each in requests if each.base)
        self.loras = _ranked(name for each in requests for name, _ in each.loras)
        self._base = {theirs: f"base-{rank:03}" for rank, theirs in enumerate(self.bases)}
        self._lora = {theirs: f"lora-{rank:03}" for rank, theirs in enumerate(self.loras)}

    def options(self, request: _Asked, control: str, control_image: str) -> GenerateOptions:
        """Return what a request asks for, by our names; of a LoRA that it names twice the first counts."""
        loras = {self._lora[name]: scale for name, scale in reversed(request.loras)}
        own = dict(sorted(loras.items()))
        return GenerateOptions(
            n=request.images,
            steps=request.steps,
            model=self._base[request.base] if request.base else "",
            adapters=tuple(own),
            adapter_weights=() if all(scale == 1 for scale in own.values()) else tuple(own.values()),
            controls=(control,) if control else (),
            control_images=(control_image,) if control else (),
        )


def _files(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the file without times and the one with them, known by their columns."""
    found: dict[bool, list[pathlib.Path]] = {False: [], True: []}
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in paths:
        if path.is_file() and path.name.endswith((".csv", ".csv.gz")):
            columns = _columns(path)
            if set(columns) >= NEEDED and (TIME in columns or LORAS in columns):
                found[TIME in columns].append(path)
    for has_times, files in found.items():
        if len(files) != 1:
            what = "with the times of requests" if has_times else "with the LoRAs of requests"
            got = ", ".join(path.name for path in files) or "none"
            raise InvalidTrace(f"{folder} must have one file {what}: got {got}; give {FOLDER}")
    return found[False][0], found[True][0]


def _columns(path: pathlib.Path) -> tuple[str, ...]:
    faults = Faults(str(path), is_lenient=True)
    with open_lines(path, faults, InvalidTrace, FOLDER) as lines:
        return table(lines, faults).columns


def _read_asked(path: pathlib.Path, faults: Faults) -> Iterator[_Asked]:
    with open_lines(path, faults, InvalidTrace, FOLDER) as lines:
        for where, fields in table(lines, faults).rows:
            images, steps = fields["num_images_per_prompt"], fields["num_inference_steps"]
            try:
                yield _Asked(
                    where,
                    fields[MODEL],
                    tuple(loras_of(fields[LORAS])),
                    whole(images, "images", 1) if images else 1,
                    whole(steps, "steps", 1) if steps else None,
                )
            except Unfit as fault:
                faults.found(where, fault.kind, str(fault))


def _read_timed(path: pathlib.Path, faults: Faults) -> Iterator[_Timed]:
    with open_lines(path, faults, InvalidTrace, FOLDER) as lines:
        for where, fields in table(lines, faults).rows:
            try:
                yield _Timed(moment_ms(fields[TIME]), fields.get(USER) or Overrides().tenant, fields[MODEL])
            except Unfit as fault:
                faults.found(where, fault.kind, str(fault))


def _arrivals(times_ms: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return rising times from 0 on, float64 [count]."""
    within = np.sort(times_ms + RESOLUTION_MS * uniform(seed, "gentd26-second", 0, len(times_ms)))
    gaps_ms = np.diff(within)
    first = int(uniform(seed, "gentd26-gap", 0, 1)[0] * len(gaps_ms))
    taken = gaps_ms[(first + np.arange(count - 1)) % len(gaps_ms)]
    return np.concatenate([[0.0], np.cumsum(taken)])


def _users(requests: Sequence[_Asked], timed: Sequence[_Timed], names: _Names, seed: int) -> list[str]:
    by_base: defaultdict[str, list[str]] = defaultdict(list)
    for each in timed:
        by_base[each.base].append(each.user)
    ranked = _ranked(each.base for each in timed if each.base)
    everyone = [each.user for each in timed]
    users_of = {
        base: by_base[ranked[min(rank, len(ranked) - 1)]] if ranked else everyone
        for rank, base in enumerate(names.bases)
    }
    starts = dict(zip(["", *names.bases], uniform(seed, "gentd26-user", 0, len(names.bases) + 1), strict=True))
    taken: Counter[str] = Counter()
    users = []
    for request in requests:
        own = users_of.get(request.base, everyone)
        users.append(own[(int(starts[request.base] * len(own)) + taken[request.base]) % len(own)])
        taken[request.base] += 1
    return users


def _controls(requests: Sequence[_Asked], asked: Drawing) -> list[str]:
    """Return the ControlNet of each request; "": none."""
    if not asked.control_share:
        return [""] * len(requests)
    counts = Counter(name for each in requests for name, _ in each.loras)
    weights = [count for _, count in counts.most_common(N_CONTROLS)] or [1]
    edges = np.cumsum(weights) / sum(weights)
    has = uniform(asked.seed, "gentd26-has-control", 0, len(requests)) < asked.control_share
    which = np.searchsorted(edges, uniform(asked.seed, "gentd26-control", 0, len(requests)), side="right")
    return [f"control-{number:03}" if own else "" for own, number in zip(has.tolist(), which.tolist(), strict=True)]


def _ranked(ids: Iterator[str]) -> list[str]:
    """Return the distinct ids, the most frequent first, equals by name."""
    counts: Mapping[str, int] = Counter(ids)
    return sorted(counts, key=lambda each: (-counts[each], each))


def loras_of(text: str) -> list[tuple[str, float]]:
    """Return the ids of the LoRAs in a field `lora_args`, each with its scale, 1 where it has none. Raises Unfit."""
    try:
        found: Any = ast.literal_eval(text) if text else []
        return [(str(lora["modelVersionId"]), float(lora.get("scale", 1.0))) for lora in islice(found, MAX_LORAS)]
    except (ValueError, SyntaxError, TypeError, KeyError, AttributeError, MemoryError, RecursionError):
        raise Unfit("not LoRAs", f"lora_args is not a list of modelVersionId and scale: {quoted(text)}") from None
