"""HTTP with rate limits per host; this package does not depend on sources."""
