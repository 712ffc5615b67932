"""Connectors, each against small worlds that change between looks."""
