"""The shipped variants: which folder, how many steps, how much guidance."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path("infra/models")  # relative to the repository's root


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a variant is sampled; chosen by measuring, see infra/models/measured.json."""

    steps: int
    guidance: float  # 1.0 is without guidance: half the work of every step


VARIANTS: Final[dict[str, Setting]] = {
    "light": Setting(steps=1, guidance=1.0),
    "heavy": Setting(steps=8, guidance=2.0),
}
