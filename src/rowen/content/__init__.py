"""Turn bytes into Markdown, and Markdown into chunks."""
