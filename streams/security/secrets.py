"""Secrets among the settings: recognised by their names, hidden where settings are shown, and read from files.

A setting may name a file, `file:/run/secrets/password`, as Kubernetes and systemd hand them out. The file is read each
time a client is made, so that a rotated secret needs a role's restart and no other setting.
"""

import pathlib
import re
from collections.abc import Mapping

from schemas.errors import PochadeError

SCHEME = "file:"
FROM_FILES = frozenset(
    {"sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret"}
)  # librdkafka's properties that may be given so
SECRET = re.compile(r"password|passphrase|secret|key|token|jaas", re.IGNORECASE)
HIDDEN = "(hidden)"


def secret(name: str, value: str) -> str:
    """The value, or the content of the file that it names, without the newline at its end.

    Raises PochadeError: the file cannot be read, or is empty; the message never holds its content.
    """
    if not value.startswith(SCHEME):
        return value
    path = pathlib.Path(value.removeprefix(SCHEME)).expanduser()
    try:
        content = path.read_text().rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise PochadeError(f"{name} names the file {path}, which cannot be read: {why}") from None
    if not content:
        raise PochadeError(f"{name} names the file {path}, which is empty")
    return content


def with_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's properties as it wants them: secrets read from the files that they name.

    Raises PochadeError: as `secret` does.
    """
    return {
        name: secret(f"kafka.properties.{name}", value) if name in FROM_FILES else value
        for name, value in properties.items()
    }


def is_secret(name: str) -> bool:
    """Whether the name of a setting or of a property says that its value is a secret."""
    return bool(SECRET.search(name.removeprefix("kafka.properties.")))


def quoted(value: object, name: str = "") -> str:
    """Quote a typed value for an error; hidden if its setting's name, or the text itself, says that it is a secret."""
    text = repr(value)
    return HIDDEN if is_secret(name) or SECRET.search(text) else f"{text:.200}"
