"""A long run: sends requests for hours, counts their ends, and watches what the roles hold."""
