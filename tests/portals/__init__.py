"""Small worlds that change between runs."""
