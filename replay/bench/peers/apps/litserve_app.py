"""LitServe: a worker process for each of `workers_per_device`."""

import litserve
from work import PATH, answer, asked, generate


class Images(litserve.LitAPI):
    """One image a request."""

    seconds = 0.0

    def setup(self, device):
        """Nothing is to be loaded."""

    def decode_request(self, request):
        """The prompt."""
        return request["prompt"]

    def predict(self, prompt):
        """The image."""
        return generate(prompt, self.seconds)

    def encode_response(self, image):
        """The answer."""
        return answer(image)


if __name__ == "__main__":
    options = asked()
    api = Images(api_path=PATH)
    api.seconds = options.seconds
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=options.workers, timeout=False)
    server.run(host="127.0.0.1", port=options.port, generate_client_file=False, log_level="warning")
