"""The settings that the programs of primitives share."""

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from innerloop.circuits.blueprint import Blueprint, ErrorBound
from innerloop.circuits.circuit import BoundedSettings, Positive
from innerloop.circuits.gelu import Form
from innerloop.circuits.primitives import Group
from innerloop.circuits.program import Program, Register
from innerloop.circuits.program_layers import program_blueprint

MOST = 100_000
"""Steps times dims squared: a step of Sherman-Morrison has some 2000 d^2 weights."""


class ProgramSettings(BoundedSettings):
    """What a program of primitives is made from: its norm, its form, and bounds on the data.

    A subclass writes the registers, the groups and the bound of a program whose first group comes
    before the steps, and which leaves its answer in the register f.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    algorithm: ClassVar[str]

    norm: Literal["pre", "mlp-only"] = Field(
        default="pre", description="pre: as GPT-2; mlp-only: as in Akyurek et al. (2022)"
    )
    form: Form = Field(default="tight", description="of products: four scales, or one as printed")
    largest_output: Positive | None = Field(
        default=None,
        description="the largest |y|; None: that of standard normal inputs and weights",
    )
    scale: Positive | None = Field(
        default=None, description="S of the products; None: the best of the float type"
    )
    norm_scale: Positive | None = Field(
        default=None, description="N of the norm; None: so large that it takes nothing away"
    )

    @model_validator(mode="after")
    def _check_size(self) -> "ProgramSettings":
        if self.steps * self.dims**2 > MOST:
            raise ValueError(
                f"{self.steps} steps in {self.dims} dimensions have layers of their own with too "
                f"many weights: take steps times dims squared of at most {MOST}"
            )
        return self

    @model_validator(mode="after")
    def _check_steps(self) -> "ProgramSettings":
        if not 1 <= self.steps < self.points:
            raise ValueError(
                f"{self.steps} steps of {self.points} points: each step takes one example, and the "
                "last point is no example, so take at least 1 and at most one fewer than points"
            )
        return self

    @abstractmethod
    def registers(self) -> tuple[Register, ...]:
        """The registers of the program."""

    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """The primitives, one group per layer."""

    @abstractmethod
    def error_after(self, step: int, unit: ErrorBound) -> ErrorBound:
        """The stated error after so many steps, where a product of operands up to 1 has `unit`."""

    @property
    def condition(self) -> str:
        """What the stated error needs beside the bounds; empty: nothing."""
        return ""

    def program(self) -> Program:
        """The registers and the groups, one layer each."""
        return Program(
            name=self.name, dims=self.dims, points=self.points, registers=self.registers(),
            groups=self.groups(), norm=self.norm, form=self.form, scale=self.scale,
            norm_scale=self.norm_scale,
        )  # fmt: skip

    def blueprint(self) -> Blueprint:
        """The program as layers."""
        program = self.program()
        return program_blueprint(
            program, source=self.source, algorithm=self.algorithm, pre=1, steps=self.steps,
            answer="f", bound=lambda step: self.error_after(step, program.unit_error),
            condition=self.condition, largest_input=self.input_bound,
            largest_output=self.output_bound,
        )  # fmt: skip

    @property
    def output_bound(self) -> float:
        """Products of standard normal inputs and weights are larger in about 1 of 1e6."""
        return 3 * self.input_bound if self.largest_output is None else self.largest_output
