"""Ray Serve: a replica for each worker, one request at a time in each, and no limit of the queue."""

import signal

import ray
from ray import serve
from starlette.requests import Request
from work import PATH, answer, asked, generate

options = asked()


@serve.deployment(
    num_replicas=options.workers, max_ongoing_requests=1, max_queued_requests=-1, ray_actor_options={"num_cpus": 0.1}
)
class Images:
    """One image a request."""

    async def __call__(self, request: Request) -> dict[str, object]:
        """The answer. The replica has one request at a time, so that its loop may sleep."""
        body = await request.json()
        return answer(generate(body["prompt"], options.seconds))


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=options.folder)
    serve.start(http_options={"host": "127.0.0.1", "port": options.port, "request_timeout_s": options.timeout or None})
    serve.run(Images.bind(), route_prefix=PATH)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()
    ray.shutdown()
