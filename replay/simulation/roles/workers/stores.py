"""The object store, which may be away, and how long roles wait for it."""

from replay.simulation.event_queue import EventQueue


class ObjectStore:
    """The simulated object store, up at the beginning. A try takes no time, whether it fails or not."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self.is_there, self._changed_ms, self._down_ms = True, 0.0, 0.0
        self._was_away = False
        self._waits, self._waited_ms = 0, 0.0
        self.on_blank = 0  # jobs that went without their drafts

    def change(self, is_up: bool) -> None:
        """Let the store go away or come back; callers that wait find out at their next try."""
        now_ms = self._events.now_ms
        if not self.is_there:
            self._down_ms += now_ms - self._changed_ms
        self.is_there, self._changed_ms = is_up, now_ms
        self._was_away |= not is_up

    def waited(self, ms: float, *, is_first: bool) -> None:
        """Count a wait between two tries. `is_first`: the store was just found to be away."""
        self._waits += is_first
        self._waited_ms += ms

    def as_table(self, ended_ms: float) -> dict[str, float]:
        """Return the counts of a run; {} if the store was never away."""
        if not self._was_away:
            return {}
        away_ms = 0.0 if self.is_there else max(0.0, ended_ms - self._changed_ms)
        return {
            "object_down_s": round((self._down_ms + away_ms) / 1000, 3),
            "waits": self._waits,
            "waited_s": round(self._waited_ms / 1000, 3),
            "hung": 0,  # as live, a watchdog ends no worker that waits for a store
            "on_blank": self.on_blank,
        }
