"""The names of spans' attributes, in one place: OpenTelemetry's semantic conventions 1.45, and ours under `pochade.`.

Those of messaging and of generative AI are in development there, and were renamed before (until 1.44 `messaging.system`
and `messaging.kafka.offset`): a newer version changes this file alone.
"""

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"

SYSTEM: Final = "messaging.system.name"
DESTINATION: Final = "messaging.destination.name"  # the topic, with its prefix
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
REQUEST: Final = "messaging.message.conversation_id"  # the request's id, in all spans of its trace
BODY_BYTES: Final = "messaging.message.body.size"
BATCH: Final = "messaging.batch.message_count"
OFFSET: Final = "kafka.offset"
KAFKA, PROCESS = "kafka", "process"

GENERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
OUTPUT: Final = "gen_ai.output.type"
EVALUATION: Final = "gen_ai.evaluation.name"
SCORE: Final = "gen_ai.evaluation.score.value"
GENERATE: Final = "generate_content"  # the well-known operation for what is not text alone

METHOD: Final = "http.request.method"
STATUS: Final = "http.response.status_code"
ERROR: Final = "error.type"

SERVICE: Final = "service.name"  # one a role: pochade-router
NAMESPACE: Final = "service.namespace"  # the deployment: the prefix of its topics
INSTANCE: Final = "service.instance.id"

OURS: Final = "pochade."
WROTE: Final = "pochade.wrote"  # topics of what was written because of it
BATCH_JOBS: Final = "pochade.batch"  # jobs of an engine's call
FACTS: Final = ("level", "stage", "worker", "status", "plan_version")  # of what was written, as `pochade.NAME`
