"""*Audit and chaos*: the last results, and operators' actions."""

import json
import pathlib
from typing import Any, Final

from agents.console.screens.context import Context
from schemas.messages import OperatorAction

CHAOS: Final = pathlib.Path("chaos") / "report.json"  # under HOME, where `pochade chaos` writes it
MAX_REPORT: Final = 4 * 2**20  # bytes
ACTIONS: Final = 60


def values(context: Context, home: pathlib.Path) -> dict[str, Any]:
    """Return what the template shows."""
    return {
        "audit": audit_report(context.view.last_action("audit")), "chaos": chaos_report(home),
        "actions": context.view.actions()[:ACTIONS],
    }  # fmt: skip


def audit_report(action: OperatorAction | None) -> dict[str, Any] | None:
    """Return an audit's figures; None without one."""
    if action is None:
        return None
    detail = json.loads(action.detail)
    return {"action": action, "found": flat(detail.get("found") or {}), "is_whole": detail.get("is_whole")}


def chaos_report(home: pathlib.Path) -> dict[str, Any] | None:
    """Return the figures of this machine's last chaos run, and their time; None without one."""
    path = home / CHAOS
    try:
        if path.stat().st_size > MAX_REPORT:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        at_ms = round(1000 * path.stat().st_mtime)
    except (OSError, ValueError):
        return None
    return {"at_ms": at_ms, "found": flat(found)} if isinstance(found, dict) else None


def flat(found: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return the numbers and short texts of nested JSON, by their path; lists by their length."""
    rows: list[tuple[str, str]] = []
    for name, value in found.items():
        path = f"{before}{name}".replace("_", " ").replace("painted", "generated")  # JSON keeps its keys
        if isinstance(value, dict):
            rows += flat(value, f"{path} · ")
        elif isinstance(value, list):
            rows.append((path, f"{len(value)} listed" if value else "none"))
        elif value is not None:
            rows.append((path, f"{value:.4g}" if isinstance(value, float) else str(value)))
    return rows
