"""Compare requirements.lock with the vulnerabilities that are known: `make audit`, by hand.

It ends with one sentence: nothing known (0), something known (1), or nobody could be asked (2).
"""

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "build" / "audit"
"""An environment of its own, so that ours stays as it is locked."""
PATIENCE = 900
"""Seconds for all answers."""


def asked() -> str:
    """What pip-audit says, as JSON."""
    venv.create(PLACE, with_pip=True)
    pip = [str(PLACE / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "pip-audit"], check=True, timeout=PATIENCE)
    words = ["--disable-pip", "--require-hashes", "-r", "requirements.lock", "--format", "json"]
    ended = subprocess.run(
        [str(PLACE / "bin" / "pip-audit"), *words, "--progress-spinner", "off"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    if not ended.stdout.strip():  # it exits with 1 in both cases
        raise OSError(ended.stderr.strip().split("\n")[-1])
    return ended.stdout


def summary(packages: list[dict[str, Any]]) -> tuple[int, str]:
    """The exit code, and the sentence about packages as pip-audit lists them."""
    known = [package for package in packages if package.get("vulns")]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    number = len(packages) - len(skipped)
    if not number:
        raise OSError("none of its packages could be looked up")
    beside = f" ({', '.join(skipped)} could not be looked up)" if skipped else ""
    if not known:
        return 0, f"no known vulnerability in {number} packages{beside}."
    names = "; ".join(
        f"{package['name']} {package['version']}: "
        + ", ".join(found["id"] for found in package["vulns"])
        for package in known
    )
    return 1, f"known vulnerabilities in {len(known)} of {number} packages{beside}: {names}."


def main() -> int:
    """Ask, and say what was answered."""
    try:
        code, sentence = summary(json.loads(asked())["dependencies"])
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        code = 2
        sentence = (
            f"requirements.lock was not compared with known vulnerabilities, as nobody answered "
            f"({error}): ask again where there is a network."
        )
    print(sentence)
    return code


if __name__ == "__main__":
    sys.exit(main())
