"""One module a kind of embedder."""
