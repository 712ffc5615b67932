"""The vocabulary of the default embedder."""
