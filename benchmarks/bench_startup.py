"""Starting: the library and its command line against `import torch` alone.

In user time, which other work on the machine does not change; each start is a process of its own.
"""

import resource
import statistics
import subprocess
import sys

from benchmarks.timing import Row

REPEATS = 7
ALLOWED = 1.3
"""Times torch's own import that ours, with torch in it, may take."""

NAMES = (
    "import innerloop as il\n"
    "for name in il.__all__:\n"
    "    if not name.startswith('InContext'): getattr(il, name)"
)
ESTIMATOR = "import innerloop as il\nil.InContextRegressor()"
SCIKIT_LEARN = "import torch, sklearn.base"
"""An estimator of its kind needs it."""
LEARNER = "import innerloop as il\nil.learners.OLS(); il.tasks.LinearRegression(dims=5)"
HELP = "from innerloop.cli.main import main\nmain(['--help'])"


def run() -> list[Row]:
    """The whole of `innerloop`, and what a first experiment needs, beside `import torch`."""
    return [
        _compare("import innerloop, all names but estimators, import torch", NAMES, "import torch"),
        _compare("an estimator, import torch and scikit-learn", ESTIMATOR, SCIKIT_LEARN),
        _compare("a learner and a task, import torch", LEARNER, "import torch"),
        _compare("innerloop --help, import torch", HELP, "import torch"),
    ]


def _compare(name: str, ours: str, plain: str) -> Row:
    _user_seconds(ours)
    _user_seconds(plain)
    pairs = [(_user_seconds(ours), _user_seconds(plain)) for _ in range(REPEATS)]
    return Row(
        name=name,
        ours=statistics.median(pair[0] for pair in pairs),
        plain=statistics.median(pair[1] for pair in pairs),
        target=round(1 / ALLOWED, 2),
    )


def _user_seconds(program: str) -> float:
    """The user time of a program in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
