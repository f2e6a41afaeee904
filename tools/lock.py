"""Write requirements.lock: every package of the tested environment, with the hash of its file.

`make lock` runs it. pip resolves as for an installation, and installs nothing.
"""

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"


def resolved() -> list[dict[str, Any]]:
    """What pip would install for development, with the versions of constraints.txt."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        pip = [sys.executable, "-m", "pip", "install", *words, "-c", "constraints.txt", ".[dev]"]
        subprocess.run(pip, check=True, cwd=ROOT)
        return json.loads(report.read_text())["install"]


def lines_of(packages: list[dict[str, Any]]) -> list[str]:
    """A line per package, but for the library itself; nothing says where its file comes from."""
    lines: list[str] = []
    for package in packages:
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        if name == "innerloop":
            continue
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{digest}")
    return sorted(lines)


def main() -> None:
    """Write the file."""
    python = ".".join(platform.python_version_tuple()[:2])
    header = [
        f"# The environment of the tests on {platform.system()}, {platform.machine()}, Python "
        f"{python}, with torch's CPU build.",
        "# python -m pip install --require-hashes -r requirements.lock",
        "# python -m pip install --no-deps -e .",
        "# Written by `make lock` from pyproject.toml and constraints.txt. Elsewhere, install with",
        "# constraints.txt.",
    ]
    LOCK.write_text("\n".join([*header, *lines_of(resolved())]) + "\n")


if __name__ == "__main__":
    main()
