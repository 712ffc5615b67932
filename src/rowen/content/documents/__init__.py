"""Documents that are no text: PDF, Word, Excel, PowerPoint, OpenDocument, EPUB and RTF become Markdown.

Office files are read here and not by a library: those that were tried lose words, or write another text with every
release. Only PDF needs one, from the extra `rowen[documents]`.
"""
