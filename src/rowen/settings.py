"""Settings: defaults < rowen.toml < ROWEN_* < flags. The only reader of the environment."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, ClassVar

import platformdirs
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from rowen.errors import ConfigurationError

__all__ = ["Settings", "load"]


def _default_home() -> Path:
    return Path(platformdirs.user_data_dir("rowen", appauthor=False))


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(env_prefix="ROWEN_", extra="ignore", frozen=True)
    toml_path: ClassVar[Path | None] = None

    home: Path = Field(default_factory=_default_home, description="data folder; the embedded database lives in it")
    database_url: SecretStr | None = Field(
        default=None, description="a PostgreSQL of yours (15+, pgvector 0.8+) instead of the embedded one"
    )
    embedded_port: int = Field(
        default=0, ge=0, le=65535, description="TCP port of the embedded server on 127.0.0.1; 0: a private socket only"
    )
    embedded_user: str | None = Field(
        default=None, description="system user that runs the embedded server when Rowen is started by root"
    )
    workers: int | None = Field(default=None, ge=0, description="worker processes for parsing; 0: none")
    lease_s: float = Field(default=60.0, gt=0, description="how long a run may be silent before another may take over")
    deletion_floor: int = Field(default=10, ge=0, description="so many vanished items are deleted without asking")
    deletion_share: float = Field(
        default=0.15, ge=0, le=1, description="above the floor: the share of a source that may vanish unasked"
    )
    revisions_kept: int = Field(default=20, ge=0, description="superseded texts kept per item")
    allow_addresses: tuple[IPv4Network | IPv6Network, ...] = Field(
        default=(), description="networks that may be reached although private"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags first, then the environment, then rowen.toml."""
        toml = TomlConfigSettingsSource(settings_cls, cls.toml_path or Path("rowen.toml"))
        return init_settings, env_settings, toml


def load(**flags: Any) -> Settings:
    """The settings in force; a wrong one is named together with where it may stand."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as problem:
        first = problem.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"Setting {name!r}: {first['msg']}.",
            hint=f"It may stand in rowen.toml as {name}, or in the environment as ROWEN_{name.upper()}.",
        ) from None
    except ValueError as problem:
        raise ConfigurationError(f"rowen.toml cannot be read: {problem}") from None
