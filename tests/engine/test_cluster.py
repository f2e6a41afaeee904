"""Sweeps on a real Ray cluster of two nodes, of which one is killed; all bits are as at home."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.engine.board import Progress
from innerloop.engine.cluster import RayCluster
from innerloop.engine.run import run_jobs
from innerloop.engine.sweep import Sweep, make_sweep
from innerloop.training import Store, recipe
from tests.engine.ray_cluster import MEMORY, local_cluster
from tests.engine.test_run import job
from tests.engine.works import Doing, hold

pytest.importorskip("ray", reason="Ray is not installed: pip install 'innerloop[ray]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),  # of Ray itself
]

BASE = recipe("looped-linear", scale="smoke", steps=12, batch=4, log_every=1, save_every=5)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster whose head has one CPU; tests add nodes and take them away."""
    with local_cluster() as made:
        yield made


def grid(root: Path) -> Sweep:
    """Sixteen runs."""
    words = ["task.noise=0,0.1,0.3,0.5"]
    return make_sweep("looped-linear", BASE, words, seeds=range(4), store=Store(root))


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs, trained in this process."""
    root = tmp_path_factory.mktemp("home")
    assert set(grid(root).run()["state"]) == {"finished"}
    return root


def assert_same(root: Path, at_home: Path) -> None:
    names = {path.name for path in at_home.iterdir()}
    assert {path.name for path in root.iterdir()} == names
    for name in names:
        for file in ("weights.safetensors", "metrics.jsonl", "config.json"):
            assert (root / name / file).read_bytes() == (at_home / name / file).read_bytes()


def training(progress: Progress) -> int:
    """How many runs have reported a step."""
    return sum("%" in line for line in progress.running)


def test_all_runs_finish_where_a_node_is_killed(
    cluster: Any, at_home: Path, tmp_path: Path
) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    sweep, word = grid(tmp_path / "runs"), tmp_path / "word"
    jobs = [hold(job, word) for job in sweep.jobs()]

    def kill(progress: Progress) -> None:
        if training(progress) == 2 and not word.exists():  # one on each node
            cluster.remove_node(node, allow_graceful=False)
            word.touch()

    table = sweep.run(jobs, cluster=RayCluster(address=cluster.address), listener=kill)
    assert word.exists()
    assert list(table["state"]) == 16 * ["finished"], list(table["reason"])
    assert_same(tmp_path / "runs", at_home)


def test_runs_come_back_from_nodes_that_do_not_see_the_store(
    cluster: Any, at_home: Path, tmp_path: Path
) -> None:
    root, word = tmp_path / "runs", tmp_path / "word"
    sweep = grid(root)
    jobs = [hold(job, word) for job in sweep.jobs()]
    seen: list[int] = []

    def hide(progress: Progress) -> None:
        """Take the sign away by which a node would know the folder, before one can look."""
        for sign in root.glob(".seen-*"):
            sign.unlink()
        seen.append(len(list(root.glob("*/config.json"))) if training(progress) else 0)

    def stop() -> bool:
        return any("%" in job.doing for job in jobs)

    settings = RayCluster(address=cluster.address)
    table = sweep.run(jobs, cluster=settings, listener=hide, stop=stop)
    assert max(seen) == 0, "it was trained elsewhere"
    # Usually one: Ray lends the CPU of a job to the next while the first waits for an answer.
    assert set(table["state"]) == {"not trained", "stopped"}
    assert max(table["steps"]) == 1, "what was trained until then has come back"
    word.touch()
    table = grid(root).run(cluster=settings, listener=hide)
    assert list(table["state"]) == 16 * ["finished"], list(table["reason"])
    assert_same(root, at_home)


def test_failures_say_why(cluster: Any, tmp_path: Path) -> None:
    good = job(Doing(tmp_path / "good"), "good")
    bad = job(Doing(tmp_path / "bad", "raises"), "bad")
    dies = job(Doing(tmp_path / "dies", "killed"), "dies")
    settings = RayCluster(address=cluster.address, retries=0)
    ended = {one.name: one.error for one in run_jobs([good, bad, dies], cluster=settings)}
    assert ended["good"] == ""
    assert ended["bad"] == "it cannot be done: do something else."
    assert "killed twice" in ended["dies"]
    assert len((tmp_path / "dies").read_text().split()) == 2


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "head:x", "127.0.0.1:1"])
def test_an_address_where_no_cluster_is_is_refused_at_once(address: str, tmp_path: Path) -> None:
    with pytest.raises(InnerloopError, match="address"):
        grid(tmp_path).run(cluster=RayCluster(address=address))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"cpus_per_run": 99}, "no node of the cluster has 99 CPUs"), ({"gpus_per_run": 1}, "1 GPUs")],
)
def test_what_no_node_has_is_refused_at_once(
    cluster: Any, tmp_path: Path, settings: dict[str, float], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        grid(tmp_path).run(cluster=RayCluster(address=cluster.address, **settings))  # pyright: ignore
