"""Finds the extra of `pochade`, or the distribution, of a missing module, for errors."""

import importlib.util
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from schemas.errors import PochadeError
from streams.shipped import classifier_kind

if TYPE_CHECKING:
    from planner.catalog.model import Catalog
    from streams.settings import Settings

EXTRA_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("accelerate", "diffusers", "huggingface_hub", "peft", "pynvml", "tokenizers", "torch", "transformers"),
        "worker",
    ),
    **dict.fromkeys(("cache_dit", "torchao"), "acceleration"),
    **dict.fromkeys(("timm", "torchvision"), "judges"),
    **dict.fromkeys(("grpc", "pymilvus"), "reuse"),
    **dict.fromkeys(("c2pa", "cryptography"), "receipts"),
    **dict.fromkeys(("boto3", "botocore"), "s3"),
    **dict.fromkeys(("matplotlib", "scipy", "tomlkit"), "reports"),
}
"""Top-level module -> the extra that brings it, as in pyproject.toml."""
OF_CLASSIFIERS: Final = {"family": ("tokenizers",), **dict.fromkeys(("encoder", "bert"), ("torch", "transformers"))}
"""What learned classifiers need, by kind."""
OF_REPORTS: Final = ("matplotlib", "scipy")
"""What a page of a report is drawn with."""
LABORATORY: Final = frozenset({"bench", "chaos", "evaluate", "soak", "train"})
"""The commands of pochade-lab."""


def lacking(*modules: str) -> str | None:
    """Say what to install for modules (ModuleNotFoundError.name); None if one belongs to no extra."""
    tops = [module.partition(".")[0] for module in modules]
    if not set(tops) <= EXTRA_OF.keys():
        return None
    extras = ",".join(sorted({EXTRA_OF[top] for top in tops}))
    return f"{', '.join(tops)} {'is' if len(tops) == 1 else 'are'} not installed: pip install 'pochade[{extras}]'"


def need(*modules: str) -> None:
    """Raise PochadeError, which says what to install, if one of these modules of extras is missing."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise PochadeError(lacking(*missing) or ", ".join(missing))


def check_roles(settings: "Settings", catalog: "Catalog", roles: Iterable[str]) -> None:
    """Raise PochadeError for packages that these roles need of this catalog and these settings, and that are missing.

    So that it is said at once, and not when the first broker was found or the first image is generated.
    """
    of_role = {"worker": _of_engines, "classifier": _of_classifiers, "discriminator": _of_discriminators}
    wanted = [module for role, of in of_role.items() if role in roles for module in of(settings, catalog)]
    if settings.store.url.startswith("s3:"):
        wanted.append("boto3")
    if settings.vectors.url not in ("", "exact") and {"indexer", "worker"} & set(roles):
        wanted.append("pymilvus")
    need(*dict.fromkeys(wanted))


def _of_engines(settings: "Settings", catalog: "Catalog") -> tuple[str, ...]:
    engines = {settings.worker.engine or variant.engine for variant in catalog.served.values()}
    return ("torch", "diffusers", "transformers") if "diffusers" in engines else ()


def _of_classifiers(_settings: "Settings", catalog: "Catalog") -> tuple[str, ...]:
    kinds = {classifier_kind(each.folder) for each in catalog.classifiers.values() if each.engine == "learned"}
    return tuple(module for kind in sorted(kinds) for module in OF_CLASSIFIERS.get(kind, ()))


def _of_discriminators(_settings: "Settings", catalog: "Catalog") -> tuple[str, ...]:
    has_model = any(each.folder or each.model for each in catalog.discriminators.values())
    return ("torch", "transformers") if has_model else ()
