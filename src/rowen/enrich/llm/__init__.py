"""Language models: the contract, and implementations for providers."""
