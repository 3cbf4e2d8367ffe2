"""Rules for holding model components in tiers of memory, and for loading them ahead of use."""
