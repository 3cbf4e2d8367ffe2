"""What a deployment shows of itself: the table of its metrics, and the dashboards and alerts made from it."""
