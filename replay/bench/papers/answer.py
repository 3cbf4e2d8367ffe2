"""What a question is answered with: a verdict in a line, and tables.

What was run, and what differs from the paper and why, stands in the template of the question's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.bench.papers.answers import Table
from replay.bench.papers.experiments.experiment import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question."""

    name: str
    title: str
    verdict: str
    tables: tuple[Table, ...]
    numbers: Mapping[str, float | bool | None]  # that the verdict rests on
    facts: Mapping[str, str] = field(
        default_factory=dict
    )  # of the setup and of the tables, that the page's prose states
    outcomes: tuple[Outcome, ...] = ()  # of the paper's experiments
