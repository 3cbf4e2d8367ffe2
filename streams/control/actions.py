"""Records of the topic `actions`: what operators change, from the console and from the command line."""

from schemas.messages import OperatorAction
from schemas.record import Outgoing
from schemas.topics import ACTIONS
from streams.codec.avro import encode
from streams.codec.headers import stamp


def action_record(action: OperatorAction, source: str) -> Outgoing:
    """Return the record of an action. `source`: what writes it, as headers name it."""
    headers = stamp(
        {}, kind="OperatorAction", source=source, subject=action.action_id, time_ms=action.at_ms,
        facts={"action": action.action, "by": action.by},
    )  # fmt: skip
    return Outgoing(topic=ACTIONS, key=action.action_id.encode(), value=encode(action), headers=headers)
