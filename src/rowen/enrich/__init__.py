"""Paid work: texts become vectors."""
