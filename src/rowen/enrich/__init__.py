"""Paid services and local models: providers, the ledger of calls, and embedders."""
