"""Convert bytes to Markdown, and split Markdown into chunks."""
