"""The papers' experiments that simulation can address, each with its runs, its checks, and causes to try."""
