"""The questions by name, in the order of the page."""

from collections.abc import Callable, Mapping, Sequence

from replay.bench.papers import argus, diffserve, hadis, joint, mlora, octoai
from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking
from schemas.errors import Unknown

QUESTIONS: Mapping[str, Callable[[Asking], Answer]] = {
    module.__name__.rpartition(".")[2]: module.ask for module in (joint, diffserve, hadis, argus, octoai, mlora)
}


def ask(names: Sequence[str], asking: Asking) -> list[Answer]:
    """The answers, in the page's order; all questions where none is named. Raises Unknown."""
    for name in names:
        if name not in QUESTIONS:
            raise Unknown("question", name, QUESTIONS)
    return [question(asking) for name, question in QUESTIONS.items() if name in names or not names]
