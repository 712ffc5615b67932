"""The queue: what is due becomes a job, and any number of workers on any number of machines take them."""
