"""Language models: the contract, and the models of providers."""
