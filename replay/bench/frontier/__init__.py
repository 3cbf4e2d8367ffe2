"""Every policy on every catalog, trace and truth, with arrivals redrawn: who generates best at equal violations."""
