"""Circuits told to people."""

from innerloop.circuits import compile
from innerloop.circuits.blueprint import Blueprint, Tokens
from innerloop.circuits.explain import layer_table, slot_table
from innerloop.circuits.parts import Head, Layer, Neurons
from innerloop.circuits.residual import Residual, constant, zeros


def test_every_head_and_group_of_neurons_has_a_row() -> None:
    blueprint = compile("newton-relu", dims=3, steps=4).blueprint
    rows = layer_table(blueprint)
    parts = [(row.layer, row.part) for row in rows]
    assert parts == [
        ("pre 0", "head 0"), ("pre 1", "head 0"), ("pre 1", "head 1"),
        ("loop 0", "head 0"), ("loop 0", "head 1"), ("loop 0", "mlp (6)"), ("loop 0", "mlp (6)"),
        ("post 0", "head 0"), ("post 0", "head 1"),
    ]  # fmt: skip
    step = rows[3]
    assert set(step.reads.split(", ")) == {"M x", "x of the example"}
    assert step.writes == "change"
    assert "M S M" in step.algebra
    assert all(row.reads and row.writes and row.algebra for row in rows)


def test_slots_are_told_with_their_places() -> None:
    blueprint = compile("newton-relu", dims=3, steps=4).blueprint
    rows = slot_table(blueprint)
    assert rows[:3] == [("x", 0, 3), ("y", 3, 1), ("place", 4, 2)]
    ends = [offset + size for _, offset, size in rows]
    assert [offset for _, offset, _ in rows] == [0, *ends[:-1]]
    assert ends[-1] == blueprint.residual.width


def test_steps_of_a_stack_are_numbered_and_zeros_are_not_reads() -> None:
    residual = Residual()
    x, y = residual.slot("x", 1), residual.slot("y", 1)
    head = Head(
        query=constant(1.0) + 0.0 * y, key=constant(1.0), values={y: x, x: zeros(1)}, says="head"
    )
    only = Neurons(inputs=y, outputs={}, constants={x: y.constant}, says="units")
    blueprint = Blueprint(
        name="stack", source="nobody", algorithm="none", dims=1, points=1, residual=residual,
        tokens=Tokens(inputs={}), body=(Layer(heads=(head,)), Layer(neurons=(only,))) * 2,
        steps=2, looped=False, answer=y,
    )  # fmt: skip
    rows = layer_table(blueprint)
    assert [row.layer for row in rows] == ["step 0.0", "step 0.1", "step 1.0", "step 1.1"]
    assert (rows[0].reads, rows[0].writes) == ("x", "y, x")
    assert (rows[1].reads, rows[1].writes, rows[1].part) == ("y", "x", "mlp (1)")
