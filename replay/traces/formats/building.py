"""Rows into a trace: the rules that hold whatever the format. What breaks one is a fault of its line."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from planner.catalog.option_limits import check_options
from replay.traces.formats.columns import Columns
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit
from replay.traces.trace import MAX_REQUESTS, MAX_SPAN_MS, InvalidTrace, Overrides, Row, Trace, request_of
from schemas.errors import InvalidRequest, Unknown

ANY_MODEL: Final = "*"  # in a renaming: every model that it does not name
MAX_IMAGES: Final = 1000  # a request; how many a deployment takes is its own setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for the requests of one trace."""

    is_epoch: bool = False  # times are since 1970: the first one is the start
    sorts: bool = False  # instead of refusing times that fall
    prompts: int | None = None  # how many there are to point at; None: not known
    models: frozenset[str] | None = None  # that there are; None: not known
    renamed: Mapping[str, str] = field(default_factory=dict)  # a model as the trace calls it -> ours, or "": any


class Builder:
    """Takes rows in the order of their source and makes the trace of them."""

    def __init__(self, faults: Faults, rules: Rules) -> None:
        self._faults, self._rules, self._columns = faults, rules, Columns()
        self._start_ms: float | None = None if rules.is_epoch else 0.0
        self._latest_ms = float("-inf")
        self._has_texts = self._has_indexes = False
        self._ids: set[str] = set()
        self._ours: dict[Overrides, Overrides] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, row: Row, where: int | str) -> None:
        """Add a request. Raises InvalidTrace for a fault that is not skipped."""
        try:
            self._check_time(row.arrival_ms)
            self._check_prompt(row)
            if row.request_id in self._ids:
                raise Unfit("repeated", f"request_id {row.request_id!r:.80} came before")
            row = row._replace(wish=self._as_ours(row.wish))
        except Unfit as fault:
            self._faults.found(where, fault.kind, str(fault))
            return
        if len(self) >= MAX_REQUESTS:
            raise InvalidTrace(f"{self._faults.source}:{where}: more than {MAX_REQUESTS:,} requests; give --limit")
        if self._start_ms is None:
            self._start_ms = row.arrival_ms
        self._latest_ms = max(self._latest_ms, row.arrival_ms)
        self._has_texts |= row.prompt is not None
        self._has_indexes |= row.prompt_index is not None
        if row.request_id:
            self._ids.add(row.request_id)
        self._columns.append(row)

    def _check_time(self, at_ms: float) -> None:
        rules = self._rules
        since_ms = at_ms - (at_ms if self._start_ms is None else self._start_ms)
        if since_ms < 0 and not (rules.sorts and rules.is_epoch):
            raise Unfit("before the start", f"an arrival is 0 ms or later after the start: got {since_ms:g}")
        if abs(since_ms) > MAX_SPAN_MS:
            message = f"{since_ms:g} ms is more than {MAX_SPAN_MS / 86_400_000:g} days after the start"
            raise Unfit("too late", f"{message}; give --time-column for times since 1970, or created_ms in JSON lines")
        if at_ms < self._latest_ms and not rules.sorts:
            message = f"{since_ms:g} after {since_ms + self._latest_ms - at_ms:g}"
            raise Unfit("falling", f"arrivals must not fall: {message}; sort it, or give --sort")

    def _check_prompt(self, row: Row) -> None:
        has_text, has_index = row.prompt is not None, row.prompt_index is not None
        if (has_text and (has_index or self._has_indexes)) or (has_index and self._has_texts):
            raise Unfit("two prompts", "the requests of a trace have a prompt or a prompt_index, not some each")
        there_are = self._rules.prompts
        if row.prompt_index is not None and there_are is not None and row.prompt_index >= there_are:
            message = f"there are {there_are} prompts, 0 to {there_are - 1}"
            raise Unfit("prompt out of range", f"prompt_index {row.prompt_index} points at none: {message}")

    def _as_ours(self, wish: Overrides) -> Overrides:
        """Return the overrides with the catalog's name of the model."""
        if wish not in self._ours:
            theirs, renamed, models = wish.options.model, self._rules.renamed, self._rules.models
            ours = renamed.get(theirs, renamed.get(ANY_MODEL, theirs)) if theirs else ""
            if ours and models is not None and ours not in models:
                message = f"{Unknown('model', ours, models)}; give --model {theirs}=NAME, or --model '*=' for any"
                raise Unfit("unknown model", message)
            _check_options(wish)
            self._ours[wish] = dataclasses.replace(wish, options=dataclasses.replace(wish.options, model=ours))
        return self._ours[wish]

    def trace(self, name: str) -> Trace:
        """The requests, in order of arrival. Raises: InvalidTrace where none is left."""
        if not len(self):
            raise InvalidTrace(f"{self._faults.source} has no requests{self._faults.describe()}")
        start_ms = None if self._rules.is_epoch else 0.0
        return self._columns.trace(name, self._faults.source, start_ms, self._faults.skipped)


def _check_options(wish: Overrides) -> None:
    request = request_of(Row(0.0, "", wish=wish), "of this line", 0)
    try:
        check_options(request, MAX_IMAGES)
    except InvalidRequest as error:
        raise Unfit("invalid options", str(error)) from None
