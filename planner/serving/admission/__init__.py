"""Whether a request may pass: what can be served at all, tenants' rights, and the gate before batch requests."""
