"""What learners show of their states, through wrappers too."""

import pytest
import torch
from torch import Tensor

from innerloop.core.errors import NotSupportedError
from innerloop.core.prompt import Prompt
from innerloop.core.state_parts import HiddenStates, MovingPart

PROMPT = Prompt(xs=torch.ones(2, 3, 1), ys=torch.zeros(2, 3, 1))


def test_hidden_states_are_found_inside_the_states_of_a_wrapper() -> None:
    own: HiddenStates[Tensor] = HiddenStates(
        features=lambda prompt, state: state + prompt.points,
        input_tokens=lambda prompt: range(prompt.points),
        readout_inputs=lambda prompt, state: state * prompt.points,
    )
    wrapped: HiddenStates[tuple[int, Tensor]] = own.inside(lambda state: state[1])
    state = torch.ones(2)
    assert torch.equal(wrapped.features(PROMPT, (7, state)), state + 3)
    assert torch.equal(wrapped.readout_inputs(PROMPT, (7, state)), state * 3)
    assert list(wrapped.input_tokens(PROMPT)) == [0, 1, 2]


def test_what_cannot_be_replaced_says_why() -> None:
    part: MovingPart[Tensor] = MovingPart("Somebody", lambda state: state)
    assert part.get(torch.ones(1)) == 1
    with pytest.raises(NotSupportedError, match="Somebody cannot be moved by hand: its steps"):
        part.put(torch.ones(1), torch.zeros(1))
    another: MovingPart[Tensor] = MovingPart("Somebody", lambda state: state, refusal="no reason.")
    with pytest.raises(NotSupportedError, match="by hand: no reason"):
        another.put(torch.ones(1), torch.zeros(1))
