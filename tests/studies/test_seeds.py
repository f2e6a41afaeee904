"""Seeds as text, and back."""

import pytest

from innerloop.core.errors import ConfigurationError
from innerloop.studies.seeds import Seeds, read_seeds, write_seeds


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", (0,)), ("3", (0, 1, 2)), ("3-5", (3, 4, 5)), ("7-7", (7,))]
)
def test_a_number_or_the_first_and_the_last(text: str, seeds: Seeds) -> None:
    assert read_seeds(text) == seeds
    assert write_seeds(seeds) == text


@pytest.mark.parametrize("text", ["0", "-1", "", "5-3", "a", "1,2", "1-", "²"])
def test_what_names_no_seeds_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="as 3-5"):
        read_seeds(text)
