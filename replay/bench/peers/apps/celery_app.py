"""A FastAPI front before Celery: it sends a task for each request and waits for its result."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from celery_tasks import image
from fastapi import FastAPI
from work import PATH, answer, asked

TIMEOUT_S = 300
WAITING = ThreadPoolExecutor(512)  # a thread for each request: Celery's client blocks


def run_task(prompt: str, seconds: float) -> str:
    """Send the task, and return its result."""
    return image.delay(prompt, seconds).get(timeout=TIMEOUT_S)


if __name__ == "__main__":
    options = asked()
    app = FastAPI()

    @app.post(PATH)
    async def images(body: dict) -> dict:
        """Wait for the task's result in Redis."""
        loop = asyncio.get_running_loop()
        return answer(await loop.run_in_executor(WAITING, run_task, body["prompt"], options.seconds))

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")
