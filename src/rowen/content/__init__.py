"""Bytes become Markdown, Markdown becomes chunks."""
