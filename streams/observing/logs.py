"""Log lines for people (text) or machines (JSON), with the record being served, and no prompt in clear.

Source of the fields: Kubernetes' collectors and Loki want one JSON object a line with a time and a level.
"""

import json
import logging
import os
import sys
from collections.abc import Collection
from typing import Any

from schemas.errors import InvalidRecord, InvalidRequest
from streams.clock import utc
from streams.observing.log_context import context
from streams.settings import Logs
from streams.visible import visible, visible_lines

OWN_HANDLERS = {"TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
NOISY = ("faust", "mode", "aiokafka", "httpx", "boto3", "botocore", "urllib3", "s3transfer")  # WARNING at least
INSISTENT, REPEAT_S = (
    "aiokafka",
    1.0,
)  # without a broker it logs 100 lines a second (measured); each again after so long
CITING = (InvalidRecord, InvalidRequest)  # their messages show what was sent
WITHHELD = "(the message cites what was sent, which is on the dlq; logs.prompts=clear shows it here)"

_shows_prompts = False


def set_up(settings: Logs, roles: Collection[str]) -> None:
    """Log to standard error as the settings say; called once, before anything is logged."""
    global _shows_prompts
    _shows_prompts = settings.prompts == "clear"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(sorted(roles)) if settings.format == "json" else TextFormatter())
    handler.addFilter(Sparse())
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name, value in OWN_HANDLERS.items():  # these libraries would write between our lines, when they are loaded
        os.environ.setdefault(name, value)
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


class Sparse(logging.Filter):
    """Lets each line of an insistent library through as often as it is worth reading."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s: dict[tuple[str, int], float] = {}  # where in its code -> when

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written; what other loggers say always is."""
        if record.name.split(".")[0] != INSISTENT:
            return True
        where = record.pathname, record.lineno
        if record.created - self._said_s.get(where, -REPEAT_S) < REPEAT_S:
            return False
        self._said_s[where] = record.created
        return True


class LastError(logging.Handler):
    """Keeps the last error that libraries logged: they report an error that they wait out nowhere else."""

    def __init__(self, *loggers: str) -> None:
        super().__init__(logging.ERROR)
        self._said = ""
        for name in loggers:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message, in one line."""
        self._said = " ".join(record.getMessage().split())[:300]

    def suffix(self) -> str:
        """Return the text to append to a message about waiting; "" while no error was logged."""
        return f"; last error: {self._said}" if self._said else ""


class TextFormatter(logging.Formatter):
    """Formats a message as one line: time, level, logger, message, [context]; a traceback follows below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return utc(record.created * 1000, "milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the base class names it
        record.message = visible_lines(_withheld(record.message, *_errors_of(record)))
        fields = " ".join(f"{name}={visible(str(value))}" for name, value in context().items())
        return super().formatMessage(record) + (f" [{fields}]" if fields else "")

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return visible_lines(_withheld(super().formatException(ei), ei[1]))


class JsonFormatter(logging.Formatter):
    """Formats a message as one line with one JSON object; a traceback is the field `exception`."""

    def __init__(self, roles: Collection[str]) -> None:
        super().__init__()
        self._roles = list(roles)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": utc(record.created * 1000, "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _withheld(record.getMessage(), *_errors_of(record)),
            "roles": self._roles,
            **context(),
        }
        if record.exc_info and record.exc_info[1]:
            line["exception"] = _withheld(self.formatException(record.exc_info), record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def _errors_of(record: logging.LogRecord) -> list[BaseException]:
    """The errors that a message may quote: its arguments, and the one being handled."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    handled = [record.exc_info[1]] if record.exc_info and record.exc_info[1] else []
    return [argument for argument in arguments if isinstance(argument, BaseException)] + handled


def _withheld(text: str, *errors: BaseException | None) -> str:
    """The text without the messages of errors that cite what was sent, all their causes included.

    An error may be its own cause: pymilvus raises such.
    """
    if _shows_prompts:
        return text
    waiting, seen = list(errors), set[int]()
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, CITING) and str(error):
            text = text.replace(str(error), WITHHELD)
        waiting += [error.__cause__, error.__context__]
    return text
