"""Extract the facts of a page from its markup or by a language model, and check them against the text."""
