"""The object store of images: one port, its folder and its S3 adapter."""
