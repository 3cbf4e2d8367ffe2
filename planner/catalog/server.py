"""A server with OpenAI's images endpoints, by which a variant generates; `agents/engines/openai.py` asks it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from planner.catalog.validate import require
from schemas.errors import Unknown

# What a server may take beside prompt and size -> its name for it.
_DIFFUSION: Final = {
    "seed": "seed", "steps": "num_inference_steps", "guidance": "guidance_scale", "negative_prompt": "negative_prompt",
}  # fmt: skip
DIALECTS: Final[Mapping[str, Mapping[str, str]]] = {  # "nvext.seed": `seed` of the table `nvext`
    "openai": {}, "vllm-omni": _DIFFUSION, "sglang": _DIFFUSION,
    "dynamo": {name: f"nvext.{theirs}" for name, theirs in _DIFFUSION.items()},
}  # fmt: skip
SIZE: Final = ("width", "height")
SENT: Final = ("prompt", "model", "n", "size", "stream")  # not in `body`: the engine states them, or cannot read it


@dataclass(frozen=True)
class Server:
    """Where a server is, what it takes, and how much may be asked of it at once. Refuses impossible values."""

    url: str  # as OpenAI's clients have it: http or https, mostly with /v1 at the end
    model: str = ""  # its id there; "": the server has one
    dialect: str = "openai"  # of DIALECTS
    key_file: str = ""  # at each worker: its one line is the key; "": the server asks for none
    in_flight: int = 8  # most requests at once; `pochade profile` says how many suffice
    timeout_s: float = 120.0  # for an image, where its request's deadline does not leave less
    fields: dict[str, str] = field(default_factory=dict)  # option -> its name there, before the dialect's; "": none
    body: dict[str, Any] = field(default_factory=dict)  # is sent with every request, as it stands

    def __post_init__(self) -> None:
        where = urlsplit(self.url)
        is_url = where.scheme in ("http", "https") and bool(where.hostname) and not (where.query or where.fragment)
        require(is_url, "server.url", where.hostname, "http://HOST or https://HOST", "correct it")
        require("@" not in where.netloc, "server.url", where.hostname, "without a user", "name a key_file")
        if self.dialect not in DIALECTS:
            raise Unknown("dialect", self.dialect, DIALECTS)
        require(1 <= self.in_flight <= 256, "server.in_flight", self.in_flight, "from 1 to 256", "correct it")
        require(0 < self.timeout_s < 1e6, "server.timeout_s", self.timeout_s, "seconds > 0", "correct it")
        for name in self.fields:
            if name not in _DIFFUSION:
                raise Unknown("name of server.fields", name, _DIFFUSION)
        for name in (*SENT, *self.names.values()):
            require(name not in self.body, "server.body", name, "without what the engine sends", "remove it")

    @property
    def names(self) -> dict[str, str]:
        """Option -> its name at the server, of those that it takes."""
        return {name: theirs for name, theirs in {**DIALECTS[self.dialect], **self.fields}.items() if theirs}

    def check(self, where: str, honours: Sequence[str], components: Sequence[str]) -> None:
        """Raise InvalidCatalog for what a variant offers and its server has no field for."""
        for option in honours:
            limit = f"of those that its server takes: {', '.join((*SIZE, *self.names))}"
            taken = option in SIZE or option in self.names
            require(taken, f"{where} honours", option, limit, "remove it, or name its field in server.fields")
        require(not components, f"{where} components", tuple(components), "none with a server", "remove them")
