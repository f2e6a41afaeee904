"""Trainings killed at random moments and inside writes, resumed, and compared bit for bit.

Alone, in the processes of a sweep, and in those of a Ray cluster, where Ray is installed.
"""

import os
import random
import signal
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from innerloop.engine.cluster import RayCluster
from innerloop.engine.sweep import Sweep, make_sweep
from innerloop.training.store import Store
from tests.engine.ray_cluster import MEMORY, local_cluster
from tests.soak.mortal import doomed
from tests.training import children
from tests.training.test_resume import config, kill_at, same_state

MOMENTS = ("any", "step", "any", "state", "between", "any", "line")
"""When a process dies: at any time, or at one of the moments of test_resume."""
PER_RUN = 5
"""Kills before a run that is trained alone is left to finish."""
SEEDS = (0, 1, 2, 3)
"""The runs of a sweep."""
ON_RAY = 2
"""Deaths of each run on a cluster; in a sweep of processes a second one is a failure."""
FILES = ("weights.safetensors", "metrics.jsonl", "config.json")


def kills(count: int, root: Path, *, seed: int = 2024) -> pd.DataFrame:
    """Kill so many times or a few more; one row per run or sweep: did it end as one left alone.

    Three fifths of them are trainings by themselves, the others in sweeps: half of those on a
    cluster, where Ray is installed.
    """
    draw = random.Random(seed)
    on_ray = count // 5 if find_spec("ray") is not None else 0
    in_sweeps = 2 * count // 5 - on_ray
    rows = _alone(count - in_sweeps - on_ray, root / "alone", draw)
    if in_sweeps or on_ray:
        whole = _sweep(root / "whole-sweep")
        assert set(whole.run()["state"]) == {"finished"}
    while _killed_in(rows, "sweep") < in_sweeps:
        rows.append(_swept("sweep", 1, root / f"sweep-{len(rows)}", root / "whole-sweep", draw))
    if on_ray:
        with local_cluster() as cluster:
            cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
            there = RayCluster(address=cluster.address)
            while _killed_in(rows, "Ray") < on_ray:
                place = root / f"sweep-{len(rows)}"
                rows.append(_swept("Ray", ON_RAY, place, root / "whole-sweep", draw, there))
    return pd.DataFrame(rows)


def _killed_in(rows: list[dict[str, object]], where: str) -> int:
    return sum(int(str(row["kills"])) for row in rows if row["where"] == where)


def _alone(count: int, root: Path, draw: random.Random) -> list[dict[str, object]]:
    """Kill trainings, one after the other."""
    whole = Store(root / "whole").train(config())
    rows: list[dict[str, object]] = []
    while (left := count - _killed_in(rows, "alone")) > 0:
        store = Store(root / f"run-{len(rows)}")
        moments: Counter[str] = Counter()
        for _ in range(min(PER_RUN, left)):
            moment = draw.choice(MOMENTS)
            if _killed(moment, store.root, draw) == -signal.SIGKILL:
                moments[moment] += 1
        done = store.train(config())
        rows.append(_row("alone", moments, [(done.path, whole.path)]))
    return rows


def _row(
    where: str, moments: Counter[str], pairs: list[tuple[Path, Path]], finished: bool = True
) -> dict[str, object]:
    """What became of runs, each beside the same one that nobody has killed."""
    debris = [
        len({path.name for path in done.iterdir()} - {path.name for path in whole.iterdir()})
        for done, whole in pairs
    ]
    return {
        "where": where,
        "kills": moments.total(),
        "moments": ", ".join(f"{times} {moment}" for moment, times in sorted(moments.items())),
        "equal": finished and all(_same(*pair) for pair in pairs),
        "debris": sum(debris),
    }


def _same(done: Path, whole: Path) -> bool:
    same = all((done / name).read_bytes() == (whole / name).read_bytes() for name in FILES)
    return same and same_state(done, whole)


def _killed(moment: str, root: Path, draw: random.Random) -> int | None:
    """Train in a process of its own that dies at a moment; how it ended."""
    if moment != "any":
        return kill_at(moment, root, draw)
    child = children.start(children.train_slowly, root, config().model_dump_json())
    # The time is what is drawn here: whatever the process is doing by then.
    time.sleep(draw.uniform(0.0, 2.0))
    assert child.pid is not None
    if child.is_alive():
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    return child.exitcode


def _sweep(root: Path) -> Sweep:
    return make_sweep("mortal", config(), [], seeds=SEEDS, store=Store(root))


def _swept(
    where: str,
    deaths: int,
    root: Path,
    whole: Path,
    draw: random.Random,
    cluster: RayCluster | None = None,
) -> dict[str, object]:
    """Train a sweep in two processes, or on a cluster, in which each run dies so many times."""
    sweep = _sweep(root / "runs")
    jobs = [
        doomed(job, root / "orders" / str(number), deaths, draw)
        for number, job in enumerate(sweep.jobs())
    ]
    orders = {path: path.read_text().split()[0] for path in root.glob("orders/*/*")}
    table = sweep.run(jobs, workers=2, cluster=cluster)
    moments = Counter(moment for path, moment in orders.items() if not path.exists())
    pairs = [(root / "runs" / path.name, path) for path in sorted(whole.iterdir())]
    finished = set(table["state"]) == {"finished"}
    return _row(where, moments, pairs if finished else [], finished)
