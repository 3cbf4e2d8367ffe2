"""How plans are computed: programs and heuristics that the policies share."""
