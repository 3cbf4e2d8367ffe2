"""The card of what was learned: from what, how good on held-out prompts, and what it is not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.learning.learning import Asked, Learned
from agents.profiling.generation.quality import name_of
from planner.catalog.guarantees import OVERALL, Guarantee

TITLES = {"discriminator": "Discriminator", "classifier": "Classifier"}


def card(
    asked: Asked, learned: Learned, guarantees: Sequence[Guarantee], provenance: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the text of README.md, in Markdown. `notes`: what is wrong with times of the catalog."""
    noted = ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join([*_lines(asked, learned, provenance), *noted, *_promised(guarantees)]) + "\n"


def _promised(guarantees: Sequence[Guarantee]) -> Iterator[str]:
    """What requests may ask for with `quality_at_least`, over prompts of any hardness."""
    yield ""
    yield "| images | at most below standard | kept | from confidence | judged |"
    yield "|---|---|---|---|---|"
    for each in guarantees:
        whose = f"of {each.level}, kept by {each.discriminator}" if each.discriminator else f"all of {each.level}"
        rows = [row for row in each.rows if row.band == OVERALL]
        for row in rows:
            yield f"| {whose} | {row.bound:.3f} | {row.kept_share:.2f} | {row.threshold:.2f} | {row.n} |"
        if not rows:
            yield f"| {whose} | nothing: {each.n} images show no threshold | | | {each.n} |"
    yield ""
    yield "Each row holds with 95 % confidence for prompts drawn as the held-out ones were. A request asks for an image"
    yield "of a row with `quality_at_least`: .9 for at most .1 below standard."


def _lines(asked: Asked, learned: Learned, provenance: Mapping[str, Any]) -> Iterator[str]:
    held_out = len(learned.wanted.asked.prompts)
    pair = learned.pair
    yield f"# Judges of {asked.catalog.name}"
    yield ""
    yield f"Made by `{provenance['command']}` on {provenance['created'][:10]}."
    yield f"Judged by {name_of(asked.scorer)}: an image is at standard if its score is at least {learned.standard:.4g}."
    count = len(asked.prompts.prompts)
    yield f"{count} prompts, of which {held_out} were held out for these figures. Seed {asked.seed}."
    yield ""
    yield "| level | held-out images at standard |"
    yield "|---|---|"
    for name, share in learned.right.items():
        low, high = learned.interval(name)
        yield f"| {name} | {share:.3f} [{low:.3f}, {high:.3f}] |"
    yield ""
    for kind, worth in learned.worth.items():
        what = getattr(asked.fitting, kind)
        yield f"**{TITLES[kind]}** (`{what}`), between {pair.light} and {pair.heavy}: {worth.in_words()}."
        yield ""
    yield "Recovery is the part of an oracle's gain over random escalation, over all shares of escalated images, with"
    yield "its 95 % interval over the choice of prompts. 0 is a judge that draws; 1 one that knows both images."
    yield ""
    yield "What these figures do not say: how the judges do on prompts of another kind than these, after a change of a"
    yield "level's model, steps or size, or by another scorer. Learn again then."
