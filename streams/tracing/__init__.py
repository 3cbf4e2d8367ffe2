"""Traces of requests over all hops: spans by OpenTelemetry, carried by `traceparent` headers; off by default."""
