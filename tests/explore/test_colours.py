"""The colours of the page, as people with each kind of colour blindness see them."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import innerloop.explore

ASSETS = Path(str(innerloop.explore.__file__)).parent / "assets"
SEEN = {
    "by most": np.eye(3),
    "without red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "without green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "without blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
"""Machado, Oliveira and Fernandes (2009): linear red, green and blue, at full severity."""
# A distance of 2.3 can just be seen; ten is plain at a glance.
SOLID = ("model", "model2", "model3")
DASHED = ("descent", "newton", "ridge", "least")


def _linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255  # (3,)
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB, where distances are about as large as they look."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ linear.clip(0, 1) / np.array([0.9505, 1.0, 1.089])  # (3,)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def _schemes() -> list[dict[str, str]]:
    """The colours by name, light and dark."""
    style = (ASSETS / "style.css").read_text("utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("names", [SOLID, DASHED])
def test_lines_of_one_kind_differ_in_colour(seen: str, names: tuple[str, ...]) -> None:
    light, dark = _schemes()
    for scheme in (light, dark):
        for one, other in combinations(names, 2):
            pair = [_lab(SEEN[seen] @ _linear(scheme[name])) for name in (one, other)]
            assert np.linalg.norm(pair[0] - pair[1]) > 10, (one, other)


def test_algorithms_differ_in_their_dashes_as_well() -> None:
    dashes = re.findall(r'dash: "([\d ]+)"', (ASSETS / "race.js").read_text("utf-8"))
    assert len(set(dashes)) == len(DASHED)
