"""Does DiffServe's cascade have a lower FID than the rest at few violations, and what do its parts contribute?"""

from collections.abc import Mapping

from replay.bench.papers.answer import Answer
from replay.bench.papers.answers import Asking, Mean, Table, less, number, over_seeds, percent
from replay.bench.papers.experiments.diffserve import (
    ABLATIONS,
    CASCADES,
    EXPERIMENTS,
    FIRST,
    TRACE,
    ablation_cells,
    base_of,
    load_cells,
    slo_cells,
)
from replay.bench.papers.experiments.experiment import counted, in_a_word, settle, tables_of
from replay.bench.papers.runs.cells import Cell, with_parameters
from replay.bench.papers.runs.names import DIFFSERVE, HADIS, HEAVY, JOINT, LIGHT, PROTEUS, RANDOM, SOMMELIER, STATIC

COMPARED = (LIGHT, HEAVY, PROTEUS, SOMMELIER, STATIC, DIFFSERVE, HADIS, JOINT)
PAPER = {  # violations, cascade by cascade. Source: 4.3, Figs. 5 and 6
    LIGHT: ("0", "0", "0"), HEAVY: ("up to 75 %", "68.4 %", "73 %"), STATIC: ("up to 19 % at the peak", "-", "-"),
    DIFFSERVE: ("low", "1 % above static", "low"),
}  # fmt: skip
GAINS = {HEAVY: "about 15 %", PROTEUS: "< 5 %", STATIC: "up to 9 %", DIFFSERVE: "up to 23.4 %"}  # on cascade 1: 4.3
GAIN = "up to 23.4 % (4.3), 9 to 24 %, 8 to 15 % (Fig. 6) lower FID than all but Clipper-Heavy"
FACTORS = (1.0, 1.05, 1.2, 1.4, 1.6)  # of the reference, planner/policies/SOURCES.md 5
REFERENCE = {1.0: "17.60 / 5.1", 1.05: "17.52 / 3.4", 1.2: "17.48 / 0.5", 1.4: "17.57 / 0.2", 1.6: "17.66 / 0.2"}
ABLATED = {
    "static threshold": "FID up to 19 % worse", "AIMD batches": "up to 20 points more violations",
    "queue = 2 run times": "FID up to 12 % worse",
}  # fmt: skip


def ask(asking: Asking) -> Answer:
    """The paper's experiments; three cascades on one trace, over-provisioning, SLOs, and parts of the allocator."""
    outcomes = settle(EXPERIMENTS, asking)
    found = over_seeds(asking.run, _compared_cells(asking), asking.scale.few)
    found |= over_seeds(asking.run, _swept_cells(asking), asking.scale.few)
    found |= over_seeds(asking.run, _random(found), asking.scale.few)
    light, ours, heavy = (found[f"{FIRST}/{policy}"] for policy in (LIGHT, DIFFSERVE, HEAVY))
    best = less(ours.fid_run, light.fid_run)
    return Answer(
        name=__name__.rpartition(".")[2],
        title="DiffServe: cascades against single models",
        verdict=f"{in_a_word(outcomes)}: {counted(outcomes)}. On cascade 1 the FID of all its answers is "
        f"{percent(best)} below Clipper-Light's at {percent(ours.violations, 2)} violations (paper: up to 23.4 %), "
        f"Clipper-Heavy violates {percent(heavy.violations)} (paper: up to 75 %).",
        tables=(*tables_of(outcomes), _compared(found), _swept(found), _loads(found), _slos(found), _ablations(found)),
        numbers={
            "fid_below_light_share": round(best, 4),
            "violations": round(ours.violations, 5),
            "heavy_violations": round(heavy.violations, 4),
        }
        | {f"fid_{name}": round(mean.fid, 3) for name, mean in found.items() if name.startswith(FIRST)},
        facts=_facts(asking),
        outcomes=tuple(outcomes),
    )


def _facts(asking: Asking) -> dict[str, str]:
    base = base_of(FIRST, DIFFSERVE)
    return {
        "workers": str(base.workers),
        "trace": TRACE,
        "slos": ", ".join(f"{slo:g}" for slo in CASCADES.values()),
        "period": f"{base.period_s:g}",
        "seeds": str(asking.scale.few),
    }


def _compared_cells(asking: Asking) -> dict[str, Cell]:
    catalogs = (FIRST,) if asking.scale.is_quick else tuple(CASCADES)
    return {f"{catalog}/{policy}": base_of(catalog, policy) for catalog in catalogs for policy in COMPARED}


def _swept_cells(asking: Asking) -> dict[str, Cell]:
    is_quick, cells = asking.scale.is_quick, dict[str, Cell]()
    for factor in FACTORS[:2] if is_quick else FACTORS:
        for policy in (PROTEUS, DIFFSERVE, HADIS):
            swept = {"overprovision": factor}
            cells[f"over/{factor:g}/{policy}"] = with_parameters(base_of(FIRST, policy), swept)
    for kind, of in (("load", load_cells), ("slo", slo_cells), ("ablation", ablation_cells)):
        cells |= {f"{kind}/{name}": cell for name, cell in of(is_quick).items()}
    return cells


def _random(found: Mapping[str, Mean]) -> dict[str, Cell]:
    """Beside each cascade, the split by chance with as many answers of heavy."""
    shares = {c: found[f"{c}/{DIFFSERVE}"].of("heavy_share") for c in CASCADES if f"{c}/{DIFFSERVE}" in found}
    return {
        f"{c}/{RANDOM}": with_parameters(base_of(c, RANDOM), {"heavy_share": round(s, 2), "batch": 2})
        for c, s in shares.items()
    }


def _compared(found: Mapping[str, Mean]) -> Table:
    rows = []
    for at, catalog in enumerate(CASCADES):
        for policy in (*COMPARED, RANDOM):
            mean, paper = found.get(f"{catalog}/{policy}"), PAPER.get(policy, ("-", "-", "-"))[at]
            if mean is not None:
                gain = percent(less(mean.fid_run, found[f"{catalog}/{LIGHT}"].fid_run))
                published = GAINS.get(policy, "-") if catalog == FIRST else "-"
                fids = number(mean.fid_run), number(-mean.of("quality_run_optimistic")), number(mean.fid)
                rows.append((catalog, policy, *fids, gain, published, percent(mean.violations, 2), paper,
                             percent(mean.of("heavy_share"), 0)))  # fmt: skip
    columns = (
        "cascade", "policy", "FID", "optimistic", "in 20-s windows", "below Clipper-Light", "paper", "violations",
        "paper's violations", "heavy",
    )  # fmt: skip
    return Table(title=f"Three cascades (paper: {GAIN})", columns=columns, rows=tuple(rows))


def _cell(mean: Mean) -> str:
    return f"{number(mean.fid)} / {100 * mean.violations:.2f}"


def _grid(found: Mapping[str, Mean], kind: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the columns of a kind and policy -> its cells, from means named "kind/column/policy"."""
    named = [name.split("/") for name in found if name.startswith(f"{kind}/")]
    columns = list(dict.fromkeys(column for _, column, _ in named))
    policies = dict.fromkeys(policy for _, _, policy in named)
    return columns, {policy: [_cell(found[f"{kind}/{column}/{policy}"]) for column in columns] for policy in policies}


def _swept(found: Mapping[str, Mean]) -> Table:
    columns, rows = _grid(found, "over")
    lines = [(policy, *cells) for policy, cells in rows.items()]
    lines.append((f"{DIFFSERVE}, independent", *(REFERENCE[float(column)] for column in columns)))
    title = "Over-provisioning on cascade 1, FID / violations % (Fig. 4; last row: planner/policies/SOURCES.md 5)"
    return Table(title=title, columns=("policy", *(f"x {column}" for column in columns)), rows=tuple(lines))


def _loads(found: Mapping[str, Mean]) -> Table:
    columns, rows = _grid(found, "load")
    title = "Constant loads on cascade 1, FID / violations % (Fig. 4: Clipper-Heavy 45 to 74 %)"
    return Table(title=title, columns=("policy", *(f"{column}/s" for column in columns)),
                 rows=tuple((policy, *cells) for policy, cells in rows.items()))  # fmt: skip


def _slos(found: Mapping[str, Mean]) -> Table:
    columns, rows = _grid(found, "slo")
    title = "SLO sweep on cascade 1, FID / violations % (4.6, Fig. 9: low violations and FID over the range)"
    return Table(title=title, columns=("policy", *(f"{column} s" for column in columns)),
                 rows=tuple((policy, *cells) for policy, cells in rows.items()))  # fmt: skip


def _ablations(found: Mapping[str, Mean]) -> Table:
    rows = tuple(
        (name, number((mean := found[f"ablation/{name}"]).fid), percent(mean.violations, 2), ABLATED.get(name, "-"))
        for name in ABLATIONS
    )
    return Table(
        title="What the allocator's parts bring (4.5, Fig. 8)",
        columns=("variant", "FID", "violations", "paper"),
        rows=rows,
    )
