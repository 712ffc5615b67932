"""Binary documents as Markdown: PDF, Word, Excel, PowerPoint, OpenDocument, EPUB and RTF.

Office files are read here and not by a library: the tested ones lose words, or return another text with every release.
Only PDF needs one, from the extra `rowen[documents]`.
"""


class DamagedError(Exception):
    """The reason why a document cannot be read; the message continues the name of the file: "is encrypted."."""

    def __init__(self, why: str, *, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint
