"""What an operator sets, from the environment: RAILYARD_PORT=8080, RAILYARD_OVERRIDES=/etc/railyard, …"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "RAILYARD_"
MOST_PORT = 65535


class SettingsError(Exception):
    """The environment is wrong; the text says which variable and what it may be."""


class Settings(BaseSettings):
    """Every setting, its default and its bounds; the README's table is made from this class and a test compares."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", str_max_length=4096)

    host: str = Field("127.0.0.1", description="Address to listen on; the container sets 0.0.0.0.")
    port: int = Field(8000, ge=0, le=MOST_PORT, description="Port to listen on; 0 takes a free one.")
    root_path: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~-]+)*$")] = Field(
        "", description="Sub-path that a reverse proxy serves this under and strips, for example /railyard."
    )
    overrides: Path | None = Field(
        None, description="Folder of an operator's own *.toml entries: prices, GPUs, efficiencies. Read once, at start."
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins whose pages may call the API, separated by commas; none by default."
    )
    embed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Sites whose pages may show charts by address in a frame or as an image, such as "
        "https://wiki.example, separated by commas; none by default.",
    )
    trusted_proxies: str = Field(
        "127.0.0.1", description="Addresses whose X-Forwarded-* headers are believed, separated by commas; * for all."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Log lines as JSON or as text; auto means text on a terminal."
    )
    access_log: bool = Field(True, description="Log one line for every request.")
    max_body: int = Field(2_097_152, ge=1024, le=104_857_600, description="Largest request body, in bytes.")
    max_query: int = Field(16_384, ge=1024, le=65_536, description="Longest query string, in bytes.")
    max_headers: int = Field(100, ge=20, le=10_000, description="Most headers of one request.")
    max_header_size: int = Field(
        32_768, ge=4096, le=1_048_576, description="Most bytes that the headers of one request take together."
    )
    max_connections: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="Most open connections, or as many as the limit on open files leaves room for. For one more, the "
        "oldest that has not sent its whole request is closed, or else the one that is idle longest.",
    )
    header_timeout: float = Field(
        10.0, gt=0, le=3600, description="Seconds in which a client sends a request's first line and headers."
    )
    body_timeout: float = Field(60.0, gt=0, le=3600, description="Seconds in which it sends the whole body.")
    send_timeout: float = Field(60.0, gt=0, le=3600, description="Seconds that it may read nothing of its answer.")
    keep_alive: int = Field(
        75,
        ge=0,
        le=3600,
        description="Seconds that a connection stays open between two requests; longer than a proxy's.",
    )
    time_limit: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Seconds one request may wait its turn and compute; a sweep is cut off there and says so.",
    )
    heavy_workers: int = Field(
        1,
        ge=1,
        le=64,
        description="How many large questions compute at the same time: size, sweep, compare, curves, files, and what "
        "is asked about very large fabrics.",
    )
    heavy_queue: int = Field(
        16, ge=0, le=10_000, description="How many more of them wait their turn; the next one gets a 503."
    )
    work_ahead: bool = Field(
        True,
        description="Whether the clusters of the catalogue are worked out ahead, for half a minute after the start "
        "while nobody asks, so that the first visit of /explore shows all.",
    )
    max_sweep_points: int = Field(
        1_000_000, ge=1, le=100_000_000, description="Most points of one sweep; it is cut off there and says so."
    )
    max_cables: int = Field(
        5_000_000, ge=1, le=1_000_000_000, description="Most cables of one list; a larger one gets a 422."
    )
    shutdown_drain: float = Field(
        1.0,
        ge=0,
        le=600,
        description="Seconds that requests are still taken after SIGTERM, while `/readyz` says 503 and answers close "
        "their connections.",
    )
    shutdown_grace: int = Field(
        20, ge=0, le=3600, description="Seconds that requests in flight get to finish after that."
    )

    @field_validator("cors_origins", "embed_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("embed_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [origin for origin in value if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d+)?", origin)]
        if wrong:
            raise ValueError(f"{wrong[0]} is not a site; write it as https://wiki.example")
        return value

    @field_validator("overrides")
    @classmethod
    def _is_folder(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_dir():
            raise ValueError(f"{value} is not a folder")
        return value


def load() -> Settings:
    """The settings of this process. Raises SettingsError when a variable is wrong or unknown."""
    variables = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    # A Kubernetes Service called railyard puts its own RAILYARD_PORT_… and RAILYARD_SERVICE_… into the environment.
    links = (f"{PREFIX}PORT_", f"{PREFIX}SERVICE_")
    unknown = [name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in variables]
    unknown = [name for name in unknown if not name.startswith(links)]
    if unknown:
        raise SettingsError(f"{', '.join(sorted(unknown))}: no such setting. There are {', '.join(sorted(variables))}.")
    try:
        return Settings()
    except ValidationError as error:
        lines = [
            f"{PREFIX}{'_'.join(map(str, item['loc'])).upper()}={item['input']!r}: "
            + item["msg"].removeprefix("Value error, ")
            for item in error.errors(include_url=False)
        ]
        raise SettingsError("\n".join(lines)) from None
