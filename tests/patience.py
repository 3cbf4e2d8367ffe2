"""How long a test waits for what must happen, and a clock for what must not be waited for."""

PATIENCE_S = 90  # how fast it is on a busy machine is not what these tests ask


class Clock:
    """A clock that goes when the test says so."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
