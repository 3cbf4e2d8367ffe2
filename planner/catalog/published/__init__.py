"""The files that DiffServe's and HADIS's authors published, from their texts. `streams.published_files` finds them."""
