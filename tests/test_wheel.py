"""The wheel: built, and installed where there is nothing of the source."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = {
    "innerloop/py.typed", "innerloop/report/page.html.j2", "innerloop/report/page.js",
    "innerloop/explore/assets/transformer.js", "innerloop/explore/assets/page.html.j2",
    "innerloop/explore/assets/style.css",
}  # fmt: skip
"""What is not Python and must be there all the same."""


def call(*words: object, cwd: Path) -> str:
    """Run a program without this process's paths; its output."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the repository holds, so that nothing is left in it."""
    place = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "pyproject.toml", "README.md", "LICENSE", "src"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes((ROOT / name).read_bytes())
    # The setuptools of this environment: no network is needed.
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    call(sys.executable, "-m", "pip", "wheel", *options, "-w", "dist", ".", cwd=place)
    (built,) = (place / "dist").glob("innerloop-*.whl")
    return built


@pytest.mark.slow
def test_all_files_are_in_the_wheel(wheel: Path) -> None:
    source = ROOT / "src"
    modules = {str(path.relative_to(source)) for path in (source / "innerloop").rglob("*.py")}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert modules | DATA <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"innerloop"}


@pytest.mark.slow
def test_the_wheel_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    python, command = place / "bin" / "python", place / "bin" / "innerloop"
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
                     cwd=tmp_path).strip())  # fmt: skip
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    call(*pip, "install", "--no-deps", "--no-index", "--quiet", wheel, cwd=tmp_path)
    # What it depends on is taken from this environment, without what a .pth file there adds: an
    # editable install would put the source in the place of the wheel.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shown = call(python, "-c", "import innerloop; print(innerloop.__file__)", cwd=tmp_path)
    assert Path(shown.strip()).is_relative_to(site)
    assert call(command, "--version", cwd=tmp_path).startswith("innerloop ")
    assert (site / "innerloop" / "py.typed").is_file()
    assert "ridge" in call(command, "learners", cwd=tmp_path)
    program = "from innerloop.report import Page, write_page\nfrom pathlib import Path\n"
    call(python, "-c", program + "write_page(Page(title='T'), Path('page.html'))", cwd=tmp_path)
    assert "<title>T</title>" in (tmp_path / "page.html").read_text()
