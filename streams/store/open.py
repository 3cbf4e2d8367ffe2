"""Opens the object store that the settings name."""

import pathlib

from streams.settings import InvalidSettings, Settings
from streams.store.folder import FolderImageStore
from streams.store.port import ImageStore


def root_of(settings: Settings) -> str:
    """Return with what every URI of the store begins that the settings name. Raises InvalidSettings."""
    if not settings.store.url:
        return f"{_folder(settings).resolve().as_uri()}/"
    from streams.store.s3 import parsed

    bucket, prefix = parsed(settings.store.url)
    return f"s3://{bucket}/{prefix}/" if prefix else f"s3://{bucket}/"


def _folder(settings: Settings) -> pathlib.Path:
    return pathlib.Path(settings.store.folder or settings.home / "images")


def open_store(settings: Settings) -> ImageStore:
    """The store that the settings name: `store.url`, else a folder.

    Raises:
        InvalidSettings: both are named, or a URL that is none.
        StoreUnavailable, PochadeError: S3 cannot be reached, or does not let us in.
    """
    store = settings.store
    if not store.url:
        return FolderImageStore(_folder(settings))
    if store.folder:
        raise InvalidSettings(f"store.url {store.url!r} and store.folder {store.folder!r} are both set: unset one")
    from streams.store.s3 import S3ImageStore  # boto3 takes 0.3 s to import

    return S3ImageStore.open(store.url, store.s3_endpoint_url, store.s3_region)
