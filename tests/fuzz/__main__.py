"""`python -m tests.fuzz`: command lines and configurations by the thousand, and what they broke.

Each part is tried in a process of its own: what ends the process, or stops it, is counted as well.
"""

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PART = 500
"""Seeds of one process."""
SECONDS = 150
"""After which a command line that cannot even be interrupted ends its process."""
KINDS = ("command-lines", "configurations")


@dataclass(slots=True)
class Tally:
    """What became of the seeds that were tried."""

    endings: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def campaign(kind: str, seeds: range) -> Tally:
    """Try all seeds, part by part."""
    tally = Tally()
    first = seeds.start
    while first < seeds.stop:
        known = len(tally.failures)
        first = _part(kind, range(first, min(first + PART, seeds.stop)), tally)
        for failure in tally.failures[known:]:
            print(f"\n{failure}\n")
        print(f"{kind}: {first - seeds.start} tried, {len(tally.failures)} failed", flush=True)
    return tally


def _part(kind: str, seeds: range, tally: Tally) -> int:
    """Try seeds in another process; the first that it has not tried."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder, "notes.jsonl")
        words = [kind, str(seeds.start), str(seeds.stop), str(notes)]
        ended = subprocess.run([sys.executable, "-m", "tests.fuzz", "part", *words])
        rows = [json.loads(line) for line in notes.read_text().splitlines()]
    ends = [row for row in rows if "ending" in row]
    tally.endings.update(row["ending"] for row in ends)
    tally.failures += [row["failure"] for row in ends if row["failure"]]
    if ended.returncode == 0:
        return seeds.stop
    tally.endings["the process ended"] += 1
    tally.failures.append(f"the process ended with {ended.returncode} at {rows[-1]}")
    return seeds.start + len(ends) + 1


def _cause(failure: str) -> str:
    """The last line of a failure, which is the error itself."""
    return failure.rstrip().split("\n")[-1][:200]


def try_part(kind: str, seeds: range, notes: Path) -> None:
    """Try seeds in this process, and note each before and after."""
    # Imported by the processes that need it: the one that starts them shall not hold torch.
    import torch
    from hypothesis import strategies as st

    from tests.fuzz import checking
    from tests.fuzz.command_lines import command_lines
    from tests.fuzz.configurations import files

    torch.set_num_threads(1)
    faulthandler.enable()
    with notes.open("a", buffering=1) as file:

        def write(**values: Any) -> None:
            file.write(json.dumps(values) + "\n")

        def noted(check: Any, *arguments: Any) -> None:
            write(tried=repr(arguments)[:1000])
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                ending = check(*arguments)
                how = f"exit code {ending.code}" + (", interrupted" * ending.interrupted)
                write(ending=how, failure="")
            except AssertionError as error:
                write(ending="failed", failure=str(error))
            finally:
                faulthandler.cancel_dump_traceback_later()

        if kind == "command-lines":
            checking.try_many(
                command_lines(), lambda line: noted(checking.check_command_line, line), seeds=seeds
            )
        else:
            checking.try_many(
                st.tuples(files(), st.sampled_from(checking.READERS)),
                lambda pair: noted(checking.check_configuration, *pair),
                seeds=seeds,
            )


def main() -> None:
    """Read how much to try, try it, and end with 1 if something failed."""
    if sys.argv[1:2] == ["part"]:
        kind, first, last, notes = sys.argv[2:]
        try_part(kind, range(int(first), int(last)), Path(notes))
        return
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N", help="how many to try")
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    given = vars(parser.parse_args())
    os.environ.update(MPLBACKEND="Agg", OMP_NUM_THREADS="1")
    failed = False
    for kind in KINDS:
        number = given[kind.replace("-", "_")]
        tally = campaign(kind, range(given["seed"], given["seed"] + number))
        for cause, times in Counter(map(_cause, tally.failures)).items():
            print(f"{times} times: {cause}")
        if number:
            print(f"{kind}: {json.dumps(tally.endings)}")
        failed |= bool(tally.failures)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
