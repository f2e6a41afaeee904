"""The base of every configuration: frozen, and closed to keys that it does not know."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, FiniteFloat, model_validator

from innerloop.core.arguments import LARGEST
from innerloop.core.errors import unknown

STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
"""For pydantic dataclasses: learners are built with positional arguments, which models refuse."""


def _in_float32(value: float) -> float:
    if abs(value) > 3e38:
        raise ValueError("expected a number that float32 has, up to 3e38")
    return value


Float32 = Annotated[FiniteFloat, AfterValidator(_in_float32)]
"""A number that models are trained with: torch refuses larger ones, and does not say which."""


class Config(BaseModel):
    """A frozen pydantic model; a misspelt key is answered with the nearest valid one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: Any) -> Any:
        if isinstance(values, dict):
            for key in values:
                if key not in cls.model_fields:
                    raise ValueError(unknown(f"key of {cls.__name__}", str(key), cls.model_fields))
        return values

    @model_validator(mode="after")
    def _refuse_huge_numbers(self) -> Self:
        """Refuse whole numbers that torch cannot count to: it would not say which one it was."""
        for name, value in self:
            if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
                raise ValueError(f"{name} is too large, expected less than 2^63")
        return self
