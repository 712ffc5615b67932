"""Why a document cannot be read."""

__all__ = ["DamagedError"]


class DamagedError(Exception):
    """The message goes on where the name of the file ends: "is encrypted."."""

    def __init__(self, why: str, *, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint
