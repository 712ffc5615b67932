"""The job queue: due work becomes jobs, which any number of workers on any number of machines run."""
