"""Compares Pochade with other servers: the same work, requested by the same calls over HTTP."""
