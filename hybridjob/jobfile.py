"""Read a job file with its overrides, and tell a person what is wrong with it."""

from __future__ import annotations

import difflib
import textwrap
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from pydantic import BaseModel, ValidationError
from tomlkit.exceptions import TOMLKitError

from hybridjob.config import Job
from hybridjob.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails


def load_job(path: Path, overrides: Sequence[str] = ()) -> Job:
    """Read and check a job file.

    overrides: `key.path=value`, the value in TOML's words or a bare string.
    Raises ConfigError that lists every mistake with its key.
    """
    return parse_job(read_values(path, overrides), source=str(path))


def read_values(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Read what a job file and its overrides say, unchecked but for TOML's own rules."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the job file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the job file {path} is not UTF-8 text: {error}") from error
    try:
        values: dict[str, Any] = tomlkit.parse(text).unwrap()
    except TOMLKitError as error:
        raise ConfigError(f"the job file {path} is no TOML: {error}") from error
    for override in overrides:
        apply_override(values, override)
    return values


def parse_job(values: Mapping[str, Any], *, source: str) -> Job:
    """Check a job file's values; `source` names where they come from in the error."""
    try:
        return Job.model_validate(values)
    except ValidationError as error:
        lines = [f"  {_explain(details)}" for details in error.errors()]
        plural = "mistake" if len(lines) == 1 else "mistakes"
        raise ConfigError("\n".join([f"{source}: {len(lines)} {plural}", *lines])) from error


def dump_job(job: Job) -> str:
    """Write the resolved job file: all that was given or assumed, as TOML."""
    return tomlkit.dumps(job.model_dump(mode="json", exclude_none=True))


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set one `key.path=value` in place. Raises ConfigError naming the override."""
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"override {override!r}: write it as key.path=value")
    target: Any = values
    for depth, key in enumerate(keys[:-1]):
        target = _descend(target, key, where=".".join(keys[: depth + 1]), override=override)
    if isinstance(target, list):
        target[_list_index(target, keys[-1], path, override)] = _parse_value(text.strip())
    else:
        target[keys[-1]] = _parse_value(text.strip())


def _descend(target: Any, key: str, *, where: str, override: str) -> Any:
    if isinstance(target, list):
        return target[_list_index(target, key, where, override)]
    inner = target.setdefault(key, {})
    if not isinstance(inner, dict | list):
        raise ConfigError(f"override {override!r}: {where} is a value, it has no keys below it")
    return inner


def _list_index(target: list[Any], key: str, where: str, override: str) -> int:
    if not key.isdigit() or int(key) >= len(target):
        raise ConfigError(
            f"override {override!r}: {where} must be an index below {len(target)} of that list"
        )
    return int(key)


def _parse_value(text: str) -> Any:
    try:
        return tomlkit.value(text).unwrap()
    except (TOMLKitError, ValueError):
        return text  # a bare word is a string: trainer.partition=gpu


def _explain(details: ErrorDetails) -> str:
    location = details["loc"]
    where = _dotted(location)
    given = details["input"]
    match details["type"]:
        case "extra_forbidden":
            return f"{where}: no such key (given: {_short(given)}).{_nearest(location)}"
        case "missing":
            return f"{where}: is missing"
        case "value_error":
            message = str(details["ctx"]["error"]) if "ctx" in details else details["msg"]
        case _:
            message = details["msg"][0].lower() + details["msg"][1:]
    return f"{where or 'job file'}: {message}{_given(given)}"


def _given(value: Any) -> str:
    # A whole section in the message would bury what it says.
    return "" if isinstance(value, dict | BaseModel) else f" (given: {_short(value)})"


def _short(value: Any) -> str:
    return textwrap.shorten(repr(value), 60, placeholder="...")


def _dotted(location: Sequence[int | str]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _nearest(location: Sequence[int | str]) -> str:
    keys = _keys_at(location[:-1])
    close = difflib.get_close_matches(str(location[-1]), keys, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {_dotted([*location[:-1], close[0]])}?"
    return f" Valid keys: {', '.join(sorted(keys))}" if keys else ""


def _keys_at(location: Sequence[int | str]) -> list[str]:
    models: list[type[BaseModel]] = [Job]
    for part in location:
        if isinstance(part, str):
            inner = [
                found
                for model in models
                if part in model.model_fields
                for found in _models_in(model.model_fields[part].annotation)
            ]
            models = inner or models  # pydantic puts the tag of a union in the location too
    return sorted({key for model in models for key in model.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, types.GenericAlias | types.UnionType) or typing.get_args(annotation):
        return [model for arg in typing.get_args(annotation) for model in _models_in(arg)]
    return []
