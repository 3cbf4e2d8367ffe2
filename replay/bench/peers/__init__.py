"""Pochade beside what people would use instead: the same work, asked for in the same words over HTTP."""
