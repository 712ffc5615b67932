"""Options of folders, files and archives, and the file selection that they define."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field

from rowen.connectors.base import Options
from rowen.connectors.files.gitignore import any_of
from rowen.connectors.options import split_commas
from rowen.model.files import media_type_of

# Ten times as long as any real list; compiling such a list takes 50 ms.
_MOST_CHARS = 4_000


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if sum(map(len, patterns)) > _MOST_CHARS:
        raise ValueError(f"the patterns have more than {_MOST_CHARS:,} characters")
    any_of(patterns)
    return patterns


Globs = Annotated[tuple[str, ...], BeforeValidator(split_commas), AfterValidator(_check_patterns)]


class FilesOptions(Options):
    """Options of a folder, a file or an archive."""

    include: Globs = Field(default=(), description="only these files: patterns as in .gitignore, separated by commas")
    exclude: Globs = Field(default=(), description="not these, nor anything below them; stronger than include")
    hidden: bool = Field(default=False, description="include names that start with a dot; .git is never read")
    follow_links: bool | Literal["anywhere"] = Field(
        default=False, description="follow symbolic links to places inside the folder; `anywhere`: outside as well"
    )
    generated: bool = Field(
        default=False, description="include search indexes and copies that documentation generators write"
    )
    gitignore: bool = Field(default=True, description="leave out files that .gitignore names (not in archives)")
    max_bytes: ByteSize = Field(default=ByteSize(10_000_000), gt=0, description="maximum size of a file")
    max_total_bytes: ByteSize = Field(
        default=ByteSize(2_000_000_000), gt=0, description="maximum size of an unpacked archive"
    )
    max_members: int = Field(default=1_000_000, gt=0, description="maximum number of files in an archive")

    def reading(self) -> dict[str, Any]:
        """Return the language, the only option that affects stored items; the other options select files."""
        return {"language": self.language}


class Selection:
    """Selects files by name and relative path, according to the options."""

    def __init__(self, options: FilesOptions) -> None:
        self._include = any_of(options.include) if options.include else None
        self._exclude = any_of(options.exclude) if options.exclude else None
        self._hidden = options.hidden
        self.by_path = bool(options.include or options.exclude)

    def skips_dotted(self, name: str) -> bool:
        """Return whether `name`, which starts with a dot, is left out."""
        return not self._hidden or name == ".git"

    def enters(self, path: str) -> bool:
        """Return whether a folder may contain selected files."""
        return self._exclude is None or not self._exclude.fullmatch(path)

    def takes(self, path: str) -> bool:
        """Return whether the include and exclude patterns select a file."""
        return self.enters(path) and (self._include is None or bool(self._include.fullmatch(path)))

    def takes_member(self, path: str) -> bool:
        """Return whether a file in an archive is selected, by its path alone."""
        parts = path.split("/")
        if any(part.startswith(".") and self.skips_dotted(part) for part in parts):
            return False
        return media_type_of(parts[-1]) is not None and self.takes(path)
