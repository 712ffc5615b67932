"""Facts out of a page: what its markup says already, what a model reads, and whether that stands in the text."""
