"""A topic table whose days are shorter: retention, segments and the ledger's window scaled together, in one process.

Called before anything else of the project is loaded: what follows from an hour follows from a shorter one.
"""

import importlib
import importlib.util
import pathlib
import sys

HOUR = "HOUR_MS = 60 * 60 * 1000\n"
HOUR_MS = 3_600_000


def hasten(by: float) -> None:
    """Let the hour of `schemas/topics.py` pass `by` times as fast."""
    assert not [name for name in sys.modules if name.startswith(("streams", "agents"))], "too late"
    spec = importlib.util.find_spec("schemas.topics")
    assert spec is not None
    assert spec.origin is not None
    source = pathlib.Path(spec.origin).read_text()
    assert HOUR in source, "the table's times no longer follow from HOUR_MS"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(source.replace(HOUR, f"HOUR_MS = {round(HOUR_MS / by)}\n"), spec.origin, "exec"), module.__dict__)
    importlib.import_module("schemas").topics = module  # type: ignore[attr-defined]
