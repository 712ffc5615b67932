"""What all kinds of catalogs share: one shape for their records, dates and languages read however they are written."""
