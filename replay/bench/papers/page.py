"""The answers as one page: replay/RESULTS.md."""

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from replay.bench.papers.answer import Answer
from replay.bench.papers.experiments.every import EVERY
from replay.bench.papers.experiments.experiment import experiments_table


def render(answers: Sequence[Answer], made: Mapping[str, Any]) -> str:
    """Markdown. `made`: date, machine, command, traces, minutes, cpu_minutes, runs, cores, versions."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("replay.bench.papers", "."),
        autoescape=False,  # Markdown, of our own words and numbers
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"row": row, "joined": lambda text: " ".join(text.split())}
    return environment.get_template("results.md.jinja").render(
        answers=answers,
        made=made,
        experiments=experiments_table(EVERY, [outcome for answer in answers for outcome in answer.outcomes]),
    )


def row(cells: Sequence[str]) -> str:
    """A line of a table; what would end a cell is escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
