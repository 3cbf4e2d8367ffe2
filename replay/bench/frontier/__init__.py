"""Every policy on every catalog, trace and truth, with arrivals redrawn: the best quality at equal violations."""
