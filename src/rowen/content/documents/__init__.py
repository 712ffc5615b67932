"""Binary documents as Markdown: PDF, Word, Excel, PowerPoint, OpenDocument, EPUB and RTF.

Office files are read here and not by a library: those that were tried lose words, or write another text with every
release. Only PDF needs one, from the extra `rowen[documents]`.
"""

__all__ = ["DamagedError"]


class DamagedError(Exception):
    """The reason why a document cannot be read; the message continues after the name of the file: "is encrypted."."""

    def __init__(self, why: str, *, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint
