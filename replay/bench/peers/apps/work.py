"""The work of every peer: it takes as long as asked, then a small image is there. Run by the peers' own Python."""

import argparse
import base64
import os
import struct
import time
import zlib

PATH = "/v1/images/generations"
WIDTH, HEIGHT = 192, 128


def encode_png() -> bytes:
    """A PNG of one colour."""
    rows = b"".join(b"\0" + b"\x20\x60\xa0" * WIDTH for _ in range(HEIGHT))
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


IMAGE_BASE64 = base64.b64encode(encode_png()).decode()


WORKS = os.environ.get("PEER_WORKS")  # a file, of a line for each image: the process, and the prompt


def generate(prompt: str, seconds: float) -> str:
    """Take the time, and return the image as base64."""
    time.sleep(seconds)
    if WORKS:
        with open(WORKS, "a") as works:
            works.write(f"{os.getpid()} {prompt}\n")
    return IMAGE_BASE64


def answer(image: str) -> dict[str, object]:
    """The answer in OpenAI's shape."""
    return {"created": int(time.time()), "data": [{"b64_json": image}]}


def asked() -> argparse.Namespace:
    """The options of every app: where to listen, how many work at once, and how long an image takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--timeout", type=float, default=0)
    return parser.parse_args()
