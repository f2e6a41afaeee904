"""A head that takes what stands in the next token of a stream, and finds out whether there is one.

In full attention a token sees its successor. The last token has none, and a plain copy by place
would give it the nearest place instead: itself. Here the start token, which holds nothing, offers
itself to all at a score of -1/2, between the 0 of the right place and the -1 of its neighbours.
"""

from collections.abc import Mapping

from innerloop.circuits.parts import Head
from innerloop.circuits.positions import SATURATED, Places
from innerloop.circuits.residual import Affine, Slot, constant, join


def take_next(
    places: Places, start: Slot, *, values: Mapping[Slot, Affine], follows: Slot, says: str
) -> Head:
    """Values of the next token, and 1 in `follows`; zeros at the last token and at the start.

    `start` holds 1 at the start token, where the values must be 0, and 0 elsewhere.
    """
    # The start token's own score is -t^2, with t = own + 1: t^2 - 1/2 lifts it to -1/2, and for
    # the start token itself 1 more does so above its successor.
    square = places.square + 2.0 * places.index + constant(1.0)
    lift = square - constant(0.5) + start
    return Head(
        # The gaps are 1/2: twice the temperature of other copies.
        query=2 * SATURATED * join(places.looking_back(-1), lift),
        key=join(places.keys(), start),
        values={**values, follows: constant(1.0) - start},
        says=says,
    )
