"""The pages, grouped by subject: each handler calls operations, and returns a view for its template."""
