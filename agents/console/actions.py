"""Operators' changes: each is recorded on the topic `actions` before it is done, and again with its outcome."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from agents.console.access.sessions import LOCAL, Session
from schemas.errors import PochadeError
from schemas.ids import new_request_id
from schemas.messages import OperatorAction
from schemas.record import Delivered, Outgoing
from streams import metrics
from streams.control.actions import action_record

log = logging.getLogger(__name__)

ACK_S: Final = 15.0
MAX_RECENT: Final = 200  # actions that stay in memory
MAX_DETAIL: Final = 64_000  # characters of JSON

Do = Callable[[], Awaitable[tuple[str, Mapping[str, Any]]]]  # returns how it ended, and what is kept of it


class Actions:
    """Executes and records operators' changes; used on one event loop."""

    def __init__(
        self, send: Callable[[Outgoing], "Future[Delivered]"], clock_ms: Callable[[], int], user: str,
        on_begun: Callable[[OperatorAction], None] = lambda _action: None,
    ) -> None:  # fmt: skip
        """`user`: this process's user, for sessions without a key. `on_begun`: called with each action as it begins."""
        self.on_begun = on_begun
        self._send = send
        self._clock_ms = clock_ms
        self._user = user
        self._recent: OrderedDict[str, OperatorAction] = OrderedDict()

    def who(self, session: Session) -> str:
        """Return what a session's holder is called."""
        return session.name or (self._user if session.key_id == LOCAL else session.key_id)

    async def perform(
        self, session: Session, action: str, subject: str, detail: Mapping[str, Any], do: Do
    ) -> OperatorAction:
        """Record the beginning, execute, record and return the outcome, also of a failure.

        Raises:
            PochadeError: the broker did not acknowledge the first record; nothing was done.
        """
        asked = json.dumps(dict(detail))
        begun = OperatorAction(
            action_id=new_request_id(), by=session.key_id, name=self.who(session), action=action, subject=subject,
            at_ms=self._clock_ms(), detail=asked,
        )  # fmt: skip
        self.on_begun(begun)
        await self._write(begun)
        try:
            outcome, kept = await do()
            result = "done"
        except PochadeError as error:
            outcome, kept, result = f"failed: {error}", {}, "failed"
        metrics.CONSOLE_ACTIONS.labels(action, result).inc()
        whole = json.dumps({**detail, **kept})
        ended = replace(
            begun, at_ms=self._clock_ms(), outcome=outcome, detail=whole if len(whole) <= MAX_DETAIL else asked
        )
        self._recent[ended.action_id] = ended
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)
        try:
            await self._write(ended)
        except PochadeError as error:
            log.warning("how action %s ended is not on its topic: %s", ended.action_id, error)
        log.info("%s by %s: %s %s: %s", action, begun.by, subject, begun.action_id, outcome)
        return ended

    def find(self, action_id: str) -> OperatorAction | None:
        """Return one of the last actions of this console; None if none has this id."""
        return self._recent.get(action_id)

    async def _write(self, action: OperatorAction) -> None:
        sent = self._send(action_record(action, "console"))
        try:
            await asyncio.wait_for(asyncio.wrap_future(sent), ACK_S)
        except TimeoutError:
            raise PochadeError(f"the broker has not taken the record of {action.action} within {ACK_S:g} s") from None
