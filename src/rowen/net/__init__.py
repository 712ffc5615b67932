"""HTTP with a pace per host; this package does not know sources."""
