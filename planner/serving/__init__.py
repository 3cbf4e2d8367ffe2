"""The decisions for each request, job and worker while requests are served."""
