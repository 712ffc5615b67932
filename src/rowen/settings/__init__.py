"""Settings: defaults < user's rowen.toml < current folder's < ROWEN_* < flags. Only this package reads the environment.

The current folder may be untrusted. Its file may set only `Harmless` settings: whatever their values, they cannot
send, run, delete or spend anything, nor lift a limit. A new setting is not harmless unless it is marked so.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, dataclass_transform
from urllib.parse import urlsplit

from rowen.errors import ConfigurationError
from rowen.settings.files import FILE, folder_file, own_file, read, same
from rowen.settings.values import Field, Harmless, Networks, SecretStr, SettingField, declared, parse

__all__ = ["SecretStr", "Settings", "load", "misspelt", "variables"]

# Similarity of names: one or two letters are wrong, missing or swapped. At 0.6, names of secrets resemble settings.
_ALIKE = 0.8
_USER_AGENT = re.compile(r"^[^\x00-\x1f\x7f]+\Z")
_LOG_FORM = re.compile("^(text|json)$")
_AMOUNTS = r"\d++(?:\.\d++)?(?:/\d++(?:\.\d++)?)?"
_PRICE = re.compile(rf"^(?:[^,=]++=)?{_AMOUNTS}(?:,(?:[^,=]++=)?\s*+{_AMOUNTS})*+$")


def _default_home() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("rowen", appauthor=False))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class _Declared:
    """Reads the fields of a class when it is declared."""

    model_fields: ClassVar[dict[str, SettingField]] = {}

    def __init_subclass__(cls) -> None:
        fields = {name: vars(cls)[name] for name in cls.__annotations__}
        cls.model_fields = {name: declared(field, cls.__annotations__[name]) for name, field in fields.items()}


class Settings(_Declared):
    """All settings. Values passed by name take precedence over the environment and files."""

    config: Path | None = Field("your own rowen.toml; default: rowen.toml in the user's configuration folder")
    home: Path = Field("data folder, which contains the embedded database", default_factory=_default_home)
    database_url: SecretStr | None = Field(
        "your own PostgreSQL server (15+, pgvector 0.8+) instead of the embedded one"
    )
    trust_database: bool = Field(
        "let sources of a database by URL use secrets of this machine, even if another user added them", default=False
    )
    database_patience_s: Harmless[float] = Field("maximum wait for a database connection", default=10.0, gt=0)
    embedded_port: int = Field(
        "TCP port of the embedded server on 127.0.0.1; 0: a private socket only", default=0, ge=0, le=65535
    )
    embedded_user: str | None = Field("system user that runs the embedded server when Rowen is started by root")
    # Users look at the results and search again, mostly within a minute. Twice as long wastes 40 MB, half misses slow
    # readers.
    embedded_linger_s: float = Field(
        "how long the embedded server keeps running after the last command; 0: stop at once", default=60.0, ge=0
    )
    workers: int | None = Field("worker processes for parsing; 0: none", ge=0)
    side_by_side: Harmless[int] = Field("maximum number of sources synced at the same time", default=4, ge=1, le=64)
    lease_s: float = Field(
        "silence after which another worker may take over a run or a worker's jobs", default=60.0, gt=0
    )
    # Three runs with their tries are half a day of an hourly schedule: longer than an outage that mends itself.
    failing_after: int = Field("consecutive failed runs after which a source counts as failing", default=3, ge=1)
    # Fourteen a minute, a quarter of what one host would bear at the usual pace. Users with thousands of pages notice
    # half of it; their servers notice twice as many.
    refresh_requests_per_day: int = Field("daily requests for sources with the schedule `auto`", default=20_000, ge=1)
    # A request may take two minutes, be tried three times, and wait two minutes for its host: ten minutes in all.
    job_silence_s: float = Field("time without progress after which a worker stops a job", default=1800.0, gt=0)
    # A restart is over after a minute. Twice as long would miss most of those that are, half would ask during many.
    job_retry_s: float = Field(
        "delay before the first retry of a failed job; the next delays are 5 and 30 times as long", default=60.0, ge=0
    )
    # An hour at 30 items a second; then other jobs may run. Half as many would double the listings of a large source.
    job_items: int | None = Field(
        "maximum number of new items per job; another job continues a larger source", default=100_000, ge=1
    )
    runs_at_once: int | None = Field(
        "maximum number of concurrent scheduled runs; default: the places of all workers", ge=1
    )
    worker_memory_mb: int | None = Field(
        "memory limit of a worker, above which it stops a job; default: half of the machine's memory", ge=1
    )
    deletion_floor: int = Field("number of missing items from which deletions need confirmation", default=10, ge=0)
    deletion_share: float = Field(
        "above the floor: share of a source that is deleted without confirmation", default=0.15, ge=0, le=1
    )
    # Half: tidying up a small folder deletes some of it; more than half is probably an accident. At a third, two of
    # four files could not be deleted; without a limit, a captive portal deletes nine pages of ten.
    deletion_small_share: float = Field(
        "below the floor: share of a small source that is deleted without confirmation", default=0.5, ge=0, le=1
    )
    # A portal that lost half of its records is repaired within weeks, and a monthly look at `status` shows it in time.
    # After a week, a holiday would delete; after a year, half of an index may be obsolete.
    deletion_patience_days: float = Field(
        "days after which pending deletions happen without confirmation", default=30, ge=0
    )
    # Ten checks on as many days: a portal that is synced once a month gets ten months, one that is synced hourly the 30
    # days. At one or two, a portal that is seldom checked would lose its items at the next accident.
    deletion_patience_runs: int = Field(
        "complete runs that must have missed an item before its pending deletion happens", default=10, ge=1
    )
    # A quarter: records that vanish for a month or two and return keep their history. A year would keep more than the
    # current items of sources that change every day.
    withdrawn_kept_days: float = Field("how long the last copy of a deleted item is kept; 0: no copy", default=90, ge=0)
    revisions_kept: int = Field("maximum number of earlier texts kept per item", default=20, ge=0)
    # A year, so that this season can be compared with the last one; a run takes a kilobyte. Half of it prevents that,
    # and nobody reads twice as much.
    runs_kept_days: float = Field(
        "how long runs are kept; the last 100 of each source and those still in use stay", default=365, ge=1
    )
    # Pages that return after a season are not paid for again. An answer takes 2 kB, and costs as much as storing it for
    # years; with a month, prices that alternate between two values would be extracted anew.
    answers_kept_days: float = Field("how long unused answers of language models are kept", default=180, ge=7)
    # A quarter, as for calls and deltas. Users who follow a search read its news within days.
    saved_news_kept_days: float = Field(
        "how long results of saved searches are kept; the last 100 of each search stay", default=90, ge=1
    )
    allow_addresses: Networks = Field("private networks that may be reached, separated by commas", default=())
    allow_addresses_for: dict[str, Networks] = Field(
        "private networks that only sources of one host may reach: host=network, separated by commas",
        default_factory=dict,
    )

    push_key: SecretStr | None = Field(
        "key from which push secrets are derived, at least 16 characters, or env:NAME or file:PATH"
    )
    # A deployment changes dozens of pages at once; a sender that calls once a second all day is broken, or hostile.
    push_per_minute: int = Field("maximum number of pushes per sender and minute", default=60, ge=1)

    public_url: str | None = Field(
        "address of this server as reached from outside, for callbacks of hubs, feeds and streams"
    )
    # The port that feeds name where no public address is set.
    port: int = Field("port of the server; 0: any free port", default=8400, ge=0, le=65535)
    host: str = Field(
        "address on which the server listens; any but loopback requires tokens or OIDC", default="127.0.0.1"
    )
    hosts: tuple[str, ...] = Field("additional host names of the server, separated by commas", default=())
    proxies: Networks = Field(
        "reverse proxies whose X-Forwarded-For and -Proto headers are trusted, separated by commas", default=()
    )
    cors_origins: tuple[str, ...] = Field(
        "origins whose pages may read answers of the server (CORS), separated by commas", default=()
    )
    mcp_writes: bool = Field("let assistants write through /mcp within the scopes of their tokens", default=False)
    public_read: bool = Field("let everybody read without a token", default=False)
    # Ten a second, the most that a person with a fast page needs. Half of it is noticeable while typing a search.
    requests_per_minute: int = Field(
        "maximum number of requests per client and minute in one process", default=600, ge=1
    )
    # The maximum size of a push. No declaration of sources is larger.
    request_limit_bytes: int = Field("maximum size of a request to the server", default=5_000_000, ge=1000)
    # Headers fit into a few packets. At half of it, a phone that lost one of them twice is cut off; twice as much keeps
    # a descriptor for idle connections.
    header_limit_s: float = Field("time limit for the headers of a request to the server", default=10.0, gt=0)
    # Each takes 40 kB and a descriptor, and most systems allow a thousand of these and more.
    connections_at_once: int = Field("maximum number of open connections of the server", default=1000, ge=1)
    # An office behind one address: thirty browsers with six each. With half of it some of them wait; with twice as
    # many, three addresses fill the server.
    connections_per_address: int = Field("maximum number of open connections per client address", default=200, ge=1)
    # Ten callers: then half of the connections are left for questions. At half of it five callers keep all others from
    # live pages; twice as many take all connections.
    streams_at_once: int = Field("maximum number of open event streams of the server", default=500, ge=1)
    # A browser opens six for all its tabs, and eight people may share a token. With half of it some of their pages poll
    # instead; with twice as many, five callers fill the server.
    streams_per_caller: int = Field(
        "maximum number of open event streams per token, person or anonymous address", default=50, ge=1
    )
    # Each holds a connection to the database and one state of it, for as long as its reader takes. The pool has 26
    # connections by default, which are for runs and questions. With half as many, two slow readers keep out all others.
    exports_at_once: int = Field("maximum number of concurrent exports and dumps of the server", default=4, ge=1)
    # One slow download, and one beside it; half of all, so that one caller never excludes all others.
    exports_per_caller: int = Field(
        "maximum number of concurrent exports per token, person or address", default=2, ge=1
    )
    session_hours: float = Field("how long a browser stays logged in", default=12.0, gt=0)
    # A year covers one audit and the time until the next audit.
    audit_kept_days: float = Field("how long the audit log of write requests is kept", default=365, ge=1)
    redacted_keys: tuple[str, ...] = Field(
        "parts of field names whose values are hidden from readers without write access",
        default=("email", "mbox", "phone", "telephone", "password", "secret", "token", "apikey"),
    )
    oidc_issuer: str | None = Field("identity provider (OIDC issuer) whose tokens identify people")
    oidc_audience: str | None = Field("required audience of these tokens")
    oidc_client_secret: SecretStr | None = Field(
        "client secret of this server at the provider, or env:NAME or file:PATH"
    )
    oidc_roles_claim: str = Field("claim of a token that lists roles; dots separate nested names", default="roles")
    oidc_roles: dict[str, str] = Field(
        "scopes of roles: role=read, role=write or role=admin, separated by commas", default_factory=dict
    )
    log: str = Field("format of log lines: text or json", default="text", pattern=_LOG_FORM)
    probe: bool = Field("probe the address of an added source to detect its kind and whether it exists", default=True)
    browser: Path | None = Field(
        "Chromium program that renders pages; default: chromium, chromium-browser or google-chrome on the PATH"
    )
    user_agent: str | None = Field("User-Agent of requests; default: Rowen/<version>", pattern=_USER_AGENT)
    host_delay_s: float = Field(
        "minimum time between two requests to one host by all processes of a database; by default, "
        "allowed hosts of your own network get requests without a pause",
        default=1.0,
        ge=0,
    )
    host_concurrency: int = Field("maximum number of concurrent requests to one host", default=3, ge=1)
    connect_limit_s: float = Field("time limit for opening a connection", default=10.0, gt=0)
    idle_limit_s: float = Field("time limit for a silent server", default=30.0, gt=0)
    total_limit_s: float = Field("time limit for an answer, including redirects and body", default=120.0, gt=0)
    body_limit_bytes: int = Field("maximum size of a body after decompression", default=64 << 20, gt=0)
    fetch_tries: int = Field("maximum number of tries of a request, including the first", default=3, ge=1)
    retry_after_limit_s: float = Field(
        "longest accepted wait that a server requests (Retry-After, Crawl-delay)", default=120.0, ge=0
    )
    proxy: SecretStr | None = Field("HTTP proxy for all requests", names=("rowen_proxy", "https_proxy"))
    no_proxy: tuple[str, ...] = Field(
        "hosts and domains that are reached without the proxy, separated by commas",
        default=(),
        names=("rowen_no_proxy", "no_proxy"),
    )

    embedder: str | None = Field("embedder; default: that of the database, or `local` for a new one")
    embedder_url: str | None = Field("base address of the embedder's API")
    embedder_model: str | None = Field(
        "name of the embedder's model; for `local` a folder or the name of a fetched model"
    )
    model_hub: str | None = Field("address of the hub from which `rowen embed --fetch` downloads models")
    embedder_key: SecretStr | None = Field("its API key, or env:NAME or file:PATH")
    embedder_dimensions: int | None = Field("requested length of vectors, for models with a choice", ge=1, le=4000)
    embedder_price: float | None = Field("price of a million tokens in US dollars", ge=0)
    embedder_batch: int | None = Field("maximum number of texts in one request", ge=1)
    embedder_concurrency: int | None = Field("maximum number of concurrent requests to the embedder", ge=1)
    embedder_question_limit_s: Harmless[float] = Field(
        "maximum wait of a search for the vector of its query", default=2.0, gt=0
    )
    embed_wait_s: Harmless[float] = Field("maximum wait of a finished sync for embeddings", default=20.0, ge=0)
    embeddings_kept_days: float = Field("how long vectors of deleted texts are kept for reuse", default=30.0, ge=0)
    vector_index_from: int = Field(
        "number of vectors from which an index is built; fewer are compared one by one", default=20_000, ge=1
    )

    llm: str | None = Field(
        "provider of the language model for extraction: openai, anthropic, gemini or ollama; default: none"
    )
    llm_url: str | None = Field("base address of the language model's API")
    llm_model: str | None = Field("name of the language model")
    llm_key: SecretStr | None = Field("its API key, or env:NAME or file:PATH")
    llm_price: str | None = Field(
        "price of a million tokens in US dollars: sent/received, or by model: name=sent/received, …", pattern=_PRICE
    )
    # Providers allow more; four keep a page a second going, and a local server has one or two places.
    llm_concurrency: int = Field("maximum number of concurrent requests to a language model", default=4, ge=1, le=256)
    # About 100 kB of text: nineteen pages in twenty, and the context of today's models. Longer ones are cut.
    llm_context_tokens: int = Field(
        "maximum size of a text in one request; longer pages are split at headings", default=24_000, ge=500
    )
    # The largest bundled schema, filled in, takes 1,500; a list of 200 rows takes this much.
    llm_answer_tokens: int = Field("maximum size of an answer", default=8_192, ge=64)

    # A long answer of a slow model. A page takes seconds with a provider, and minutes on a processor of one's own.
    llm_limit_s: float = Field("time limit for an answer of a language model", default=300.0, gt=0)

    budget_run_usd: float | None = Field("budget of paid calls for one run in US dollars; default: no limit", ge=0)
    budget_source_usd: float | None = Field("budget of paid calls for one source in 30 days", ge=0)
    budget_day_usd: float | None = Field("budget of all paid calls in one day (UTC)", ge=0)

    budget_call_usd: float | None = Field("budget of one paid call", ge=0)
    budget_run_tokens: int | None = Field("the same budget in tokens, sent and received", ge=0)
    budget_source_tokens: int | None = Field("the same budget in tokens", ge=0)
    budget_day_tokens: int | None = Field("the same budget in tokens", ge=0)
    budget_call_tokens: int | None = Field("the same budget in tokens", ge=0)

    # The seeds use these names without the prefix.
    cb_failure_threshold: int = Field(
        "consecutive failures that open a circuit", default=5, ge=1, names=("cb_failure_threshold",)
    )
    cb_recovery_timeout_secs: float = Field(
        "how long a circuit stays open", default=30.0, gt=0, names=("cb_recovery_timeout_secs",)
    )
    cb_success_threshold: int = Field(
        "successes that close a half-open circuit", default=2, ge=1, names=("cb_success_threshold",)
    )
    cb_rate_limit_backoff_multiplier: float = Field(
        "factor by which an opening after status 429 lengthens the time that the circuit stays open",
        default=2.0,
        ge=1,
        names=("cb_rate_limit_backoff_multiplier",),
    )
    cb_max_recovery_timeout_secs: float = Field(
        "maximum of that time, also for the first opening", default=300.0, gt=0, names=("cb_max_recovery_timeout_secs",)
    )

    def __init__(self, **values: Any) -> None:
        own = own_file(values.get("config"))
        of_user = read(own)
        if any(_setting(key) == "config" for key in of_user):
            raise ConfigurationError(f"{own}: 'config' cannot be set in a file.", hint="ROWEN_CONFIG names your file.")
        present = {variable.upper(): value for variable, value in os.environ.items()}
        of_environment = {
            name: present[variable]
            for name in self.model_fields
            if (variable := next((candidate for candidate in variables(name) if candidate in present), None))
        }
        texts = {**_named(of_user), **_named(_of_folder(own)), **of_environment, **_named(values)}
        for name, field in self.model_fields.items():
            try:
                self.__dict__[name] = parse(field, texts[name]) if name in texts else field.usual()
            except ValueError as problem:
                raise ConfigurationError(
                    f"Setting {name!r}: {problem}.",
                    hint=f"Set it in your {FILE} as {name}, or in the environment as {variables(name)[0]}.",
                ) from None
        self.__dict__["model_fields_set"] = frozenset(texts)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings are immutable; {name!r} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and all(
            self.__dict__[name] == other.__dict__[name] for name in self.model_fields
        )

    __hash__ = None  # type: ignore[assignment] # they hold a mapping

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={self.__dict__[name]!r}' for name in sorted(self.model_fields_set))})"

    @property
    def model_fields_set(self) -> frozenset[str]:
        """The names of the settings that were set, wherever they were set."""
        names: frozenset[str] = self.__dict__["model_fields_set"]
        return names

    def model_copy(self, *, update: Mapping[str, Any]) -> "Settings":
        """Return a copy of the settings with the changes in `update`."""
        copy = object.__new__(Settings)
        copy.__dict__.update(self.__dict__, **update)
        return copy

    def for_source(self, url: str) -> "Settings":
        """Return the settings for the source at a URL: with the networks that only sources of its host may reach."""
        try:
            host = urlsplit(url.removeprefix("git+")).hostname
        except ValueError:
            host = None
        networks = self.allow_addresses_for.get((host or "").rstrip("."))
        if not networks:
            return self
        return self.model_copy(update={"allow_addresses": (*self.allow_addresses, *networks)})

    @property
    def origins(self) -> Mapping[str, str]:
        """The origin of each value that was set: a file, a variable, or a flag."""
        origins: Mapping[str, str] = self.__dict__.get("_origins", {})
        return origins


def load(**flags: Any) -> Settings:
    """Return the effective settings; an error names the setting and where to set it."""
    set_flags = {name: value for name, value in flags.items() if value is not None}
    settings = Settings(**set_flags)
    origins = {}
    for name in sorted(settings.model_fields_set):
        if name in set_flags:
            origins[name] = "a flag"
            continue
        present = {variable.upper() for variable in os.environ}
        variable = next((variable for variable in variables(name) if variable in present), None)
        own = own_file(set_flags.get("config"))
        is_in_folder = variable is None and name in {_setting(key) for key in _of_folder(own)}
        origins[name] = variable or str(folder_file() if is_in_folder else own.absolute())
    # Only this function knows the flags.
    settings.__dict__["_origins"] = origins
    return settings


def variables(name: str) -> list[str]:
    """Return the environment variables that define a setting, the one with the highest precedence first."""
    return [variable.upper() for variable in Settings.model_fields[name].names] or [f"ROWEN_{name.upper()}"]


def misspelt() -> dict[str, str]:
    """Return environment variables that resemble settings but set nothing, each with the setting probably meant.

    Other unknown variables are ignored: secrets may have any name, even one with the same prefix.
    """
    from difflib import get_close_matches

    known = [variable for name in Settings.model_fields for variable in variables(name)]
    unknown = sorted({variable.upper() for variable in os.environ if variable.upper().startswith("ROWEN_")} - {*known})
    matches = {variable: get_close_matches(variable, known, n=1, cutoff=_ALIKE) for variable in unknown}
    return {variable: names[0] for variable, names in matches.items() if names}


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the canonical names of their settings."""
    named = {}
    for key, value in values.items():
        name = _setting(key)
        if name is None:
            raise ConfigurationError(
                f"Unknown setting {key!r}.", hint=f"The settings are: {', '.join(sorted(Settings.model_fields))}."
            )
        named[name] = value
    return named


def _of_folder(own: Path) -> dict[str, Any]:
    """Return the settings in the current folder's file; empty if it is the user's own file."""
    path = folder_file()
    if same(path, own):
        return {}
    values = read(path)
    for key in values:
        name = _setting(key)
        if name is not None and not Settings.model_fields[name].harmless:
            raise ConfigurationError(
                f"{path}: {key!r} cannot be set in the current folder's file. Nothing was done.",
                hint=f"Set it in {own}, or in the environment as {variables(name)[0]}. "
                f"If {path} is yours, ROWEN_CONFIG={FILE} says so.",
            )
    return values


def _setting(key: str) -> str | None:
    """Return the setting for a key in a file, in any case and by any of its names; None if there is none."""
    key = key.lower()
    if key in Settings.model_fields:
        return key
    return next((name for name in Settings.model_fields if key.upper() in variables(name)), None)
