"""Catalogs of models, and their profiles.

A catalog is one TOML file, shipped under `infra/catalogs` or the user's own. `pochade profile` writes its profile as
two files.
"""

import pathlib
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from planner.catalog.engines import ENGINES
from planner.catalog.model import Catalog
from schemas.errors import PochadeError, Unknown
from streams.parsing import catalog as catalog_text
from streams.parsing import guarantees as guarantees_text
from streams.settings import Settings
from streams.shipped import INFRA, MODELS, is_missing

if TYPE_CHECKING:  # profiles are read where plans are made; what serves does without them, and without numpy
    import numpy as np

    from planner.catalog.profile import Profile
    from planner.catalog.prompt_table import PromptTable


def load(name: str) -> Catalog:
    """Load a shipped catalog by name, or a user's file.

    Every catalog that a process plans or serves with is read here.

    Raises:
        Unknown, PochadeError: no such catalog or file, or what is wrong in it.
    """
    catalog = catalog_text.parse(text_of(name), pathlib.Path(name).stem)
    file = _profile_file(name)
    if file.is_file():
        catalog = replace(catalog, guarantees=guarantees_text.parse(_text(file), str(file)))
    return catalog


def check_engine(engine: str) -> None:
    """Raise Unknown for a setting `worker.engine` that names no engine; "" leaves it to the catalog."""
    if engine:
        ENGINES.check(engine)


def check_names(settings: Settings) -> list[PochadeError]:
    """Return the errors of the catalog and of the names of engine, policy and variant."""
    from planner.policies import DEFAULT, POLICIES

    wrong: list[PochadeError] = []

    def check_catalog() -> None:
        catalog = measured(settings.catalog)
        if settings.worker.variant:
            catalog.level(settings.worker.variant)

    def check_policy() -> None:
        POLICIES.check(settings.planner.policy or DEFAULT)

    for check in (check_catalog, lambda: check_engine(settings.worker.engine), check_policy):
        try:
            check()
        except PochadeError as error:
            wrong.append(error)
    return wrong


def measured(name: str) -> Catalog:
    """The catalog of `load` with what its profile knows by hardness band and class, where it has one.

    Planner and simulator use it.

    Raises as `load` does, for a profile that is none, and for a compiled variant that no profile has as such.
    """
    from planner.catalog.evidence.joining import check_compiled, with_profile

    catalog, found = load(name), find_profile(name)
    if found:
        return with_profile(catalog, found.profile(), found.prompts())
    check_compiled(catalog, None)
    return catalog


def recorded_prompts(name: str) -> "PromptTable":
    """Return every level's outcome on each prompt of the catalog's profile. Raises PochadeError without a profile."""
    found = find_profile(name)
    prompts = found.prompts() if found else None
    if prompts is None:
        raise PochadeError(f"catalog {name!r} has no recorded prompts (NAME-quality.npz): leave --recorded out")
    return prompts


def file_of(name: str) -> pathlib.Path:
    """The file of a shipped catalog (a name), or the user's. Raises Unknown for a name that none ships by."""
    if "/" in name or name.endswith(".toml"):
        return pathlib.Path(name)
    shipped = {path.stem: path for path in (INFRA / "catalogs").glob("*.toml")}
    if name not in shipped:
        raise Unknown("catalog", name, shipped)
    return shipped[name]


def text_of(name: str) -> str:
    """The TOML text of a shipped catalog (a name) or of a file of the user's. Raises Unknown, PochadeError."""
    file = file_of(name)
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PochadeError(f"catalog file {name} cannot be read: {error}; correct the setting `catalog`") from None


def missing_models(catalog: Catalog, engine: str) -> list[str]:
    """Model folders that are named and not there, each as `variant light: models/light`; hub ids are not looked up.

    `engine` is `worker.engine`: the one that replaces the catalog's, or "".
    """
    variants = [v for v in catalog.served.values() if (engine or v.engine) == "diffusers"]
    wanted = [(f"variant {v.name}", v.model) for v in variants]
    wanted += [(each.id, each.source) for v in variants for each in v.components]
    judges = catalog.discriminators.values()
    wanted += [(f"floor of discriminator {d.name}", d.floor.model) for d in judges if d.floor is not None]
    wanted += [(f"discriminator {d.name}", d.folder or d.model) for d in judges if d.folder or d.model]
    return [f"{who}: {folder}" for who, folder in wanted if is_missing(folder)]


def without_profile(catalog: Catalog) -> str:
    """Return what to install for the profile of a catalog of the tiny models; "" where it is installed, or another."""
    if MODELS.exists() or not missing_models(catalog, ""):
        return ""
    return f"the profile of catalog {catalog.name!r}, by which quality depends on prompts: pip install pochade-tiny"


class ProfileFiles(NamedTuple):
    """The contents of a profile's two files."""

    file: str  # of the text, for messages
    text: str  # NAME.json
    arrays: "dict[str, np.ndarray]"  # NAME-quality.npz; {}: there is none

    def profile(self) -> "Profile":
        """Parse the measurements. Raises Unknown or InvalidCatalog for a text that is no profile."""
        from streams.parsing import profile as profile_text

        return profile_text.parse(self.text, self.file)

    def prompts(self) -> "PromptTable | None":
        """Parse every level's outcome on each prompt; None without that file. Raises InvalidCatalog."""
        from planner.catalog.prompt_table import prompt_table

        return prompt_table(self.arrays, self.file) if self.arrays else None


def find_profile(name: str) -> ProfileFiles | None:
    """The profile of a shipped catalog (a name), or NAME.json beside the user's NAME.toml; None where there is none.

    Raises Unknown for a name that none ships by, PochadeError for files that cannot be read.
    """
    file = _profile_file(name)
    return read_profile(file) if file.is_file() else None


def _profile_file(name: str) -> pathlib.Path:
    catalog = file_of(name)
    folder = INFRA / "profiles" if catalog.parent == INFRA / "catalogs" else catalog.parent
    return folder / f"{catalog.stem}.json"


def _text(file: pathlib.Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PochadeError(f"profile {file} cannot be read: {error}; measure again with `pochade profile`") from None


def read_profile(file: pathlib.Path) -> ProfileFiles:
    """Read NAME.json and the file beside it. Raises PochadeError for files that cannot be read."""
    try:
        return ProfileFiles(str(file), file.read_text(), _quality_of(file.with_name(f"{file.stem}-quality.npz")))
    except (OSError, UnicodeDecodeError, ValueError, zipfile.BadZipFile) as error:
        raise PochadeError(f"profile {file} cannot be read: {error}; measure again with `pochade profile`") from None


def _quality_of(file: pathlib.Path) -> "dict[str, np.ndarray]":
    if not file.is_file():
        return {}
    import numpy as np

    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)
