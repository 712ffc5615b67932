"""Polite HTTP, and nothing about sources."""
