"""*Dead letters*: records that could not be served, in groups, with what may be redriven."""

from collections import Counter
from typing import Any, Final

from agents.console.screens.context import Context

PAGE: Final = 100


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows."""
    letters = context.view.letters()
    error = context.query.get("error", "")
    groups = Counter((letter.error, letter.role, letter.is_clients) for letter in letters)
    chosen = [letter for letter in letters if not error or letter.error == error]
    return {
        "groups": [(*group, count) for group, count in groups.most_common()], "error": error,
        "letters": chosen[:PAGE], "total": len(chosen), "known": {each.request_id for each in chosen[:PAGE]},
    }  # fmt: skip
