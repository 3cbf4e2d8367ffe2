"""Traces of requests that only studies need: the data sets and the made workloads of the papers."""
