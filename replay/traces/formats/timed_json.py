"""JSON lines of timed requests: the fields of a request on `prompts`, none of them required, and when it came.

When is one of `arrival_ms` (since the start; `at`, `at_ms` and `timestamp` say the same), `at_s`, `at` as an ISO 8601
time, `time` (ISO 8601, or seconds or milliseconds since 1970), or else `created_ms` since 1970. A `deadline_ms` is read
by the clock of `created_ms` where the line has one, else by that of its arrival; `slack_ms` counts from the arrival.
`prompt_index` points at a prompt of another file.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from planner.serving.admission.admission import SEED_LIMIT
from replay.traces.formats.arrivals_csv import TIME
from replay.traces.formats.building import Builder
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit, moment_ms, number, share, since_1970_ms, whole
from replay.traces.formats.lines import Lines
from replay.traces.trace import Overrides, Row
from schemas.errors import InvalidRecord, InvalidRequest
from schemas.messages import GenerateRequest
from schemas.vocabulary import ALIASES
from streams.codec.prompt_file import request_of
from streams.codec.requests import HINTS

TIMES: Final[dict[str, Callable[[Any], float]]] = {
    "arrival_ms": lambda value: number(value, "milliseconds"),
    "at_ms": lambda value: number(value, "milliseconds"),
    "timestamp": lambda value: number(value, "milliseconds"),
    "at_s": lambda value: 1000 * number(value, "seconds"),
    "at": lambda value: moment_ms(value) if isinstance(value, str) else number(value, "milliseconds"),
    TIME: since_1970_ms,
    "created_ms": lambda value: number(value, "milliseconds"),
}
EXTRA: Final = ("slack_ms", "prompt_index", "hardness", *(name for name in TIMES if name != "created_ms"))
T = TypeVar("T")
EXAMPLE: Final = '{"arrival_ms": 0, "prompt": "a red heart"}'


def is_json(line: str) -> bool:
    """Whether this is the first line of such a file."""
    return line.lstrip().startswith(("{", "["))


def is_epoch(line: str, names: Mapping[str, str]) -> bool:
    """Return whether the times of a file that begins with this line are since 1970."""
    try:
        fields = _ours(json.loads(line), names)
        time = _time_of(fields)
    except (ValueError, RecursionError, Unfit):
        return False  # `read_json` reports what is wrong with the line
    return time in ("created_ms", TIME) or (time == "at" and isinstance(fields["at"], str))


def read_json(lines: Lines, faults: Faults, builder: Builder, most: int | None, names: Mapping[str, str]) -> None:
    """Read every line, or the first `most` requests; `names`: a field as the file has it -> ours.

    Raises:
        InvalidTrace: a line is no timed request.
    """
    reader = _Reader(names)
    for line in lines:
        if most is not None and len(builder) >= most:
            return
        if not line.strip():
            continue
        try:
            row = reader.row(line)
        except Unfit as fault:
            faults.found(lines.number, fault.kind, str(fault))
        else:
            builder.add(row, lines.number)


def row_of(request: GenerateRequest, arrival_ms: float, request_id: str) -> Row:
    """A request as a row of a trace."""
    wish = Overrides(options=request.options, tier=request.tier, quality=request.quality, tenant=request.tenant)
    slack_ms = None if request.deadline_ms is None else number(request.deadline_ms - request.created_ms, "milliseconds")
    seed = request.seed if request.seed is not None and 0 <= request.seed < SEED_LIMIT else None
    return Row(arrival_ms, request.prompt, None, wish, slack_ms, seed, request_id)


class _Reader:
    """Reads lines, and requires that all give their time in the field that the first line uses."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names, self._time = names, ""

    def row(self, line: str) -> Row:
        fields = _ours(_object(line), self._names)
        time = _time_of(fields)
        self._time = self._time or time
        if time != self._time:
            raise Unfit("another clock", f"the lines before give their time as {self._time}, this one as {time}")
        arrival_ms = TIMES[time](fields[time])
        asked = {name: value for name, value in fields.items() if name not in EXTRA}
        request = _request({"created_ms": 0, "prompt": "", "request_id": "none", **asked})
        row = row_of(request, arrival_ms, str(fields.get("request_id", "")))
        if row.seed != request.seed:
            raise Unfit("invalid options", f"seed must be in [0, 2**63): got {request.seed}")
        return row._replace(
            prompt=request.prompt if "prompt" in fields else None,
            prompt_index=_given(fields, "prompt_index", lambda value: whole(value, "a prompt's place")),
            slack_ms=_slack_ms(fields, request, arrival_ms),
            hardness=_given(fields, "hardness", lambda value: share(value, "hardness")),
        )


def _object(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unfit("not JSON", f"not JSON: {error!s:.200}; write an object a line, as {EXAMPLE}") from None
    if not isinstance(fields, dict):
        raise Unfit("not an object", f"must be one JSON object a line, as {EXAMPLE}: got {line.strip():.80}")
    return fields


def _ours(fields: Any, names: Mapping[str, str]) -> Any:
    """Return the fields under our names; of those that have none in `names` the ones that are ours and do not clash."""
    if not (names and isinstance(fields, dict)):
        return fields
    clashing = {*names.values(), *(TIMES if TIME in names.values() else ())}
    known = {*HINTS, *ALIASES, *EXTRA} - clashing
    return {names.get(name, name): value for name, value in fields.items() if name in names or name in known}


def _time_of(fields: Any) -> str:
    given = [name for name in TIMES if isinstance(fields, dict) and fields.get(name) is not None]
    if not given or (len(given) > 1 and given[1] != "created_ms"):
        raise Unfit("no time", f"a line gives its time once, as {EXAMPLE}: got {' and '.join(given) or 'none'}")
    return given[0]


def _request(fields: dict[str, Any]) -> GenerateRequest:
    try:
        return request_of(fields, 0)
    except (InvalidRecord, InvalidRequest) as error:
        raise Unfit("not a request", str(error)) from None


def _slack_ms(fields: dict[str, Any], request: GenerateRequest, arrival_ms: float) -> float | None:
    if (slack_ms := _given(fields, "slack_ms", lambda value: number(value, "milliseconds"))) is not None:
        return slack_ms
    if request.deadline_ms is None:
        return None
    clock_ms = number(request.created_ms, "milliseconds") if "created_ms" in fields else arrival_ms
    return number(request.deadline_ms, "milliseconds") - clock_ms


def _given(fields: dict[str, Any], name: str, read: Callable[[Any], T]) -> T | None:
    value = fields.get(name)
    return None if value is None else read(value)
