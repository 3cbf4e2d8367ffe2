"""The origin of each setting: a flag, the environment, the TOML file or its default; secrets are never shown."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from streams.security.secrets import HIDDEN, is_secret
from streams.settings import PREFIX, Settings, config_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One setting with its value and where the value comes from."""

    name: str  # kafka.prefix, kafka.properties.security.protocol
    value: Any  # HIDDEN for a secret
    origin: str  # flag | environment | toml | default
    where: str  # the variable's or the file's name, else ""


def origins(settings: Settings, flags: Mapping[str, Any]) -> list[Origin]:
    """Return every setting with its origin, in the order of declaration."""
    file = config_file()
    sources = (
        ("flag", set(_names(flags))),
        ("environment", set(_names(EnvSettingsSource(Settings)()))),
        ("toml", set(_names(TomlConfigSettingsSource(Settings, file)()))),
    )
    found = []
    for name, value in _leaves(settings.model_dump(mode="json")):
        keys = {name, *(name[: at.start()] for at in re.finditer(r"\.", name))}  # a flag may state a whole table
        origin = next((origin for origin, names in sources if keys & names), "default")
        where = {"environment": PREFIX + name.upper().replace(".", "__"), "toml": str(file)}.get(origin, "")
        found.append(Origin(name=name, value=shown(name, value), origin=origin, where=where))
    return found


def shown(name: str, value: Any) -> Any:
    """Return the value, or HIDDEN if the last part of the name says that it is a secret; an empty value is shown."""
    return HIDDEN if is_secret(name) and value not in ("", None, {}) else value


def hidden(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings as they may be shown: a nested mapping with each secret replaced by HIDDEN."""
    return {
        name: hidden(value, f"{prefix}{name}.") if isinstance(value, dict) else shown(prefix + name, value)
        for name, value in tree.items()
    }


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _names(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield prefix + name
