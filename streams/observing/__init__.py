"""The table of metrics, and the dashboards and alerts made from it."""
