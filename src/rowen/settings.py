"""Settings: defaults < rowen.toml < ROWEN_* < flags. The only reader of the environment."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, ClassVar

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
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

    model_config = SettingsConfigDict(env_prefix="ROWEN_", extra="forbid", frozen=True, populate_by_name=True)
    toml_path: ClassVar[Path | None] = None

    home: Path = Field(default_factory=_default_home, description="data folder; the embedded database lives in it")
    database_url: SecretStr | None = Field(
        default=None, description="a PostgreSQL of yours (15+, pgvector 0.8+) instead of the embedded one"
    )
    database_patience_s: float = Field(default=10.0, gt=0, description="how long to wait for a database connection")
    embedded_port: int = Field(
        default=0, ge=0, le=65535, description="TCP port of the embedded server on 127.0.0.1; 0: a private socket only"
    )
    embedded_user: str | None = Field(
        default=None, description="system user that runs the embedded server when Rowen is started by root"
    )
    workers: int | None = Field(default=None, ge=0, description="worker processes for parsing; 0: none")
    side_by_side: int = Field(default=4, ge=1, le=64, description="sources that are synced at the same time")
    lease_s: float = Field(default=60.0, gt=0, description="how long a run may be silent before another may take over")
    deletion_floor: int = Field(default=10, ge=0, description="fewer items that are gone are deleted without asking")
    deletion_share: float = Field(
        default=0.15, ge=0, le=1, description="above the floor: the share of a source that may go unasked"
    )
    # Half: who tidies up a small folder deletes some of it; more than half of it looks like an accident. At a third,
    # two of four files could not go; at all of it, a captive portal deletes nine pages of ten.
    deletion_small_share: float = Field(
        default=0.5, ge=0, le=1, description="below the floor: the share of a small source that may go unasked"
    )
    revisions_kept: int = Field(default=20, ge=0, description="superseded texts kept per item")
    allow_addresses: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = Field(
        default=(), description="networks that may be reached although private, separated by commas"
    )

    probe: bool = Field(default=True, description="ask an address that may be any site's what it is, when it is added")
    browser: Path | None = Field(
        default=None,
        description="the Chromium that draws pages; default: chromium, chromium-browser or google-chrome on the PATH",
    )
    user_agent: str | None = Field(default=None, description="how requests name themselves; default: Rowen/<version>")
    host_delay_s: float = Field(
        default=1.0, ge=0, description="least time between two requests to one host; up to half of it again is added"
    )
    host_concurrency: int = Field(default=3, ge=1, description="requests to one host at the same time")
    connect_limit_s: float = Field(default=10.0, gt=0, description="time to open a connection")
    idle_limit_s: float = Field(default=30.0, gt=0, description="time that a server may be silent")
    total_limit_s: float = Field(default=120.0, gt=0, description="time for one answer, redirects and body included")
    body_limit_bytes: int = Field(default=64 << 20, gt=0, description="largest body, counted after decompression")
    fetch_tries: int = Field(default=3, ge=1, description="tries of a request, the first one included")
    retry_after_limit_s: float = Field(
        default=120.0, ge=0, description="longest wait that a server may ask for (Retry-After, Crawl-delay)"
    )
    proxy: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("rowen_proxy", "https_proxy"),
        description="HTTP proxy for all requests",
    )
    no_proxy: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        validation_alias=AliasChoices("rowen_no_proxy", "no_proxy"),
        description="hosts and domains reached without the proxy, separated by commas",
    )

    embedder: str | None = Field(
        default=None, description="who makes vectors; default: as the database has it, `local` for a new one"
    )
    embedder_url: str | None = Field(default=None, description="base address of the embedder's API")
    embedder_model: str | None = Field(default=None, description="its model, by the name that it has there")
    embedder_key: SecretStr | None = Field(default=None, description="its key, or env:NAME or file:PATH to find it")
    embedder_dimensions: int | None = Field(
        default=None, ge=1, le=4000, description="length of the vectors to ask for, where the model lets one choose"
    )
    embedder_price: float | None = Field(default=None, ge=0, description="what a million tokens cost, in US dollars")
    embedder_batch: int | None = Field(default=None, ge=1, description="texts in one request")
    embedder_concurrency: int | None = Field(default=None, ge=1, description="requests at the same time")
    embedder_question_limit_s: float = Field(
        default=2.0, gt=0, description="how long a search waits for the vector of its question"
    )
    embed_wait_s: float = Field(default=20.0, ge=0, description="how long a sync waits for embeddings when it is done")
    embeddings_kept_days: float = Field(
        default=30.0, ge=0, description="how long vectors of texts that are gone are kept for when they come back"
    )
    vector_index_from: int = Field(
        default=20_000, ge=1, description="with so many vectors an index is made; fewer are compared one by one"
    )

    # The seeds name these without our prefix.
    cb_failure_threshold: int = Field(
        default=5, ge=1, validation_alias="cb_failure_threshold", description="failures in a row that open a circuit"
    )
    cb_recovery_timeout_secs: float = Field(
        default=30.0, gt=0, validation_alias="cb_recovery_timeout_secs", description="how long a circuit stays open"
    )
    cb_success_threshold: int = Field(
        default=2, ge=1, validation_alias="cb_success_threshold", description="successes that close a half-open circuit"
    )
    cb_rate_limit_backoff_multiplier: float = Field(
        default=2.0,
        ge=1,
        validation_alias="cb_rate_limit_backoff_multiplier",
        description="each answer 429 multiplies the time that the circuit will stay open",
    )
    cb_max_recovery_timeout_secs: float = Field(
        default=300.0, gt=0, validation_alias="cb_max_recovery_timeout_secs", description="upper bound of that time"
    )

    @field_validator("allow_addresses", "no_proxy", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

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
        if first["type"] == "extra_forbidden":
            raise ConfigurationError(
                f"There is no setting {name!r}.", hint=f"The settings are: {', '.join(sorted(Settings.model_fields))}."
            ) from None
        raise ConfigurationError(
            f"Setting {name!r}: {first['msg']}.",
            hint=f"It may stand in rowen.toml as {name}, or in the environment as {_variable(name)}.",
        ) from None
    except ValueError as problem:
        raise ConfigurationError(f"rowen.toml cannot be read: {problem}") from None


def _variable(name: str) -> str:
    return name.upper() if name.startswith("cb_") else f"ROWEN_{name.upper()}"
