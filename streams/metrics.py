"""Counters of everything that degrades or ends work; labels are bounded (roles, kinds, never ids)."""

from prometheus_client import Counter, Gauge

RECORDS = Counter("pochade_records_total", "Records handled", ["role"])
DEAD_LETTERS = Counter("pochade_dead_letters_total", "Records sent to the dlq", ["role", "error"])
UNUSABLE = Counter("pochade_unusable_records_total", "Records that a follower passed over", ["topics"])
AWAITED_SCHEMAS = Counter(
    "pochade_awaited_schemas_total", "Records that wait until a newer release's schema is known", ["role"]
)
RESENDS = Counter("pochade_resends_total", "Records written again after a failed delivery", ["role"])
DEAD_WORK = Counter("pochade_dead_work_total", "Work dropped because its request had a result", ["role"])
REPEATED = Counter("pochade_repeated_requests_total", "Records dropped: their request is being served")
OUTCOMES = Counter("pochade_outcomes_total", "Outcomes said", ["role", "status"])
FALLBACKS = Counter("pochade_fallbacks_total", "Decisions taken without what they wanted", ["role", "kind"])
SHED = Counter("pochade_shed_total", "Requests turned away as the plan lets in a share of their tier", ["tier"])
PAINTED = Counter("pochade_painted_total", "Jobs painted, begun on a blank or on a draft", ["begun_on"])
RESTARTS = Counter("pochade_role_restarts_total", "Times a role's loop began again after an error", ["role"])
LEDGER_DUPLICATES = Counter("pochade_ledger_duplicates_total", "Outcomes dropped: the request had ended")
STALE_ENDS = Counter("pochade_stale_ends_total", "Ends of partitions told by a leader that was behind; read on")
PLANS_REFUSED = Counter("pochade_plans_refused_total", "Newer plans that do not fit the catalog", ["role"])
PLAN_VERSION = Gauge("pochade_plan_version", "Plan obeyed", ["role"])
