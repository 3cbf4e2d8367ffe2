"""The engines that catalogs name: those that generate (`agents/engines`), those that judge images (`agents/judges`).

A variant names one of the former, as does the setting `worker.engine`; a discriminator names one of the latter.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.catalog.judges import LEARNED, PRETRAINED, PROFILE, Judge
from planner.catalog.validate import require
from schemas.errors import Unknown
from schemas.extensions import Table

CHAOS: Final = "chaos"  # breaks by prompts that ask for it: a worker's setting in tests, and in no catalog
ENGINES: Final = Table[Callable[..., Any]](
    "engine",
    "pochade.engines",
    {
        "diffusers": "agents.engines.diffusers_engine:load",
        "openai": "agents.engines.openai:load",
        "profile": "agents.engines.profile:load",
        CHAOS: "agents.engines.chaos:load",
    },
)
JUDGES: Final = Table[Callable[..., Any]](
    "engine of judges",
    "pochade.judges",
    {
        LEARNED: "agents.judges.learned:load",
        "clip-score": "agents.judges.clip_score:load",
        "reward": "agents.judges.reward:load",
        "classifier": "agents.judges.classifier:load",
        "http": "agents.judges.http:load",
        PROFILE: "agents.judges:of_no_image",
    },
)
OPTIONS: Final[Mapping[str, Mapping[str, bool]]] = {  # engine -> option -> whether it must be given
    LEARNED: {}, PROFILE: {}, "clip-score": {}, "reward": {"kind": True, "tokenizer": False},
    "classifier": {"label": True}, "http": {"url": True, "timeout_s": False},
}  # fmt: skip
REWARDS: Final = ("pickscore", "imagereward")


def check_judge(judge: Judge) -> None:
    """Raise Unknown or InvalidCatalog for an engine that there is not, and for what it cannot do.

    Engines of installed packages check their options themselves.
    """
    JUDGES.check(judge.engine)
    where, known = f"judge {judge.name!r}:", OPTIONS.get(judge.engine)
    has_folder = bool(judge.folder) or judge.engine != LEARNED
    require(has_folder, f"{where} folder", judge.folder, "named", "give a folder")
    has_model = bool(judge.model) or judge.engine not in PRETRAINED
    require(has_model, f"{where} model", judge.model, "named", "give a folder or hub id")
    if judge.floor is not None:
        least, draws = judge.floor.least, judge.engine == PROFILE
        require(-1 <= least <= 1 and not draws, f"{where} floor", judge.floor, "a cosine, of images", "correct it")
    own = judge.calibration is None or judge.engine not in (LEARNED, PROFILE)
    require(own, f"{where} calibration", judge.calibration, f"left out for {judge.engine}", "its folder has its own")
    if known is None:
        return
    for name in judge.options:
        if name not in known:
            raise Unknown(f"option of {where} engine {judge.engine}", name, known)
    for name, is_needed in known.items():
        given = not is_needed or judge.options.get(name, "") != ""
        require(given, f"{where} options.{name}", judge.options.get(name), "given", f"add {name} to options")
    if judge.engine == "reward" and judge.options["kind"] not in REWARDS:
        raise Unknown(f"options.kind of {where}", str(judge.options["kind"]), REWARDS)
    if judge.engine == "http":
        url, limit_s = str(judge.options["url"]), judge.options.get("timeout_s", 1)
        named = url.startswith(("http://", "https://"))
        require(named, f"{where} options.url", url, "http://... or https://...", "correct it")
        timed = isinstance(limit_s, int | float) and 0 < limit_s < 1e6
        require(timed, f"{where} options.timeout_s", limit_s, "seconds > 0", "correct it")


def clip_of_floor(judge: Judge) -> Judge | None:
    """Return the judge of a judge's floor; None where it has none."""
    if judge.floor is None:
        return None
    return Judge(name=f"{judge.name}, floor", engine="clip-score", model=judge.floor.model, device=judge.device)
