"""Search: words, vectors and ranking."""
