"""The printed output of `pochade simulate`: a row of figures per policy, and a line that says what it planned."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from streams.visible import counted

MAX_PARTS = 10  # tiers or tenants that are printed
COLUMNS = (
    "policy", "requests", "violations", "quality", "heavy", "p50 s", "p99 s", "busy", "plans", "switches", "planning s",
)  # fmt: skip


def figures_table(policies: Mapping[str, Mapping[str, Any]], solver_s: Mapping[str, float]) -> Table:
    """Violations and shares in per cent, latencies in simulated seconds, planning in real ones."""
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for policy, row in policies.items():
        latency = row["latency_s"]
        judged = f"FID {row['fid']:.2f}" if row["fid"] is not None else _format(row["quality"], "{:.4f}")
        table.add_row(
            policy, f"{row['requests']:.0f}", _format(row["violation_rate"], "{:.2%}"), judged,
            _format(row["heavy_share"], "{:.1%}"), _format(latency["p50"], "{:.2f}"), _format(latency["p99"], "{:.2f}"),
            _format(row["utilization"], "{:.0%}"), f"{row['plans']:.0f}", f"{row['switches']:.0f}",
            f"{solver_s[policy]:.1f}",
        )  # fmt: skip
    return table


def did(policy: str, planned: Mapping[str, Any]) -> str:
    """Levels and workers, batches, thresholds and the heavy share that a policy planned, with their ranges."""
    workers = planned.get("workers", {})
    parts = [f"{level} {count['mean']:.3g}{_between(count)}" for level, count in workers.items()]
    phrases = [f"workers {', '.join(parts)}"] if parts else ["no plan"]
    phrases += [
        f"{word} {', '.join(f'{name} {_range(values)}' for name, values in planned[key].items())}"
        for key, word in (("batch", "batch"), ("thresholds", "kept from"))
        if planned.get(key)
    ]
    phrases += [
        f"{word} {_range(planned[key], '{:.0%}')}"
        for key, word in (("heavy_share", "expected heavy"), ("admitted", "admitted"))
        if planned.get(key)
    ]
    return f"{policy}: {'; '.join(phrases)}"


def describe_violations(policy: str, row: Mapping[str, Any]) -> str:
    """Describe why requests were not completed in time, by outcome; "" where all were."""
    names = {"unhonoured": "rejected as no level does what is asked for"}
    counts = [(name, row.get(name)) for name in ("shed", "unhonoured", "late", "expired", "failed", "open")]
    phrases = [f"{f'{count:,.1f}'.removesuffix('.0')} {names.get(name, name)}" for name, count in counts if count]
    return f"{policy}: not in time: {', '.join(phrases)}" if phrases else ""


def describe_parts(policy: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe how each tier's requests ended, or each tenant's: of many, those with the most requests."""
    shown = dict(sorted(parts.items(), key=lambda item: -item[1]["requests"])[:MAX_PARTS])
    phrases = [
        f"{name} {_counted(row['requests'], 'request')}, {_format(row['violation_rate'], '{:.2%}')} violations, "
        f"p95 {_format(row['latency_s']['p95'], '{:.2f} s')}"
        + (f", {row['over_quota']:.0f} over quota" if row.get("over_quota") else "")
        for name, row in (parts if len(parts) <= MAX_PARTS else shown).items()
    ]
    if len(parts) > MAX_PARTS:
        phrases.append(f"{_counted(len(parts) - MAX_PARTS, 'other')}, with fewer requests each")
    return f"{policy}: {'; '.join(phrases)}"


def describe_stores(policy: str, stores: Mapping[str, float]) -> str:
    """Describe how long requests waited for the object store while it was away."""
    phrases = f"{policy}: object store away {stores['object_down_s']:.0f} s, {_counted(stores['waits'], 'wait')} for it"
    phrases += f" of {stores['waited_s'] / max(1, stores['waits']):.1f} s"
    return phrases + (f", {_counted(stores['on_blank'], 'job')} without a draft" if stores["on_blank"] else "")


def describe_scale(policy: str, row: Mapping[str, Any]) -> str:
    """Describe how the fleet grew and shrank, and what it cost."""
    fleet = row["scale"]
    words = f"{policy}: {fleet['workers_mean']:.1f} workers on average, {fleet['workers_most']:.0f} at most"
    words += f"; {_counted(fleet['started'], 'cold start')} of workers, {fleet['drained']:.0f} drained"
    words += f", {_counted(fleet['target_changes'], 'change')} of how many there should be"
    return words + f"; {row['cost_worker_s']:,.0f} worker-seconds"


def describe_components(policy: str, row: Mapping[str, Any]) -> str:
    """Describe where components were found, what was moved and how many workers held a base."""
    found = ", ".join(f"{tier} {share:.1%}" for tier, share in reversed(row["hits_by_tier"].items()))
    moved, held = row["bytes_moved"], row["replicas"]
    words = f"{policy}: components found on {found}; {_counted(row['loads'], 'load')}"
    words += f", {row['load_s']:.0f} s of waiting for them"
    words += f"; {_counted(row['cold_starts'], 'cold start')}; {moved['volume'] / 1e9:.0f} GB over the network"
    words += f" ({moved['ahead'] / 1e9:.0f} ahead in {_counted(row['prefetches'], 'prefetch', 'prefetches')})"
    return words + f"; replicas of a base {held['mean']:.2f}, of the one held most {held['most']:.1f}"


def describe_reuse(policy: str, reuse: Mapping[str, Any]) -> str:
    """Describe how many steps stored latents saved, why others ran in full, and what changing strategy cost.

    "": nothing was looked up.
    """
    if reuse["hit_rate"] is None and not any(reuse["misses"].values()) and not reuse["unanswered"]:
        return ""
    hits, saved = _format(reuse["hit_rate"], "{:.0%}"), _format(reuse["saved_steps_share"], "{:.1%}")
    misses = ", ".join(f"{why} {count:.0f}" for why, count in reuse["misses"].items() if count)
    words = f"{policy}: {hits} hits, {saved} of all steps saved; misses: {misses or 'none'}"
    words += f"; lookups p50 {reuse['retrieval_ms']['p50']:.1f} ms, {reuse['unanswered']:.0f} unanswered"
    way = reuse["under_way"]
    if way["requests"]:
        words += f"; {_counted(way['requests'], 'request')} while the strategy changed"
        words += f", {_counted(way['violations'], 'violation')}"
    return words


def describe_assumptions(setup: Mapping[str, Any], hardness_known: float) -> str:
    """Describe what was measured, asked for or assumed of times, hardness, classes, load shedding and learning.

    `hardness_known`: share of the requests whose hardness the trace gives.
    """
    varies = setup["variation"]
    spread = [cv for by_size in varies["run_cv"].values() for cv in by_size.values()]
    range_of_cv = f" (variation {min(spread):.0%} to {max(spread):.0%})" if spread else ""
    phrases = [
        "between processes as a live run took" if setup["hops"] else "nothing between processes",
        f"spread of run times {varies['origin']}{range_of_cv}",
        "stragglers " + (f"{varies['straggler_share']:.1%}" if varies["straggler_share"] else "none"),
        "spread of load times " + (f"{varies['load_cv']:.0%}" if varies["load_cv"] else "none"),
        f"hardness {_origin_of_hardness(hardness_known, is_recorded=setup['recorded'])}",
        *(f"classes of {strategy} {origin}" for strategy, origin in setup["classes"].items()),
        f"load shedding {'on' if setup['sheds'] else 'off'}",
        f"learning {'on' if setup['learns'] else 'off, but for policies that ask for it'}",
    ]
    return f"assumed: {'; '.join(phrases)}"


def _origin_of_hardness(known: float, *, is_recorded: bool) -> str:
    if is_recorded:
        return "of the recorded prompts"
    if known == 1:
        return "as the trace has it"
    return f"as the trace has it of {known:.0%}, else drawn uniformly" if known else "drawn uniformly"


def _between(values: Mapping[str, float]) -> str:
    return f" ({_range(values)})" if values["least"] < values["most"] else ""


def _range(values: Mapping[str, float], form: str = "{:.3g}") -> str:
    least, most = form.format(values["least"]), form.format(values["most"])
    return least if least == most else f"{least} to {most}"


def _counted(value: float, noun: str, nouns: str = "") -> str:
    """Return a mean over seeds with its noun, in whole numbers."""
    return counted(round(value), noun, nouns)


def _format(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
