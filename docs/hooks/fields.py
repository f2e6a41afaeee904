"""Settings in the API pages: what pydantic's `Field(..)` says of each, and its default."""

import ast
from typing import Any

import griffe


class Fields(griffe.Extension):
    """Shows `penalty: float = Field(default=0.1, description="..")` as penalty = 0.1, and why."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Take description and default of an attribute from its `Field`."""
        call = attr.value
        if not isinstance(call, griffe.ExprCall) or str(call.function) != "Field":
            return
        given = {
            argument.name: argument.value
            for argument in call.arguments
            if isinstance(argument, griffe.ExprKeyword)
        }
        attr.value = given.get("default")
        if "description" in given and attr.docstring is None:
            text = ast.literal_eval(str(given["description"]))
            attr.docstring = griffe.Docstring(text[:1].upper() + text[1:] + ".", parent=attr)
