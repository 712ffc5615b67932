"""Items, their passages, and what becomes of them."""
