"""Paid services and local models: providers, the ledger of calls, embedders."""
