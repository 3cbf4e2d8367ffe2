"""Where tests find what lies outside their own folder: they say it by name, so that a test may move."""

import pathlib
from typing import Final

ROOT: Final = pathlib.Path(__file__).resolve().parents[1]
CATALOGS: Final = ROOT / "infra" / "catalogs"
MODELS: Final = ROOT / "infra" / "models"
SHARED: Final = ROOT.parent / "shared"  # documents and data beside the checkout, which may be absent
PUBLISHED: Final = SHARED / "data" / "profiles"
