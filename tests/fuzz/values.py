"""Values that are small and right, and values that are not."""

import math

from hypothesis import strategies as st

LONG = "long" * 75
"""300 characters: more than the name of a file may have."""
TEXTS = (
    "", " ", "x", "-", "--", "null", "true", "nan", "1e5", "0x10", "1_000", "1:30", "2024-01-01",
    "=", "a=b", "a.b", ".", "..", "/", "//", "../../up", "~", "*", "[red]", "[/]", "[", "[1, 2",
    "{", "{a: 1}", "[[1, 2], [3]]", "1,2,3", ",", ":", "a:b", "os:system", "json:loads", "${x}",
    "???", "%s", "$a_$", "<b>", "\n", "a\nb", "\t", "\x1b[31mred", "\x07", "ü²", "日本",
    "\u202eleft", "\udcff", LONG, f"{LONG}/{LONG}", "a" * 5000, "[" * 3000, "9" * 5000,
)  # fmt: skip
"""What means something to a shell, a terminal, YAML, a file system or Rich, and nothing to us."""

small_integers = st.integers(1, 4)
small_numbers = st.sampled_from((0.01, 0.1, 0.5, 1.0, 2.0))
hostile_integers = st.sampled_from(
    (0, -1, -(2**63), 1000, 10**6, 10**8, 10**9, 2**31, 2**63 - 1, 2**63, 10**20, 10**400)
)
hostile_numbers = st.sampled_from(
    (
        0.0, -0.0, -1.0, 0.9999999999999999, 2.5, 1e16, 1e30, 1e300, -1e300, 1e-30, 1e-300, 5e-324,
        math.nan, math.inf, -math.inf,
    )
)  # fmt: skip
hostile_texts = st.one_of(
    st.sampled_from(TEXTS),
    st.text(st.characters(exclude_categories=["Cc"]), max_size=8),
)
json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), small_integers, hostile_integers, small_numbers, hostile_numbers,
        st.sampled_from(TEXTS), st.text(max_size=5),
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3), st.dictionaries(st.text(max_size=5), parts, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
"""Any value that JSON can hold, and NaN and infinity, which Python's JSON has as well."""
