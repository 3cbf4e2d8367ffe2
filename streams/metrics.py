"""Counters of everything that degrades or ends work; labels are bounded (roles, kinds, never ids)."""

from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Summary
from prometheus_client.core import CounterMetricFamily

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
GENERATED = Counter("pochade_generated_jobs_total", "Jobs generated: from noise, draft or latent", ["started_from"])
PREVIEWS = Counter(
    "pochade_previews_total",
    "Previews of steps by outcome (shown, left-out, undecoded, unstored, blocked)",
    ["outcome"],
)
REUSE_JOBS = Counter(
    "pochade_reuse_jobs_total", "Jobs begun from a stored latent (hit), or why all their steps were run", ["outcome"]
)
REUSE_SAVED_STEPS = Counter("pochade_reuse_saved_steps_total", "Steps that jobs skipped, begun from stored latents")
LOOKUP_SECONDS = Histogram(
    "pochade_reuse_lookup_seconds",
    "Time of lookups of latents, guard included; those that were cut have their deadline",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
)
REUSE_ROWS = Counter(
    "pochade_reuse_rows_total", "Images that entered the index of reuse (written), or why they did not", ["outcome"]
)
REUSE_EVICTED = Counter("pochade_reuse_evicted_total", "Rows that left the index of reuse, expired or beyond its bytes")
REUSE_BYTES = Gauge("pochade_reuse_bytes", "Bytes of latents and rows that this index writer has in its account")
SAFETY = Counter(
    "pochade_safety_checks_total", "Images that the safety check saw, by what was done (pass, flag, blur, block)",
    ["action"],
)  # fmt: skip
COMPONENT_HITS = Counter(
    "pochade_component_hits_total", "Components that jobs needed, by the nearest tier that held them", ["tier"]
)
COMPONENT_LOADS = Counter("pochade_component_loads_total", "Components that jobs waited for")
COMPONENT_MOVED_BYTES = Counter(
    "pochade_component_moved_bytes_total", "Bytes of components moved, by the tier that they were moved into", ["tier"]
)
COMPONENT_BYTES = Gauge("pochade_component_bytes", "Bytes that components fill, by tier", ["tier"])
PREFETCHES = Counter(
    "pochade_component_prefetches_total",
    "Components that an idle worker moved as its plan lists them (loaded), or why it did not",
    ["outcome"],
)
COMPILE_SECONDS = Summary("pochade_compile_seconds", "Warm-ups of compiled variants, by what became", ["result"])
GATEWAY_REQUESTS = Counter(
    "pochade_gateway_requests_total", "HTTP requests answered, by handler and status; 499: the client had hung up",
    ["handler", "status"],
)  # fmt: skip
GATEWAY_JOINED = Counter(
    "pochade_gateway_joined_total",
    "Repeated HTTP requests that joined the first, by what told them (key, count)",
    ["by"],
)
GATEWAY_KEYS_REFUSED = Counter(
    "pochade_gateway_keys_refused_total",
    "HTTP requests refused for their API key (missing, malformed, unknown, revoked, expired, scope, too-many)",
    ["why"],
)
GATEWAY_OPEN = Gauge("pochade_gateway_open_requests", "HTTP requests that are being answered")
GATEWAY_LEFT = Counter(
    "pochade_gateway_clients_left_total", "Clients that hung up, or were cut for sending or reading too slowly", ["why"]
)
GATEWAY_PARTIAL_IMAGES = Counter(
    "pochade_gateway_partial_images_total",
    "Drafts of streamed requests, by whether they were sent (sent, unread)",
    ["how"],
)
GATEWAY_OPEN_WEBHOOKS = Gauge("pochade_gateway_open_webhooks", "Requests whose webhooks are not told to their ends")
GATEWAY_WEBHOOKS = Counter(
    "pochade_gateway_webhooks_total",
    "Attempts at webhooks, by event and outcome (delivered, failed: it is repeated, dead-lettered)",
    ["event", "outcome"],
)
GATEWAY_STREAMS_REFUSED = Counter(
    "pochade_gateway_streams_refused_total", "Streamed answers that ended with an error, by its code", ["code"]
)
GATEWAY_EXPECTED = Histogram(
    "pochade_gateway_expected_ratio",
    "Time that predictions took, as a multiple of the time that their clients were told at submit",
    buckets=(0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0),
)
RESTARTS = Counter("pochade_role_restarts_total", "Times a role's loop began again after an error", ["role"])
LEDGER_DUPLICATES = Counter("pochade_ledger_duplicates_total", "Outcomes dropped: the request had ended")
STALE_ENDS = Counter("pochade_stale_ends_total", "Ends of partitions reported by a leader that was behind; read on")
PLANS_REFUSED = Counter("pochade_plans_refused_total", "Newer plans that do not fit the catalog", ["role"])
PLAN_VERSION = Gauge("pochade_plan_version", "Plan obeyed", ["role"])
DESIRED_WORKERS = Gauge(
    "pochade_desired_workers",
    "Workers that the demand needs, by the newest proposal; above pochade_live_workers: saturated",
)
WORKERS_WANTED = Gauge(
    "pochade_workers_wanted",
    "Workers that a variant should have, within all limits; with pochade_workers_warm what an autoscaler goes by",
    ["variant"],
)
WORKERS_WARM = Gauge("pochade_workers_warm", "Workers without a variant that should be held ready besides")
LIVE_WORKERS = Gauge("pochade_live_workers", "Workers that the newest proposal was made for")


class OldNames:
    """Counters under their names of release 0.1, which go with 0.3."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield `pochade_painted_total`, the old name, with the values of `pochade_generated_jobs_total`."""
        old = CounterMetricFamily(
            "pochade_painted", "Use pochade_generated_jobs_total: this name goes", labels=["begun_on"]
        )
        for metric in GENERATED.collect():
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    started_from = sample.labels["started_from"]
                    old.add_metric(["blank" if started_from == "noise" else started_from], sample.value)
        yield old


REGISTRY.register(OldNames())
