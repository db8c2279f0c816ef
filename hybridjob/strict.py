"""The pydantic model that all sections of the job file share: frozen, unknown keys refused."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the job file. A text under a key is its documentation."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        coerce_numbers_to_str=True,  # `mem = 4000` and `time = 60` are how people write them
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )
