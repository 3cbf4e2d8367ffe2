"""Processes of this machine: children that end with their parent, forks of one that has imported, and watchdogs."""
