"""The demand for components: counts, popularity, combinations, and what to load ahead."""
