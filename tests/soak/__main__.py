"""Long campaigns: `python -m tests.soak flips 1000`, `python -m tests.soak kills 200`.

Each prints a table at its end, and ends with 1 where a fault went unnoticed.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.soak.flips import ACCEPTED, TRACEBACK, flips
from tests.soak.kills import kills


def main(campaign: str, count: int) -> int:
    """Run a campaign; 1 if something was accepted silently, lost or different."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if campaign == "flips":
            table = flips(count, Path(folder))
            bad = int(table[[ACCEPTED, TRACEBACK]].to_numpy().sum())
            summary = f"{count} flipped bits, {bad} accepted silently or ending in a traceback"
            print(table.to_string())
        else:
            table = kills(count, Path(folder))
            good = [
                equal and not left
                for equal, left in zip(table["equal"], table["debris"], strict=True)
            ]
            bad = len(good) - sum(good)
            where = ", ".join(
                f"{rows['kills'].sum()} {place}" for place, rows in table.groupby("where")
            )
            summary = f"{table['kills'].sum()} kills ({where}), {bad} rows not bit-equal"
            print(table.to_string(index=False))
    print(f"{summary}; {time.perf_counter() - began:.0f} seconds")
    return int(bad > 0)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("flips", "kills") or not sys.argv[2].isdecimal():
        sys.exit("give a campaign and a number: python -m tests.soak flips 1000")
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
