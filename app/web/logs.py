"""Logs as JSON lines on standard output, one event a line."""

import logging
import sys
from datetime import UTC, datetime

import orjson


class JsonLines(logging.Formatter):
    """A log record as one JSON object; `extra={"fields": {…}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event |= getattr(record, "fields", {})
        if record.exc_info:
            event["error"] = self.formatException(record.exc_info)
        return orjson.dumps(event, default=str).decode()


class TextLines(logging.Formatter):
    """A log record for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = getattr(record, "fields", {})
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        text = " ".join(
            [clock, record.levelname.lower(), record.getMessage(), *(f"{k}={v}" for k, v in fields.items())]
        )
        return text + ("\n" + self.formatException(record.exc_info) if record.exc_info else "")


def set_up(level: str, form: str = "json") -> None:
    """Send everything, the server's own messages too, through the one formatter."""
    text = form == "text" or (form == "auto" and sys.stdout.isatty())
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(TextLines() if text else JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True
