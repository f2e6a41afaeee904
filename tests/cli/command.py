"""The command line in tests: what it prints, and how it ends."""

import pytest

from innerloop.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, output and errors of `innerloop WORDS`."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def run_flat(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """The same, with output and errors in one line each: where lines break does not matter."""
    code, out, err = run(capsys, *words)
    return code, " ".join(out.split()), " ".join(err.split())
