"""Compiles a variant's denoiser by torch.compile, and keeps what was compiled in the worker's volume.

Begin with `compilation.py`, which an engine calls; `denoiser.py` runs compiled code or eager code; `identity.py` says
what code was compiled for; `cache.py` keeps it. README.md has the figures.
"""
