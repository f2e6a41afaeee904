"""The arrows between the rooms of the library, and how large its files may grow.

The table is the map of docs/architecture.md: a room may import from itself and from the rooms
behind its arrow; the core is open to all. Change both together.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "innerloop"

BELOW_STUDIES = {
    "core", "data", "tasks", "learners", "models", "circuits", "training", "analysis", "language",
    "estimators", "engine",
}  # fmt: skip

ARROWS: dict[str, set[str]] = {
    "core": set(),
    "data": {"core"},
    "tasks": {"core", "data"},
    "learners": {"core"},
    "models": {"core"},
    "circuits": {"core", "models"},
    "estimators": {"core", "models"},
    "explore": {"core", "models", "circuits"},
    "training": {"core", "data", "tasks", "models", "language"},
    "engine": {"core", "data", "training"},
    "analysis": {"core", "tasks", "learners"},
    "language": {"core", "data", "models"},
    "studies": BELOW_STUDIES,
    "report": {"core", "analysis", "studies"},
    "cli": {*BELOW_STUDIES, "studies", "report", "explore"},
}
"""Room -> the rooms that it may import from."""

TOP = {"__init__": set(ARROWS), "__main__": {"cli"}}
"""The modules of the package itself."""

MODULE_LINES, FUNCTION_LINES = 400, 100


def modules(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the library, parsed; the path is relative to the package."""
    for path in sorted(source.rglob("*.py")):
        yield path.relative_to(source), ast.parse(path.read_text(), filename=str(path))


def imported(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of all that a module imports, wherever in it; relative ones resolved.

    `from a.b import c` gives a.b.c, since c may be a module.
    """
    package = ["innerloop", *path.parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = [*start, *(node.module or "").split(".")]
            for alias in node.names:
                name = ".".join(part for part in [*base, alias.name] if part)
                yield node.lineno, name


def against_the_arrows(source: Path) -> list[str]:
    """One sentence for each import that the table does not allow."""
    found: list[str] = []
    for path, tree in modules(source):
        top = len(path.parts) == 1
        room = path.stem if top else path.parts[0]
        allowed = TOP.get(room) if top else ARROWS.get(room)
        if allowed is None:
            found.append(f"{path}: {room} is not a room of the table")
            continue
        for line, name in imported(path, tree):
            parts = name.split(".")
            if parts[0] != "innerloop":
                continue
            target = parts[1] if len(parts) > 1 else ""
            if top and target in allowed:
                continue
            if target not in ARROWS:
                found.append(f"{path}:{line} imports {name}: the package itself, a cycle")
            elif target != room and target not in allowed:
                found.append(f"{path}:{line} imports {name}: {room} may not see {target}")
    return found


def body_lines(node: ast.AST) -> int:
    """The lines of a function without its docstring."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    assert node.end_lineno is not None
    first = node.body[0]
    documented = ast.get_docstring(node, clean=False) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return node.end_lineno - node.lineno + 1 - docstring


def plant(root: Path, files: dict[str, str]) -> Path:
    """A small package with the files given."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_imports_follow_the_arrows() -> None:
    assert against_the_arrows(SOURCE) == []


def test_the_table_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(ARROWS):
        ready = {room for room, below in ARROWS.items() if room not in done and below <= done}
        assert ready, f"a cycle among {sorted(set(ARROWS) - done)}"
        done |= ready


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert folders <= set(ARROWS)
    assert {"core", "tasks", "learners"} <= folders


def on_the_map() -> dict[str, list[str]]:
    """The files that docs/architecture.md names, as patterns, by room; folders end in a slash."""
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    block = text.split("```\nsrc/innerloop/\n")[1].split("\ntests/")[0]
    rooms: dict[str, list[str]] = {}
    room = ""
    for line in block.splitlines():
        if heading := re.match(r"  (\w+)/ ", line):
            room = heading[1]
        rooms.setdefault(room, []).extend(re.findall(r"(?<=[ ])[\w*]+(?:\.py|/)(?= |$)", line))
    return {room: [name for name in names if name != f"{room}/"] for room, names in rooms.items()}


def test_every_module_has_its_place_on_the_map() -> None:
    for room, patterns in on_the_map().items():
        if room == "cli":  # one file per verb
            continue
        files = {path.name for path in (SOURCE / room).glob("*.py")} - {"__init__.py"}
        files |= {f"{path.name}/" for path in (SOURCE / room).iterdir() if list(path.glob("*.py"))}
        lost = {file for file in files if not any(fnmatch(file, each) for each in patterns)}
        assert not lost, f"docs/architecture.md does not name {sorted(lost)} of {room}"
        gone = [each for each in patterns if not any(fnmatch(file, each) for file in files)]
        assert not gone, f"docs/architecture.md names {gone} in {room}, which are not there"
    assert set(on_the_map()) == set(ARROWS)


BAD_IMPORTS = {
    "upwards": ("core/prompt.py", "from innerloop.learners.ols import OLS"),
    "upwards, a room": ("core/prompt.py", "from innerloop import learners"),
    "upwards, plain": ("core/prompt.py", "import innerloop.learners.ols as ols"),
    "sideways": ("learners/ols.py", "from innerloop.tasks.linear import LinearRegression"),
    "the two sides of an equality": ("circuits/newton.py", "from innerloop.learners import Newton"),
    "relative": ("learners/ols.py", "from ..tasks import linear"),
    "relative, the package": ("learners/ols.py", "from .. import tasks"),
    "relative, nested": ("learners/deep/ols.py", "from ...tasks.linear import LinearRegression"),
    "inside a function": (
        "core/prompt.py", "def f():\n    from innerloop.cli.main import main\n    return main\n",
    ),
    "for types only": (
        "core/prompt.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from innerloop.tasks import x\n",
    ),
    "the package": ("learners/ols.py", "import innerloop"),
    "the package, renamed": ("learners/ols.py", "import innerloop as il"),
    "a name of the package": ("learners/ols.py", "from innerloop import Prompt"),
    "everything": ("learners/ols.py", "from innerloop import *"),
    "unknown room": ("garage/car.py", "import math"),
    "unknown module": ("helpers.py", "import math"),
    "the package's own door": ("__main__.py", "from innerloop.core import Prompt"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_IMPORTS)
def test_a_bad_import_is_caught(tmp_path: Path, kind: str) -> None:
    name, text = BAD_IMPORTS[kind]
    found = against_the_arrows(plant(tmp_path, {"core/task.py": "import math", name: text}))
    assert len(found) == 1
    assert found[0].startswith(name)


def test_good_imports_are_not_caught(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from innerloop import core\nfrom innerloop.core import Prompt",
        "__main__.py": "from innerloop.cli.main import main",
        "core/prompt.py": "from innerloop.core.errors import PromptError\nimport torch",
        "learners/ols.py": "from innerloop.core import Prompt\nfrom . import prefix\n"
        "from .prefix import grams\nfrom ..core import prompt",
        "learners/ridge.py": "from innerloop.learners import lasso",
        "circuits/gd.py": "from innerloop.models.block import Block\nfrom innerloop import core",
        "cli/main.py": "from innerloop.report import html\nimport innerloopish",
    }
    assert against_the_arrows(plant(tmp_path, files)) == []


LAZY = """from typing import TYPE_CHECKING
from innerloop.core.lazy import import_at_first_use
if TYPE_CHECKING:
    NAMES
__all__ = NAMES
import_at_first_use(__name__)"""
"""All that the `__init__` of a package has beside its docstring; one without names has nothing."""


def package_files() -> Iterator[tuple[Path, ast.Module]]:
    return ((path, tree) for path, tree in modules(SOURCE) if path.name == "__init__.py")


def names_of(tree: ast.Module) -> tuple[list[ast.stmt], list[str]]:
    """The imports under `if TYPE_CHECKING:`, and `__all__`; both are taken out of the tree."""
    imports: list[ast.stmt] = []
    listed: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.If):
            imports, node.body = node.body, [ast.Expr(ast.Name("NAMES"))]
        elif isinstance(node, ast.Assign):
            listed, node.value = ast.literal_eval(node.value), ast.Name("NAMES")
    return imports, listed


def test_package_files_list_names_and_nothing_else() -> None:
    for path, tree in package_files():
        assert ast.get_docstring(tree), f"{path} has no docstring"
        names_of(tree)
        rest = ast.unparse(ast.Module(tree.body[1:], []))
        assert rest in ("", LAZY), path


def test_package_files_list_what_they_import() -> None:
    for path, tree in package_files():
        imports, listed = names_of(tree)
        names = [
            alias.asname or alias.name
            for node in imports
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        assert sorted(listed) == sorted(names), path


def test_modules_stay_short() -> None:
    lengths = {path: len((SOURCE / path).read_text().splitlines()) for path, _ in modules(SOURCE)}
    assert lengths
    assert {path: lines for path, lines in lengths.items() if lines > MODULE_LINES} == {}


def test_functions_stay_short() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": body_lines(node)
        for path, tree in modules(SOURCE)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert lengths
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_docstrings_are_left_out_of_a_functions_length() -> None:
    tree = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    x = 1\n    return x\n')
    assert body_lines(tree.body[0]) == 3
    assert body_lines(ast.parse("def f():\n    return 1\n").body[0]) == 2


def test_the_core_imports_no_other_room() -> None:
    program = (
        "import sys, innerloop.core as core\n"
        "parts = [getattr(core, name) for name in core.__all__]\n"
        "print(*[name for name in sys.modules if name.startswith('innerloop.')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    assert "innerloop.core.prompt" in names
    assert {name.split(".")[1] for name in names} == {"core"}
