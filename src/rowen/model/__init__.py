"""Facts: frozen values that every layer may use, and the rules of identity and change. No I/O."""
