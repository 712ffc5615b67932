"""Settings: defaults < user's rowen.toml < current folder's < ROWEN_* < flags; the only reader of the environment.

The current folder may be untrusted. Its file sets only `Harmless` settings: with any value they cannot send, run,
delete or spend anything, nor lift a limit. A new setting is not harmless unless it is marked.
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

# Of the letters: one or two that are wrong, missing or swapped. At 0.6, names of secrets resemble settings.
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

    config: Path | None = Field(
        default=None, description="your own rowen.toml; default: the one in the user's configuration folder"
    )
    home: Path = Field(default_factory=_default_home, description="data folder; the embedded database lives in it")
    database_url: SecretStr | None = Field(
        default=None, description="a PostgreSQL of yours (15+, pgvector 0.8+) instead of the embedded one"
    )
    trust_database: bool = Field(
        default=False, description="sources of a database by URL may use secrets of this machine, whoever added them"
    )
    database_patience_s: Harmless[float] = Field(
        default=10.0, gt=0, description="how long to wait for a database connection"
    )
    embedded_port: int = Field(
        default=0, ge=0, le=65535, description="TCP port of the embedded server on 127.0.0.1; 0: a private socket only"
    )
    embedded_user: str | None = Field(
        default=None, description="system user that runs the embedded server when Rowen is started by root"
    )
    # Users look at the results and search again, mostly within a minute. Twice as long wastes 40 MB, half misses slow
    # readers.
    embedded_linger_s: float = Field(
        default=60.0, ge=0, description="how long the embedded server stays up after the last command; 0: not at all"
    )
    workers: int | None = Field(default=None, ge=0, description="worker processes for parsing; 0: none")
    side_by_side: Harmless[int] = Field(default=4, ge=1, le=64, description="sources that are synced at the same time")
    lease_s: float = Field(
        default=60.0, gt=0, description="how long a run or a worker may be silent before another may take over"
    )
    # Three runs with their tries are half a day of an hourly schedule: longer than an outage that mends itself.
    failing_after: int = Field(
        default=3, ge=1, description="runs in a row that must fail until a source is called failing"
    )
    # Fourteen a minute, a quarter of what one host would bear at the usual pace. Users with thousands of pages notice
    # half of it; their servers notice twice as many.
    refresh_requests_per_day: int = Field(
        default=20_000, ge=1, description="requests a day for sources that are looked at as often as they change"
    )
    # A request may take two minutes, be tried three times, and wait two minutes for its host: ten minutes in all.
    job_silence_s: float = Field(
        default=1800.0, gt=0, description="how long a job may show no progress before a worker stops it"
    )
    # A restart is over after a minute. Twice as long would miss most of those that are, half would ask during many.
    job_retry_s: float = Field(
        default=60.0, ge=0, description="how long a job that failed waits for its next try; then 5 and 30 times as long"
    )
    # An hour at 30 items a second: then others may have the place. Half as many cost a large source twice the listings.
    job_items: int | None = Field(
        default=100_000, ge=1, description="new items after which a job leaves the rest of a large source to the next"
    )
    runs_at_once: int | None = Field(
        default=None, ge=1, description="scheduled runs of all workers at a time; default: as many as they have places"
    )
    worker_memory_mb: int | None = Field(
        default=None, ge=1, description="memory of a worker above which it stops a job; default: half of the machine's"
    )
    deletion_floor: int = Field(default=10, ge=0, description="fewer items that are gone are deleted without asking")
    deletion_share: float = Field(
        default=0.15, ge=0, le=1, description="above the floor: the share of a source that may go unasked"
    )
    # Half: tidying up a small folder deletes some of it; more than half is probably an accident. At a third, two of
    # four files could not be deleted; without a limit, a captive portal deletes nine pages of ten.
    deletion_small_share: float = Field(
        default=0.5, ge=0, le=1, description="below the floor: the share of a small source that may go unasked"
    )
    # A portal that lost half of its records is repaired within weeks, and a monthly look at `status` shows it in time.
    # After a week, a holiday would delete; after a year, half of an index may be obsolete.
    deletion_patience_days: float = Field(
        default=30, ge=0, description="deletions that are held back go unasked after so many days"
    )
    # Ten checks on as many days: a portal that is synced once a month gets ten months, one that is synced hourly the 30
    # days. At one or two, a portal that is seldom checked would lose its items at the next accident.
    deletion_patience_runs: int = Field(
        default=10, ge=1, description="but not before so many complete runs have missed them"
    )
    # A quarter: records that vanish for a month or two and return keep their history. A year would keep more than the
    # current items of sources that change every day.
    withdrawn_kept_days: float = Field(
        default=90, ge=0, description="how long the last copy of a deleted item can be looked at; 0: not at all"
    )
    revisions_kept: int = Field(default=20, ge=0, description="superseded texts kept per item")
    # A year, so that this season can be compared with the last one; a run takes a kilobyte. Half of it prevents that,
    # and nobody reads twice as much.
    runs_kept_days: float = Field(
        default=365, ge=1, description="how long runs are kept; the last 100 of a source, and those still needed, stay"
    )
    # Pages that return after a season are not paid for again. An answer takes 2 kB, and costs as much as storing it for
    # years; with a month, prices that alternate between two values would be extracted anew.
    answers_kept_days: float = Field(
        default=180, ge=7, description="how long answers of language models are kept that no facts in force rest on"
    )
    # A quarter, as for calls and deltas. Users who follow a search read its news within days.
    saved_news_kept_days: float = Field(
        default=90, ge=1, description="how long news of saved searches are kept; the last 100 of a search stay"
    )
    allow_addresses: Networks = Field(
        default=(), description="networks that may be reached although private, separated by commas"
    )
    allow_addresses_for: dict[str, Networks] = Field(
        default_factory=dict,
        description="the same for sources at one host alone: host=network, separated by commas",
    )

    push_key: SecretStr | None = Field(
        default=None,
        description="the key that secrets of pushes are derived from, at least 16 letters, or env:NAME or file:PATH",
    )
    # A deployment changes dozens of pages at once; a sender that calls once a second all day is broken, or hostile.
    push_per_minute: int = Field(default=60, ge=1, description="pushes of one sender that are taken in a minute")

    public_url: str | None = Field(
        default=None, description="where this is reached from outside: what hubs call, and what feeds and streams name"
    )
    # The port that feeds name where no public address is set.
    port: int = Field(default=8400, ge=0, le=65535, description="where the server listens; 0: any free port")
    host: str = Field(default="127.0.0.1", description="on which address; any but loopback requires tokens or OIDC")
    hosts: tuple[str, ...] = Field(
        default=(), description="further names by which the server may be called, separated by commas"
    )
    proxies: Networks = Field(
        default=(), description="reverse proxies whose X-Forwarded-For and -Proto are believed, separated by commas"
    )
    cors_origins: tuple[str, ...] = Field(
        default=(), description="origins whose pages may read answers of the server, separated by commas"
    )
    mcp_writes: bool = Field(default=False, description="assistants may write through /mcp, as far as their tokens may")
    public_read: bool = Field(default=False, description="everybody may read, without a token")
    # Ten a second, the most that a person with a fast page needs. Half of it is noticeable while typing a search.
    requests_per_minute: int = Field(default=600, ge=1, description="requests of one client that a process answers")
    # As much as a push may have. A larger body is not a declaration.
    request_limit_bytes: int = Field(default=5_000_000, ge=1000, description="largest request that the server takes")
    # Headers fit into a few packets. At half of it, a phone that lost one of them twice is cut off; twice as much keeps
    # a descriptor for idle connections.
    header_limit_s: float = Field(default=10.0, gt=0, description="time for the headers of a request to the server")
    # Each takes 40 kB and a descriptor, and most systems allow a thousand of these and more.
    connections_at_once: int = Field(default=1000, ge=1, description="connections that the server has open at a time")
    # An office behind one address: thirty browsers with six each. With half of it some of them wait; with twice as
    # many, three addresses fill the server.
    connections_per_address: int = Field(default=200, ge=1, description="connections of one address at a time")
    # Ten callers: then half of the connections are left for questions. At half of it five callers keep all others from
    # live pages; twice as many take all connections.
    streams_at_once: int = Field(default=500, ge=1, description="streams of events that the server has open at a time")
    # A browser opens six for all its tabs, and eight people may share a token. With half of it some of their pages poll
    # instead; with twice as many, five callers fill the server.
    streams_per_caller: int = Field(
        default=50, ge=1, description="streams of one token or person, or of one address without a token"
    )
    # Each holds a connection to the database and one state of it, for as long as its reader takes. The pool has 26
    # connections by default, which are for runs and questions. With half as many, two slow readers keep out all others.
    exports_at_once: int = Field(default=4, ge=1, description="exports and dumps that the server sends at a time")
    # One slow download, and one beside it; half of all, so that one caller never excludes all others.
    exports_per_caller: int = Field(default=2, ge=1, description="exports of one token, person or address at a time")
    session_hours: float = Field(default=12.0, gt=0, description="how long a browser stays logged in")
    # A year covers one audit and the time until the next.
    audit_kept_days: float = Field(default=365, ge=1, description="how long it is kept who wrote what")
    redacted_keys: tuple[str, ...] = Field(
        default=("email", "mbox", "phone", "telephone", "password", "secret", "token", "apikey"),
        description="parts of the names of fields of records whose values are hidden from who may only read",
    )
    oidc_issuer: str | None = Field(default=None, description="whose signed tokens (OIDC) name people")
    oidc_audience: str | None = Field(default=None, description="for whom such tokens must be meant")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="the secret of this server at the provider, or env:NAME or file:PATH to find it"
    )
    oidc_roles_claim: str = Field(default="roles", description="where a token lists roles; dots lead into objects")
    oidc_roles: dict[str, str] = Field(
        default_factory=dict, description="what roles may do: role=read, role=write or role=admin, separated by commas"
    )
    log: str = Field(default="text", pattern=_LOG_FORM, description="the form of log lines: text, or json for programs")
    probe: bool = Field(default=True, description="ask what is added what it is, and whether it is there")
    browser: Path | None = Field(
        default=None,
        description="the Chromium that renders pages; default: chromium, chromium-browser or google-chrome on the PATH",
    )
    user_agent: str | None = Field(
        default=None,
        pattern=_USER_AGENT,
        description="how requests name themselves; default: Rowen/<version>",
    )
    host_delay_s: float = Field(
        default=1.0,
        ge=0,
        description="least time between two requests to one host, of all processes of a database; where it is not set, "
        "hosts of your own network that were allowed are asked without a pause",
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
        names=("rowen_proxy", "https_proxy"),
        description="HTTP proxy for all requests",
    )
    no_proxy: tuple[str, ...] = Field(
        default=(),
        names=("rowen_no_proxy", "no_proxy"),
        description="hosts and domains reached without the proxy, separated by commas",
    )

    embedder: str | None = Field(
        default=None, description="who makes vectors; default: as the database has it, `local` for a new one"
    )
    embedder_url: str | None = Field(default=None, description="base address of the embedder's API")
    embedder_model: str | None = Field(
        default=None,
        description="its model, by the name that it has there; for `local` a folder, or the name of a fetched model",
    )
    model_hub: str | None = Field(
        default=None, description="address of the hub from which `rowen embed --fetch` takes models"
    )
    embedder_key: SecretStr | None = Field(default=None, description="its key, or env:NAME or file:PATH to find it")
    embedder_dimensions: int | None = Field(
        default=None, ge=1, le=4000, description="length of the vectors to ask for, where the model lets one choose"
    )
    embedder_price: float | None = Field(default=None, ge=0, description="what a million tokens cost, in US dollars")
    embedder_batch: int | None = Field(default=None, ge=1, description="texts in one request")
    embedder_concurrency: int | None = Field(default=None, ge=1, description="requests at the same time")
    embedder_question_limit_s: Harmless[float] = Field(
        default=2.0, gt=0, description="how long a search waits for the vector of its question"
    )
    embed_wait_s: Harmless[float] = Field(
        default=20.0, ge=0, description="how long a sync waits for embeddings when it is done"
    )
    embeddings_kept_days: float = Field(
        default=30.0, ge=0, description="how long vectors of texts that are gone are kept for when they come back"
    )
    vector_index_from: int = Field(
        default=20_000, ge=1, description="with so many vectors an index is made; fewer are compared one by one"
    )

    llm: str | None = Field(
        default=None, description="who reads pages for facts: openai, anthropic, gemini, ollama; default: nobody"
    )
    llm_url: str | None = Field(default=None, description="base address of the language model's API")
    llm_model: str | None = Field(default=None, description="its model, by the name that it has there")
    llm_key: SecretStr | None = Field(default=None, description="its key, or env:NAME or file:PATH to find it")
    llm_price: str | None = Field(
        default=None,
        pattern=_PRICE,
        description="what a million tokens cost, in US dollars: sent/received, or by model: name=sent/received, …",
    )
    # Providers allow more; four keep a page a second going, and a local server has one or two places.
    llm_concurrency: int = Field(default=4, ge=1, le=256, description="questions to a language model at the same time")
    # About 100 kB of text: nineteen pages in twenty, and the context of today's models. Longer ones are cut.
    llm_context_tokens: int = Field(
        default=24_000, ge=500, description="the longest text that is sent at once; longer pages are cut along headings"
    )
    # The largest bundled schema, filled in, takes 1,500; a list of 200 rows takes this much.
    llm_answer_tokens: int = Field(default=8_192, ge=64, description="the longest answer that is asked for")

    # A long answer of a slow model. A page takes seconds with a provider, and minutes on a processor of one's own.
    llm_limit_s: float = Field(default=300.0, gt=0, description="time for one answer of a language model")

    budget_run_usd: float | None = Field(
        default=None, ge=0, description="what paid calls of one run may cost, in US dollars; default: no limit"
    )
    budget_source_usd: float | None = Field(
        default=None, ge=0, description="what paid calls for one source may cost in 30 days"
    )
    budget_day_usd: float | None = Field(
        default=None, ge=0, description="what all paid calls of one day (UTC) may cost"
    )

    budget_call_usd: float | None = Field(default=None, ge=0, description="what one paid call may cost")
    budget_run_tokens: int | None = Field(default=None, ge=0, description="the same in tokens, sent and received")
    budget_source_tokens: int | None = Field(default=None, ge=0, description="the same in tokens")
    budget_day_tokens: int | None = Field(default=None, ge=0, description="the same in tokens")
    budget_call_tokens: int | None = Field(default=None, ge=0, description="the same in tokens")

    # The seeds use these names without the prefix.
    cb_failure_threshold: int = Field(
        default=5, ge=1, names=("cb_failure_threshold",), description="failures in a row that open a circuit"
    )
    cb_recovery_timeout_secs: float = Field(
        default=30.0, gt=0, names=("cb_recovery_timeout_secs",), description="how long a circuit stays open"
    )
    cb_success_threshold: int = Field(
        default=2, ge=1, names=("cb_success_threshold",), description="successes that close a half-open circuit"
    )
    cb_rate_limit_backoff_multiplier: float = Field(
        default=2.0,
        ge=1,
        names=("cb_rate_limit_backoff_multiplier",),
        description="an opening after an answer 429 multiplies the time that the circuit stays open",
    )
    cb_max_recovery_timeout_secs: float = Field(
        default=300.0,
        gt=0,
        names=("cb_max_recovery_timeout_secs",),
        description="upper bound of that time, also for the first opening",
    )

    def __init__(self, **values: Any) -> None:
        given_values = _given_values(values)
        for name, field in self.model_fields.items():
            try:
                value = parse(field, given_values[name]) if name in given_values else field.usual()
            except ValueError as problem:
                raise _wrong(name, problem) from None
            self.__dict__[name] = value
        self.__dict__["model_fields_set"] = frozenset(given_values)

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
        """The settings that were set, wherever."""
        names: frozenset[str] = self.__dict__["model_fields_set"]
        return names

    def model_copy(self, *, update: Mapping[str, Any]) -> "Settings":
        """Return the same settings but for some."""
        copy = object.__new__(Settings)
        copy.__dict__.update(self.__dict__, **update)
        return copy

    def for_source(self, url: str) -> "Settings":
        """Return the settings as they hold for the source at a URL: with the networks that are open to its host."""
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
    """Return the settings in force; an error names the setting and where it may be set."""
    flags_given = {name: value for name, value in flags.items() if value is not None}
    settings = Settings(**flags_given)
    origins = {name: _origin(name, flags_given) for name in sorted(settings.model_fields_set)}
    # Only this function knows the flags.
    settings.__dict__["_origins"] = origins
    return settings


def variables(name: str) -> list[str]:
    """Return the variables of the environment that set something; the first is the strongest."""
    return [variable.upper() for variable in Settings.model_fields[name].names] or [f"ROWEN_{name.upper()}"]


def misspelt() -> dict[str, str]:
    """Return variables that look like settings and set nothing, each with the setting that was probably meant.

    Other unknown variables are ignored: secrets may have any name, even one with the same prefix.
    """
    from difflib import get_close_matches

    known = [variable for name in Settings.model_fields for variable in variables(name)]
    unknown = sorted({variable.upper() for variable in os.environ if variable.upper().startswith("ROWEN_")} - {*known})
    matches = {variable: get_close_matches(variable, known, n=1, cutoff=_ALIKE) for variable in unknown}
    return {variable: names[0] for variable, names in matches.items() if names}


def _given_values(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values from flags, environment and files, by the names of the settings."""
    own = own_file(flags.get("config"))
    present = {variable.upper(): value for variable, value in os.environ.items()}
    set_there = {
        name: present[variable]
        for name in Settings.model_fields
        if (variable := next((candidate for candidate in variables(name) if candidate in present), None))
    }
    return {**_named(_of_user(own)), **_named(_of_folder(own)), **set_there, **_named(flags)}


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the names of their settings."""
    named = {}
    for key, value in values.items():
        name = _setting(key)
        if name is None:
            raise ConfigurationError(
                f"Unknown setting {key!r}.", hint=f"The settings are: {', '.join(sorted(Settings.model_fields))}."
            )
        named[name] = value
    return named


def _origin(name: str, flags: Mapping[str, Any]) -> str:
    if name in flags:
        return "a flag"
    present = {variable.upper() for variable in os.environ}
    if set_by := next((variable for variable in variables(name) if variable in present), None):
        return set_by
    own = own_file(flags.get("config"))
    in_folder = {_setting(key) for key in _of_folder(own)}
    return str(folder_file() if name in in_folder else own.absolute())


def _of_user(own: Path) -> dict[str, Any]:
    values = read(own)
    for key in values:
        if _setting(key) == "config":
            raise ConfigurationError(f"{own}: 'config' cannot be set in a file.", hint="ROWEN_CONFIG names your file.")
    return values


def _of_folder(own: Path) -> dict[str, Any]:
    """Return the values of the current folder's file; the user's own file is not read twice."""
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
    """Return the setting for a key in a file, in any case and by any of its names."""
    key = key.lower()
    if key in Settings.model_fields:
        return key
    return next((name for name in Settings.model_fields if key.upper() in variables(name)), None)


def _wrong(name: str, problem: ValueError) -> ConfigurationError:
    return ConfigurationError(
        f"Setting {name!r}: {problem}.",
        hint=f"Set it in your {FILE} as {name}, or in the environment as {variables(name)[0]}.",
    )
