"""Facts of a page: from its markup, from a language model, and whether the text supports them."""
