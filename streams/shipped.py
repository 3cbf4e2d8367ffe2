"""Where what ships with the product lies: catalogs, models, profiles."""

import importlib.resources
import pathlib
from typing import Final

INFRA: Final = pathlib.Path(str(importlib.resources.files("infra")))
MODELS: Final = INFRA / "models"
