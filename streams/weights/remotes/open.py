"""Opens the remote that a URL names."""

import pathlib

from streams.weights.remotes.folder import FolderRemote
from streams.weights.remotes.remote import Remote


def open_remote(url: str, endpoint_url: str = "", region: str = "", ranges: int = 8) -> Remote:
    """Return the remote at `s3://BUCKET/PREFIX`, or in a folder. Raises InvalidSettings."""
    if url.startswith("s3://"):
        from streams.weights.remotes.s3 import S3Remote  # boto3 takes 0.3 s to import

        return S3Remote.open(url, endpoint_url, region, connections=ranges)
    return FolderRemote(pathlib.Path(url))
