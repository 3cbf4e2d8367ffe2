"""Remotes of component weights: the port, S3 and a folder."""
