"""The pool of prompts that coverage is tested on: what `agents/lab/evaluation/statistics/coverage.py` wrote."""

from pathlib import Path
from typing import Final

POOL: Final = Path(__file__).with_name("pool.npz")
