"""Carries out faults when they are due, several at a time, between the other things that a run does."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import KafkaException

from replay.load.driver import Due
from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import Do, Steps, World
from schemas.errors import PochadeError

log = logging.getLogger(__name__)

NOT_DONE = "not done"  # the description of a fault that met nothing begins with this


@dataclass(slots=True)
class Doing:
    """A fault that has begun."""

    fault: Fault
    began_ms: float  # epoch
    steps: Steps
    due_ms: float  # of its next step
    ended_ms: float | None = None
    description: str = ""

    @property
    def met_nothing(self) -> bool:
        """Whether the fault is over without effect, as what it wanted to break was not there."""
        return self.description.startswith(NOT_DONE)

    def report(self, start_ms: float) -> dict[str, Any]:
        """Return the fault as the report shows it."""
        ended_ms = self.began_ms if self.ended_ms is None else self.ended_ms
        return {
            **asdict(self.fault),
            "began_s": round((self.began_ms - start_ms) / 1000, 2),
            "ended_s": round((ended_ms - start_ms) / 1000, 2),
            "told": self.description,
        }


class Faults:
    """`tick` often, by one thread. Times are epoch ms."""

    def __init__(self, faults: Sequence[Fault], kinds: Mapping[str, Do], world: World) -> None:
        self._waiting, self._kinds, self._world = sorted(faults, key=lambda fault: fault.at_ms), kinds, world
        self.begun: list[Doing] = []

    def tick(self, start_ms: float, now_ms: float) -> list[str]:
        """Begin and go on with what is due; a sentence for each fault that is over."""
        while self._waiting and start_ms + self._waiting[0].at_ms <= now_ms:
            fault = self._waiting.pop(0)
            self.begun.append(Doing(fault, now_ms, self._kinds[fault.kind](self._world, fault), now_ms))
        return [line for doing in self.begun if doing.ended_ms is None and (line := self._go_on(doing, now_ms))]

    def _go_on(self, doing: Doing, now_ms: float) -> str | None:
        if now_ms < doing.due_ms:
            return None
        try:
            doing.due_ms = now_ms + 1000 * next(doing.steps)
            return None
        except StopIteration as over:
            doing.description = str(over.value)
        except (PochadeError, KafkaException, ProcessLookupError) as error:  # what it wanted to meet has died meanwhile
            log.warning("fault %d", doing.fault.number, exc_info=True)
            doing.description = f"{NOT_DONE}: {error}"
        doing.ended_ms = now_ms
        fault = doing.fault
        return f"fault {fault.number}: {fault.kind}{' ' if fault.target else ''}{fault.target}: {doing.description}"

    @property
    def are_over(self) -> bool:
        """Whether all have come and gone."""
        return not self._waiting and all(doing.ended_ms is not None for doing in self.begun)

    def last_ms(self, start_ms: float, due: Sequence[Due]) -> float:
        """Return when the last fault was over and the last request published, whichever came later (epoch ms)."""
        ends = [doing.ended_ms for doing in self.begun if doing.ended_ms is not None]
        return max(*ends, start_ms + max((each.offset_ms for each in due), default=0.0), start_ms)

    def close(self) -> None:
        """Undo what is under way, as far as it undoes itself."""
        for doing in self.begun:
            if doing.ended_ms is None:
                doing.steps.close()
