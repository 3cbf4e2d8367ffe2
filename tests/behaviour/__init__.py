"""What a change of structure must not change: a recorder of it, and a comparer of two records (`README.md`)."""
