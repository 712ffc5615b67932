"""The kinds of embedders, one module for each kind."""
