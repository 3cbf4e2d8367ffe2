"""Pages of reference: `NAME.md` begins each, and `NAME.py` makes the rest of the code that it describes.

Fields of a request and metrics have pages in the tree (`schemas/OPTIONS.md`, `infra/observability/METRICS.md`).
"""
