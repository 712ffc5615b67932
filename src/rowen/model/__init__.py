"""Facts: frozen values that every layer may share, and the rules of identity and change. No I/O."""
