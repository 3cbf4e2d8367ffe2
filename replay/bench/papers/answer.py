"""The answer to a question: a verdict in a line, and tables.

What was run, and what differs from the paper and why, stands in the template of the question's name.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

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

    def as_values(self) -> dict[str, Any]:
        """Return the answer as values for JSON; of experiments the outcomes, not how they are run."""
        return {
            "name": self.name,
            "title": self.title,
            "verdict": self.verdict,
            "tables": [asdict(table) for table in self.tables],
            "numbers": dict(self.numbers),
            "facts": dict(self.facts),
            "outcomes": [_values_of(outcome) for outcome in self.outcomes],
        }


def _values_of(outcome: Outcome) -> dict[str, Any]:
    return {
        "experiment": outcome.experiment.name,
        "about": outcome.experiment.about,
        "verdict": outcome.verdict,
        "results": [result._asdict() for result in outcome.results],
        "tried": [
            {
                "cause": each.suspect.cause,
                "switch": each.suspect.switch,
                "verdict": each.verdict,
                "results": [result._asdict() for result in each.results],
            }
            for each in outcome.tried
        ],
    }
