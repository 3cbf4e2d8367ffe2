"""Which settings are secrets, told by their names; what is shown in place of one."""

import re

SECRET = re.compile(r"password|passphrase|secret|key|token|jaas", re.IGNORECASE)
HIDDEN = "(hidden)"


def is_secret(name: str) -> bool:
    """Whether the name of a setting or of a property tells a secret."""
    return bool(SECRET.search(name.removeprefix("kafka.properties.")))


def quoted(value: object, name: str = "") -> str:
    """A value that somebody typed, for an error: hidden if its setting's name, or the text itself, tells a secret."""
    text = repr(value)
    return HIDDEN if is_secret(name) or SECRET.search(text) else f"{text:.200}"
