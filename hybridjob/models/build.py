"""Call the model's factory, and say plainly what is wrong if it fails."""

from __future__ import annotations

import dataclasses
import importlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hybridjob.errors import ModelError
from hybridjob.schema import Schema, Table

if TYPE_CHECKING:
    from hybridjob.config import Model

Factory = Callable[..., tuple[nn.Module, Sequence[Table]]]


def build_model(model: Model, schema: Schema, *, seed: int) -> tuple[nn.Module, list[Table]]:
    """Make the dense module and the declaration of its tables, the same on every rank.

    The module is called as module(dense, features): dense (B, F) float32; features: feature name
    -> (B, D) pooled rows. Raises ModelError that names the factory and the user's own line.
    """
    factory = _find(model.path)
    torch.manual_seed(seed)
    try:
        made = factory(schema, **model.options)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise ModelError(
            f"the model factory {model.path} failed: {type(error).__name__}: {error}"
            f"{line_of(error)}"
        ) from error
    module, tables = _checked(made, model.path)
    return module, [
        dataclasses.replace(table, data_type=table.data_type or model.table_data_type)
        for table in tables
    ]


def _find(path: str) -> Factory:
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ModelError(
            f"cannot import the model factory {path}: {error}. It is looked for on PYTHONPATH, in "
            "the folder you submit from and beside the job file"
        ) from error
    except Exception as error:
        raise ModelError(
            f"importing the model factory {path} failed: {type(error).__name__}: {error}"
            f"{line_of(error)}"
        ) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ModelError(f"the module {module_name} has no function {name!r}")
    return factory  # type: ignore[no-any-return]


def line_of(error: BaseException) -> str:
    """Give ` (file:line)` of the user's own code that raised, or nothing if none did."""
    torch_folder = str(Path(torch.__file__).parent)
    ours = str(Path(__file__).parent.parent)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((torch_folder, ours, "<"))
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _checked(made: Any, path: str) -> tuple[nn.Module, list[Table]]:
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], nn.Module):  # noqa: PLR2004
        raise ModelError(
            f"the model factory {path} must return (module, tables), not a {type(made).__name__}"
        )
    module, tables = made[0], list(made[1])
    wrong = [table for table in tables if not isinstance(table, Table)]
    if wrong or not tables:
        raise ModelError(
            f"the model factory {path} must declare at least one hybridjob.Table, and nothing else"
            + (f": it declared {wrong[0]!r}" if wrong else "")
        )
    names = [table.name for table in tables]
    features = [name for table in tables for name in table.feature_names]
    for kind, values in (("table", names), ("feature", features)):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ModelError(f"the model factory {path} declares the {kind} {twice[0]!r} twice")
    return module, tables
