"""All metrics of a deployment, each declared once (`streams/observing/metric.py`): what a process shows at `/metrics`.

Labels are bounded (roles, kinds, variants, never ids). `infra/bin/observability` makes the table for readers,
dashboards and alert rules of `infra/observability/` from it.
"""

from dataclasses import fields

from schemas.messages import GenerateOptions, Status
from streams.observing.metric import LEFT_SECONDS, ROLES, STREAM_ROLES, counter, gauge, histogram, summary

KINDS = "see the role's README"
VARIANTS, LEVELS = "variants of the catalog", "levels of the catalog"
TIERS = ("interactive", "standard", "batch", "unknown")  # unknown: it could not be read
COMPONENT_TIERS = ("remote", "volume", "host", "device")
STATUSES = tuple(Status)
OPTIONS = ("prompt", "quality", "size", *(each.name for each in fields(GenerateOptions)), "other")
OF = ("expected", "seen")  # by the plan in force, and by what was observed since
CLASSIFIER, ROUTER, WORKER, JUDGE = ("classifier",), ("router",), ("worker",), ("discriminator",)
LEDGER, PLANNER, INDEXER, GATEWAY = ("ledger",), ("planner",), ("indexer",), ("gateway",)
CONSOLE = ("console",)
SCALE = ("pochade scale",)

# ---- the way of a request, stage by stage

RECORDS = counter("pochade_records_total", "Records handled", {"role": ROLES})
QUEUE_SECONDS = histogram(
    "pochade_queue_seconds",
    "Time from a record's writing until its role read it, by the clocks of both",
    {"role": (*STREAM_ROLES, "worker", "ledger")}, of=(*STREAM_ROLES, "worker", "ledger"),
)  # fmt: skip
HOP_SECONDS = histogram(
    "pochade_hop_seconds",
    "Time from reading a record until all records that it caused were acknowledged",
    {"role": (*STREAM_ROLES, "worker", "ledger")}, of=(*STREAM_ROLES, "worker", "ledger"),
)  # fmt: skip
JOB_QUEUE_SECONDS = histogram(
    "pochade_job_queue_seconds", "Time from the decision on a job's worker until its generation began",
    {"variant": VARIANTS}, of=WORKER,
)  # fmt: skip
GENERATION_SECONDS = histogram(
    "pochade_generation_seconds", "Time of an engine's call, which generates a batch", {"variant": VARIANTS}, of=WORKER
)
GENERATION_PART_SECONDS = histogram(
    "pochade_generation_part_seconds",
    "Time of an engine's call by what it did: loading components, encoding prompts, denoising, decoding latents",
    {"part": ("load", "encode", "denoise", "decode")}, of=WORKER,
)  # fmt: skip
BATCH_JOBS = histogram(
    "pochade_batch_jobs", "Jobs of an engine's call", {"variant": VARIANTS}, unit="jobs", of=WORKER,
    buckets=(1, 2, 3, 4, 6, 8, 12, 16, 32, 64),
)  # fmt: skip
STORE_SECONDS = histogram(
    "pochade_store_seconds",
    "Time to check and store the images of a job, with those that share its call; latents included",
    of=WORKER,
)
SCORING_SECONDS = histogram(
    "pochade_scoring_seconds", "Time to fetch and score the images of a job, by the discriminator",
    {"discriminator": "discriminators of the catalog"}, of=JUDGE,
)  # fmt: skip
TRANSACTION_SECONDS = histogram(
    "pochade_ledger_transaction_seconds", "Time of a transaction that writes results", of=LEDGER
)
REQUEST_SECONDS = histogram(
    "pochade_request_seconds", "Time from a request's creation until its end, once a request",
    {"status": STATUSES, "tier": TIERS}, of=LEDGER,
)  # fmt: skip
OVERRIDDEN = counter(
    "pochade_overridden_total",
    "What was done otherwise than completed requests state, or with their prompts and images, by option",
    {"option": OPTIONS}, of=LEDGER,
)  # fmt: skip
COMPLETED = counter(
    "pochade_completed_requests_total", "Requests that were completed, by the level of their image", {"level": LEVELS},
    of=LEDGER,
)  # fmt: skip
SLACK_SECONDS = histogram(
    "pochade_deadline_slack_seconds",
    "Time left until the deadline when an image was done; below 0: it was late. Of completed requests with a deadline",
    {"tier": TIERS}, of=LEDGER, buckets=LEFT_SECONDS,
)  # fmt: skip
ESCALATIONS = counter(
    "pochade_escalations_total", "Judged images, by what became of them (kept, escalated), and their level",
    {"level": LEVELS, "decision": ("kept", "escalated")}, of=JUDGE,
)  # fmt: skip

# ---- what degrades or ends work

DEAD_LETTERS = counter(
    "pochade_dead_letters_total", "Records sent to the dlq", {"role": ROLES, "error": "classes of errors"}
)
UNUSABLE = counter(
    "pochade_unusable_records_total", "Records that a follower passed over", {"topics": "topics that it follows"}
)
DELETED_UNREAD = counter(
    "pochade_deleted_unread_total",
    "Offsets that were deleted from a role's topics before it had read them, found at its start; max number of records",
    {"role": ROLES},
)  # fmt: skip
AWAITED_SCHEMAS = counter(
    "pochade_awaited_schemas_total", "Records that wait until a newer release's schema is known", {"role": ROLES}
)
RESENDS = counter("pochade_resends_total", "Records written again after a failed delivery", {"role": ROLES})
DEAD_WORK = counter("pochade_dead_work_total", "Work dropped because its request had a result", {"role": ROLES})
REPEATED = counter(
    "pochade_repeated_requests_total", "Records dropped: a request with their id is being served",
    of=("classifier", "router"),
)  # fmt: skip
OUTCOMES = counter("pochade_outcomes_total", "Outcomes said", {"role": ROLES, "status": STATUSES})
FALLBACKS = counter(
    "pochade_fallbacks_total", "Decisions taken without what they wanted", {"role": ROLES, "kind": KINDS}
)
SHED = counter(
    "pochade_shed_total", "Requests rejected as the plan admits a share of their tier", {"tier": TIERS}, of=ROUTER
)
RESTARTS = counter("pochade_role_restarts_total", "Times a role's loop began again after an error", {"role": ROLES})
LEDGER_DUPLICATES = counter("pochade_ledger_duplicates_total", "Outcomes dropped: the request had ended", of=LEDGER)
STALE_ENDS = counter("pochade_stale_ends_total", "Ends of partitions reported by a leader that was behind; read on")

# ---- workers

GENERATED = counter(
    "pochade_generated_jobs_total", "Jobs generated: from noise, draft or latent",
    {"started_from": ("noise", "draft", "latent")}, of=WORKER,
)  # fmt: skip
COST = counter(
    "pochade_cost_total", "Cost of images, by worker.price_per_hour", {"level": LEVELS, "tier": TIERS}, of=WORKER
)
BUSY_SECONDS = counter(
    "pochade_worker_busy_seconds_total",
    "Time that this worker had jobs in progress; its rate is its busy share",
    unit="seconds", of=WORKER,
)  # fmt: skip
PREVIEWS = counter(
    "pochade_previews_total",
    "Previews of steps by outcome (shown, left-out, undecoded, unstored, blocked)",
    {"outcome": ("shown", "left-out", "undecoded", "unstored", "blocked")}, of=WORKER,
)  # fmt: skip
REUSE_JOBS = counter(
    "pochade_reuse_jobs_total", "Jobs begun from a stored latent (hit), or why all their steps were run",
    {"outcome": "hit, and the misses of planner/reuse/neighbour.py"}, of=WORKER,
)  # fmt: skip
REUSE_SAVED_STEPS = counter(
    "pochade_reuse_saved_steps_total", "Steps that jobs skipped, begun from stored latents", unit="steps", of=WORKER
)
LOOKUP_SECONDS = histogram(
    "pochade_reuse_lookup_seconds",
    "Time of lookups of latents, guard included; those that were cut have their deadline",
    of=WORKER, buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
)  # fmt: skip
REUSE_ROWS = counter(
    "pochade_reuse_rows_total", "Images that entered the index of reuse (written), or why they did not",
    {"outcome": "written, and the reasons of agents/indexer"}, of=INDEXER,
)  # fmt: skip
REUSE_EVICTED = counter(
    "pochade_reuse_evicted_total", "Rows that left the index of reuse, expired or beyond its bytes", of=INDEXER
)
REUSE_BYTES = gauge(
    "pochade_reuse_bytes", "Bytes of latents and rows that this index writer has in its account",
    unit="bytes", of=INDEXER,
)  # fmt: skip
VECTORS_DROPPED = counter(
    "pochade_vectors_dropped_total",
    "Rows that a vector store returned and that failed the check after it",
    {"reason": "as streams/vectors/checking.py names them"}, of=("worker", "indexer"),
)  # fmt: skip
SAFETY = counter(
    "pochade_safety_checks_total", "Images that the safety check saw, by what was done (pass, flag, blur, block)",
    {"action": ("pass", "flag", "blur", "block")}, of=WORKER,
)  # fmt: skip
COMPONENT_HITS = counter(
    "pochade_component_hits_total", "Components that jobs needed, by the nearest tier that held them",
    {"tier": COMPONENT_TIERS}, of=WORKER,
)  # fmt: skip
COMPONENT_LOADS = counter("pochade_component_loads_total", "Components that jobs waited for", of=WORKER)
COMPONENT_MOVED_BYTES = counter(
    "pochade_component_moved_bytes_total", "Bytes of components moved, by the tier that they were moved into",
    {"tier": COMPONENT_TIERS}, unit="bytes", of=WORKER,
)  # fmt: skip
COMPONENT_BYTES = gauge(
    "pochade_component_bytes", "Bytes that components fill, by tier", {"tier": COMPONENT_TIERS}, unit="bytes", of=WORKER
)
CARD = {"uuid": "of the worker's card, as nvidia-smi -L lists it"}
GPU_MEMORY_BYTES = gauge(
    "pochade_gpu_memory_bytes", "Memory of the worker's card by whether any process has it (used, free)",
    CARD | {"state": ("used", "free")}, unit="bytes", of=WORKER,
)  # fmt: skip
GPU_TEMPERATURE = gauge("pochade_gpu_temperature_celsius", "Temperature of the worker's card", CARD, of=WORKER)
GPU_UTILISATION = gauge(
    "pochade_gpu_utilisation", "Share of the last second in which the worker's card computed", CARD, unit="share",
    of=WORKER,
)  # fmt: skip
PREFETCHES = counter(
    "pochade_component_prefetches_total",
    "Components that an idle worker moved as its plan lists them (loaded), or why it did not",
    {"outcome": "loaded, and the reasons of agents/worker/residency.py"}, of=WORKER,
)  # fmt: skip
COMPILE_SECONDS = summary(
    "pochade_compile_seconds", "Warm-ups of compiled variants, by what became",
    {"result": "as agents/engines/compiling says"}, unit="seconds", of=WORKER,
)  # fmt: skip

# ---- the console and the gateway

CONSOLE_REQUESTS = counter(
    "pochade_console_requests_total", "HTTP requests that the console answered, by handler and status",
    {"handler": "names of its handlers", "status": "HTTP statuses"}, of=CONSOLE,
)  # fmt: skip
CONSOLE_VIEWERS = gauge("pochade_console_viewers", "Live pages of the console that are open", of=CONSOLE)
CONSOLE_ACTIONS = counter(
    "pochade_console_actions_total", "Changes by way of the console, by action and by how they ended (done, failed)",
    {
        "action": ("submit", "cancel", "redrive", "pin", "unpin", "rollback", "audit", "sign-out"),
        "outcome": ("done", "failed"),
    },
    of=CONSOLE,
)  # fmt: skip
GATEWAY_REQUESTS = counter(
    "pochade_gateway_requests_total", "HTTP requests answered, by handler and status; 499: the client had hung up",
    {"handler": "names of its handlers", "status": "HTTP statuses"}, of=GATEWAY,
)  # fmt: skip
GATEWAY_JOINED = counter(
    "pochade_gateway_joined_total",
    "Repeated HTTP requests that joined the first, by how they were recognised (key, count)",
    {"by": ("key", "count")}, of=GATEWAY,
)  # fmt: skip
GATEWAY_KEYS_REFUSED = counter(
    "pochade_gateway_keys_refused_total",
    "HTTP requests refused for their API key (missing, malformed, unknown, revoked, expired, scope, too-many)",
    {"why": ("missing", "malformed", "unknown", "revoked", "expired", "scope", "too-many")}, of=GATEWAY,
)  # fmt: skip
GATEWAY_OPEN = gauge("pochade_gateway_open_requests", "HTTP requests that are being answered", of=GATEWAY)
GATEWAY_LEFT = counter(
    "pochade_gateway_clients_left_total", "Clients that hung up, or were cut for sending or reading too slowly",
    {"why": ("hung-up", "slow-head", "slow-body", "slow-reader")}, of=GATEWAY,
)  # fmt: skip
GATEWAY_PARTIAL_IMAGES = counter(
    "pochade_gateway_partial_images_total",
    "Drafts of streamed requests, by whether they were sent (sent, unread)",
    {"how": ("sent", "unread")}, of=GATEWAY,
)  # fmt: skip
GATEWAY_OPEN_WEBHOOKS = gauge("pochade_gateway_open_webhooks", "Requests with webhook events to deliver", of=GATEWAY)
GATEWAY_WEBHOOKS = counter(
    "pochade_gateway_webhooks_total",
    "Attempts at webhooks, by event and outcome (delivered, failed: it is repeated, dead-lettered)",
    {"event": ("start", "output", "logs", "completed", "none"), "outcome": ("delivered", "failed", "dead-lettered")},
    of=GATEWAY,
)  # fmt: skip
GATEWAY_STREAMS_REFUSED = counter(
    "pochade_gateway_streams_refused_total", "Streamed answers that ended with an error, by its code",
    {"code": "codes of agents/gateway/refusals.py"}, of=GATEWAY,
)  # fmt: skip
GATEWAY_EXPECTED = histogram(
    "pochade_gateway_expected_ratio",
    "Time that predictions took, as a multiple of the expected time in the answer to their submission",
    unit="ratio", of=GATEWAY, buckets=(0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0),
)  # fmt: skip

# ---- plans and the fleet, as the leading planner sees them; planners that stand by show 0

PLANS_REFUSED = counter(
    "pochade_plans_refused_total", "Newer plans that do not fit the catalog", {"role": "roles of the process, by +"}
)
FOREIGN_PLANS = counter(
    "pochade_foreign_plans_total", "Plans on the control topic that the leading planner has overruled", of=PLANNER
)
PLAN_VERSION = gauge("pochade_plan_version", "Plan obeyed", {"role": "roles of the process, by +"})
PLANNER_LEADS = gauge("pochade_planner_leads", "1: this planner leads; 0: it stands by", of=PLANNER)
DESIRED_WORKERS = gauge(
    "pochade_desired_workers",
    "Workers that the demand needs, by the newest proposal; above pochade_live_workers: saturated", of=PLANNER,
)  # fmt: skip
WORKERS_WANTED = gauge(
    "pochade_workers_wanted",
    "Workers that a variant should have, within all limits; with pochade_workers_warm what an autoscaler goes by",
    {"variant": VARIANTS}, of=PLANNER,
)  # fmt: skip
WORKERS_WARM = gauge("pochade_workers_warm", "Workers without a variant that should be held ready besides", of=PLANNER)
LIVE_WORKERS = gauge("pochade_live_workers", "Workers that the newest proposal was made for", of=PLANNER)
WORKERS = gauge(
    "pochade_workers", "Workers by the state that their last heartbeat reports; silent: it is overdue",
    {"state": ("starting", "loading", "ready", "painting", "draining", "hanging", "failed", "sick", "silent")},
    of=PLANNER,
)  # fmt: skip
DOUBLED_WORKERS = counter(
    "pochade_doubled_workers_total", "Times that a second process began to send heartbeats under a worker's id"
)
SERVING_WORKERS = gauge(
    "pochade_serving_workers", "Live workers that take jobs, by the variant that they serve", {"variant": VARIANTS},
    of=PLANNER,
)  # fmt: skip
BACKLOG_SECONDS = gauge(
    "pochade_backlog_seconds",
    "Work that waits or runs at the live workers of a variant, in seconds of one worker; by its serving workers: lag",
    {"variant": VARIANTS}, unit="seconds", of=PLANNER,
)  # fmt: skip
DEMAND = gauge(
    "pochade_demand_rps", "Requests a second: recently (seen), and in the forecast of the plan in force (expected)",
    {"of": OF}, unit="requests a second", of=PLANNER,
)  # fmt: skip
UTILIZATION = gauge(
    "pochade_utilization", "Share of the serving workers that are busy: seen since the last plan, and expected of it",
    {"of": OF}, unit="share", of=PLANNER,
)  # fmt: skip
EXPECTED_HEAVY_SHARE = gauge(
    "pochade_expected_heavy_share", "Share of images that the heaviest level generates, as the plan in force expects",
    unit="share", of=PLANNER,
)  # fmt: skip
EXPECTED_QUALITY = gauge(
    "pochade_expected_quality", "Mean quality of images, on the catalog's scale, as the plan in force expects",
    unit="quality", of=PLANNER,
)  # fmt: skip
IN_TIME = gauge(
    "pochade_in_time_share", "Share of the requests of the last minute that were answered in time", unit="share",
    of=PLANNER,
)  # fmt: skip

# ---- quality of what was really served, of a sample (`quality.checked_share`)

CHECKS = counter(
    "pochade_quality_checks_total",
    "Kept images that were drawn for the check of facts: checked, skipped (one was being checked), or unreadable: the "
    "prompt states no facts, or the image is in another style",
    {"outcome": ("checked", "skipped", "unreadable")}, of=JUDGE,
)  # fmt: skip
CHECKED_QUALITY = summary(
    "pochade_checked_quality", "Share of the checked images in which all facts of their prompts hold",
    {"level": LEVELS}, unit="share", of=JUDGE,
)  # fmt: skip
MODELLED_QUALITY = summary(
    "pochade_modelled_quality", "Quality of their levels in the catalog, of the same images",
    {"level": LEVELS}, unit="quality", of=JUDGE,
)  # fmt: skip

# ---- tracing

SPANS = counter(
    "pochade_spans_total", "Spans of sampled requests, by what became of them (sent, dropped, failed to be sent)",
    {"outcome": ("sent", "dropped", "failed")},
)  # fmt: skip

# ---- pochade scale

SCALE_EVENTS = counter(
    "pochade_scale_events_total",
    "Workers that this supervisor started, took over (found), drained, lost (died), started again (restarted)",
    {"event": ("started", "found", "drained", "died", "restarted")}, of=SCALE,
)  # fmt: skip
SCALE_WORKERS = gauge(
    "pochade_scale_workers",
    "Workers of this supervisor: running, draining, waiting to be started again; and wanted, of all supervisors",
    {"state": ("running", "draining", "waiting", "wanted")}, of=SCALE,
)  # fmt: skip
