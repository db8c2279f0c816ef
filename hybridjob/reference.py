"""Write docs/job-file.md from the job file's own classes: `python -m hybridjob.reference`."""

from __future__ import annotations

import inspect
import sys
import typing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from hybridjob.config import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_HEAD = """# The job file

Written from the code by `python -m hybridjob.reference`; a test keeps it true.

Every key can be set on the command line too: `key.path=value`, the value as TOML writes it or a
bare word, and a number for the place in a list: `data.numeric.0.transform=log1p`.
"""


_TYPE_NAMES = {
    bool: "true/false",
    dict: "table",
    float: "number",
    int: "whole number",
    str: "text",
    type(None): "",
}


def render_reference() -> str:
    """Give the reference as Markdown: a section a table of the job file, a line a key."""
    return _HEAD + "".join(_section("", Job))


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    title = f"[{path}]" if path else "Top of the file"
    yield f"\n## {title}\n\n{_prose(model)}\n"
    inner: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        key = f"{path}.{name}" if path else name
        if section := _section_in(field.annotation):
            inner.append((f"{key}[]" if _is_list(field.annotation) else key, section))
        else:
            yield _line(name, field)
    for key, section in inner:
        yield from _section(key, section)


def _prose(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _line(name: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else f"default `{_toml(field)}`"
    if field.default is None:
        default = "not given by default"
    text = f": {' '.join(field.description.split())}" if field.description else ""
    return f"- `{name}` ({_type(field.annotation)}; {default}){text}\n"


def _toml(field: FieldInfo) -> str:
    value = [] if field.default is PydanticUndefined else field.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(list(value) if isinstance(value, tuple) else value)


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if origin in (list, tuple):
        return f"list of {_type(arguments[0])}"
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin is not dict and arguments:
        return " or ".join(dict.fromkeys(name for one in arguments if (name := _type(one))))
    return _TYPE_NAMES.get(origin or annotation, "any value")


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_section_in(one) for one in typing.get_args(annotation))
    return next((one for one in found if one is not None), None)


def _is_list(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (list, tuple)


if __name__ == "__main__":
    sys.stdout.write(render_reference())
