"""A FastAPI app with a queue in memory and a process for each worker."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import uvicorn
from fastapi import FastAPI
from work import PATH, answer, asked, generate

if __name__ == "__main__":
    options = asked()
    app = FastAPI()
    spawned = multiprocessing.get_context("spawn")  # forked ones would hold the port beyond the app's death
    pool = ProcessPoolExecutor(options.workers, spawned)  # its queue is the app's

    @app.post(PATH)
    async def images(body: dict) -> dict:
        """Wait for a worker, then for the image."""
        loop = asyncio.get_running_loop()
        return answer(await loop.run_in_executor(pool, generate, body["prompt"], options.seconds))

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")
