"""The files that DiffServe's and HADIS's authors published, from their texts; `streams` finds and opens them."""
