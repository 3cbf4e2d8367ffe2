"""The signals by which a process of ours is asked to end."""

import signal


def ending() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, SIGINT and, unless it is ignored as under nohup, SIGHUP of a terminal that closes."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT, *(() if is_ignored else (signal.SIGHUP,)))
