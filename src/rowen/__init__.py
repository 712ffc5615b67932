"""Keeps a searchable copy of other people's catalogs, sites and folders fresh, and pays only for what changed."""
