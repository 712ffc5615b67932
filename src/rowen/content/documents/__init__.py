"""Converts binary documents to Markdown: PDF, Word, Excel, PowerPoint, OpenDocument, EPUB and RTF.

Office files are parsed by this package and not by a library: the libraries tested lose text, or return other text with
every release. Only PDF needs a library, from the extra `rowen[documents]`.
"""


class DamagedError(Exception):
    """A document cannot be read; the message continues a sentence that begins with the file name."""

    def __init__(self, why: str, *, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint
