"""Log topics: `set_logs(recompiles=True)` or `CDYNAMO_LOGS=recompiles,graph_breaks`."""

from __future__ import annotations

import logging
import os

from cdynamo import _C

TOPICS: dict[str, str] = dict(_C.topics())

_LOGGER = logging.getLogger("cdynamo")


def set_logs(**topics: bool) -> None:
    """Turns log topics on or off; topics that are not named stay as they are.

    Messages go to the loggers `cdynamo.<topic>` at level INFO. Where logging has not been configured, they are written
    to standard error.

    Raises ValueError for an unknown topic and TypeError where the value is no bool.
    """
    for topic, enabled in topics.items():
        if topic not in TOPICS:
            raise ValueError(f"unknown log topic {topic!r}; there are {', '.join(TOPICS)}")
        if not isinstance(enabled, bool):
            raise TypeError(f"set_logs({topic}=...) takes a bool, not {type(enabled).__name__}")
    for topic, enabled in topics.items():
        _C.set_log(topic, enabled)
        logging.getLogger(f"cdynamo.{topic}").setLevel(logging.INFO if enabled else logging.NOTSET)
    if any(topics.values()) and not _LOGGER.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        _LOGGER.addHandler(handler)


def set_logs_from_environment() -> None:
    """Reads CDYNAMO_LOGS, a comma-separated list of topics. Unknown ones are warned of."""
    names = [name.strip() for name in os.environ.get("CDYNAMO_LOGS", "").split(",") if name.strip()]
    known = {name: True for name in names if name in TOPICS}
    if known:
        set_logs(**known)
    for name in names:
        if name not in TOPICS:
            _LOGGER.warning("CDYNAMO_LOGS: unknown log topic %r; there are %s", name, ", ".join(TOPICS))


def log_record(
    logger: logging.Logger, level: int, message: object, args: tuple[object, ...], file: str, line: int, function: str
) -> None:
    """What `Logger._log` does, for a record that compiled code has in place of the user's frame."""
    logger.handle(logger.makeRecord(logger.name, level, file, line, message, args, None, function, None, None))
