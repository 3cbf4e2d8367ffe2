"""Records what a command changes on the topic `actions`, where the console lists what operators did."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from streams.commands import opening

if TYPE_CHECKING:  # the clients take half a second to load, which --help need not wait for
    from schemas.messages import OperatorAction
    from streams.kafka.producers.writing import RecordProducer
    from streams.settings import Settings

BY: Final = "command line"  # in the place of an API key's id
ACK_S: Final = 5.0


@dataclass
class Note:
    """The outcome of a change in a sentence, set by its command; "" while it has not ended."""

    outcome: str = ""


@contextlib.contextmanager
def recorded(settings: "Settings", action: str, subject: str, detail: Mapping[str, Any]) -> Iterator[Note]:
    """Write that a change begins, and how it ended; a failure is an end, too.

    Best effort, other than the console's: a deployment of an older release has no such topic, or its operator no right
    to write there, and a change must still be possible. A warning says that the record is missing.
    """
    from schemas.errors import PochadeError
    from schemas.ids import new_request_id
    from schemas.messages import OperatorAction
    from schemas.topics import ACTIONS
    from streams.clock import now_ms
    from streams.security.process_user import process_user

    begun = OperatorAction(
        action_id=new_request_id(), by=BY, name=process_user(), action=action, subject=subject, at_ms=now_ms(),
        detail=json.dumps(dict(detail)),
    )  # fmt: skip
    note = Note()
    with opening.producer(settings) as producer:
        try:
            _prepare(settings, producer)
            _write(producer, begun)
        except PochadeError as error:
            click.echo(f"warning: {action} may leave no record on the topic {ACTIONS}: {error}", err=True)
            yield note
            return
        try:
            yield note
        except PochadeError as error:
            note.outcome = f"failed: {error}"
            raise
        finally:
            if note.outcome:  # else it was interrupted
                with contextlib.suppress(PochadeError):  # that it began is there
                    _write(producer, replace(begun, at_ms=now_ms(), outcome=note.outcome))


def _prepare(settings: "Settings", producer: "RecordProducer") -> None:
    """Announce the schema of actions. Raises PochadeError where their topic is missing: a write would wait for it."""
    from schemas.errors import PochadeError
    from schemas.messages import OperatorAction
    from schemas.topics import ACTIONS
    from streams.codec.schema_topic import announce
    from streams.kafka.clients import topic_name
    from streams.kafka.topics import own_topics

    if topic_name(settings, ACTIONS) not in own_topics(settings):
        raise PochadeError("it does not exist; `pochade topics create` makes it")
    announce(settings, producer, (OperatorAction,))


def _write(producer: "RecordProducer", action: "OperatorAction") -> None:
    from streams.control.actions import action_record
    from streams.kafka.producers.writing import send_all

    send_all(producer, [action_record(action, "operator")], ACK_S)
