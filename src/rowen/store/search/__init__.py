"""Search: words, vectors, ranking and saved searches."""
