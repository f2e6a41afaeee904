"""Translation: prompts, training on a made-up language, scores, and the command line."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from typer.testing import CliRunner

from innerloop.cli.main import app, main
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.data.reading import MissingDataError
from innerloop.language.quality import corpus_scores, resample_counts
from innerloop.language.scoring import cross_entropies, difference, score
from innerloop.language.tokenizer import BEGIN, END, PAD, SEPARATOR, Tokenizer
from innerloop.language.translation import Translation, translate
from innerloop.models.text import TextModel
from innerloop.training.config import RunConfig
from innerloop.training.run import Run
from innerloop.training.store import train
from tests.language.made_language import in_english, write_language

VOCABULARY = 400


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the made-up language in the place of multi30k."""
    folder = tmp_path_factory.mktemp("data")
    write_language(folder)
    return folder


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INNERLOOP_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="session")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An AlgoFormer that has learned the language."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNERLOOP_DATA", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return train(config(steps=400), store=tmp_path_factory.mktemp("runs"))


def config(*, steps: int) -> RunConfig:
    backbone = {
        "kind": "loop", "width": 48, "heads": 4, "loops": 3, "layers": 1, "pre": 1, "post": 0,
    }  # fmt: skip
    return RunConfig.model_validate({
        "task": Translation(vocabulary=VOCABULARY), "points": 20,
        "model": {"kind": "text", "pool": None, "tied": True, "backbone": backbone},
        "steps": steps, "batch": 32, "window": 2, "threads": 1, "label_smoothing": 0.05,
    })  # fmt: skip


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.usefixtures("here")
def test_a_prompt_is_german_then_english_and_english_counts() -> None:
    task = Translation(vocabulary=VOCABULARY)
    prompt = task.sample(16, 20, generator=generator())
    tokenizer = task.tokenizer()
    assert prompt.layout == "tokens"
    assert prompt.points <= 20
    assert prompt.scored is not None
    for xs, ys, scored in zip(prompt.xs[..., 0], prompt.ys[..., 0], prompt.scored, strict=True):
        read = [int(token) for token in xs if token != PAD]
        assert read[0] == BEGIN
        middle = read.index(SEPARATOR)
        german, english = tokenizer.decode(read[1:middle]), tokenizer.decode(read[middle + 1 :])
        assert english == in_english(german)
        asked = [int(token) for token in ys[scored]]
        assert asked == [*read[middle + 1 :], END]
        assert scored.nonzero()[0] == middle
        # Each y is the next x, as far as there is one.
        assert ys[: len(read) - 1].tolist() == xs[1 : len(read)].tolist()


@pytest.mark.usefixtures("here")
def test_runs_are_evaluated_on_the_validation_split() -> None:
    task = Translation(vocabulary=VOCABULARY)
    held_out = task.held_out(60, 20, generator=generator())
    tokenizer = task.tokenizer()

    def sentences(xs: torch.Tensor) -> set[str]:
        rows = [[int(token) for token in row] for row in xs[..., 0]]
        return {tokenizer.decode(row[1 : row.index(SEPARATOR)]) for row in rows}

    validation = {german for german, _ in task.pairs("val")}
    assert sentences(held_out.xs) == validation
    drawn = task.sample(500, 20, generator=generator())
    assert not sentences(drawn.xs) & validation
    assert torch.equal(held_out.xs, task.held_out(60, 20, generator=generator(5)).xs)


@pytest.mark.usefixtures("here")
def test_long_pairs_are_left_out_and_never_cut() -> None:
    task = Translation(vocabulary=VOCABULARY)
    short = task.sample(64, 8, generator=generator())
    assert short.points <= 8
    assert bool((short.ys[short.scored] == END).sum() == 64), "every translation has its end"
    with pytest.raises(ConfigurationError, match="take more points"):
        task.sample(4, 3, generator=generator())


@pytest.mark.usefixtures("here")
def test_batches_are_of_similar_lengths_and_the_same_every_time() -> None:
    task = Translation(vocabulary=VOCABULARY)
    batches = [task.sample(32, 20, generator=generator(seed)) for seed in range(8)]
    again = task.sample(32, 20, generator=generator(3))
    assert torch.equal(batches[3].xs, again.xs)
    padding = torch.cat([(batch.xs == PAD).flatten() for batch in batches]).double().mean()
    longest = max(batch.points for batch in batches)
    filled = sum(float((batch.xs != PAD).sum()) for batch in batches)
    plain = 1 - filled / (8 * 32 * longest)
    assert padding < plain / 2


@pytest.mark.usefixtures("here")
def test_a_limit_draws_the_same_pairs_for_anybody() -> None:
    task = Translation(vocabulary=VOCABULARY, limit=100)
    assert len(task.pairs("train")) == 100
    assert set(task.pairs("train")) < set(Translation().pairs("train"))
    assert len(task.pairs("val")) == 40


def test_data_that_are_not_there_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="innerloop data get multi30k"):
        Translation().sample(4, 20, generator=generator())
    with pytest.raises(ValidationError, match="multi30k"):
        Translation(dataset="multi30")


def test_it_learns_a_language(run: Run, here: Path) -> None:
    """New sentences: most of them right in every word, by loops and by beams alike."""
    model, tokenizer = run.model(), Tokenizer.from_text(run.read_tokenizer())
    assert isinstance(model, TextModel)
    pairs = run.task.pairs("test_2016_flickr") if isinstance(run.task, Translation) else []
    german, english = zip(*pairs, strict=True)
    for beams in (1, 3):
        written = translate(model, tokenizer, german, beams=beams)
        right = sum(one == other for one, other in zip(written, english, strict=True))
        assert right / len(pairs) > 0.5, list(zip(written, english, strict=True))[:5]


def test_scores_have_intervals_and_differences_are_paired(run: Run, here: Path) -> None:
    model, tokenizer = run.model(), Tokenizer.from_text(run.read_tokenizer())
    assert isinstance(model, TextModel)
    assert isinstance(run.task, Translation)
    pairs = run.task.pairs("val")
    whole = score(model, tokenizer, pairs, generator=generator())
    for each in (whole.bleu, whole.chrf, whole.cross_entropy):
        interval = each.interval
        assert interval.low <= interval.value <= interval.high
    nothing = difference(whole, whole)
    assert nothing.bleu.interval.low == nothing.bleu.interval.high == 0
    less = score(model, tokenizer, pairs, generator=generator(), loops=1)
    assert difference(less, whole).cross_entropy.interval.low > 0, "one loop of three is worse"


def test_what_is_too_long_for_a_model_counts_as_not_translated(run: Run, here: Path) -> None:
    model, tokenizer = run.model(), Tokenizer.from_text(run.read_tokenizer())
    assert isinstance(model, TextModel)
    assert isinstance(run.task, Translation)
    pairs = run.task.pairs("val")[:7]
    german, english = pairs[3]
    pairs[3] = (" ".join([german] * model.config.points), english)
    scores = score(model, tokenizer, pairs, generator=generator())
    assert [place for place, text in enumerate(scores.translations) if not text] == [3]


@torch.no_grad()
def test_the_cross_entropy_is_that_of_the_prompts(run: Run, here: Path) -> None:
    model, tokenizer = run.model(), Tokenizer.from_text(run.read_tokenizer())
    assert isinstance(model, TextModel)
    assert isinstance(run.task, Translation)
    pairs = run.task.pairs("val")[:7]
    losses, tokens = cross_entropies(model, tokenizer, pairs)  # (7,) each
    encoded = run.task.encoded("val")
    for place in range(7):
        prompt = encoded.prompt(torch.tensor([place]))
        state = model.init(prompt)
        for k in range(model.steps):
            state = model.step(prompt, state, k)
        assert prompt.scored is not None
        logs = model.outputs(prompt, state)[prompt.scored].log_softmax(-1)  # (t, V)
        right = prompt.ys[prompt.scored][:, 0].long()  # (t,)
        expected = -logs[range(len(right)), right].sum()
        assert float(losses[place]) == pytest.approx(float(expected), rel=1e-4)
        assert int(tokens[place]) == len(right)


def test_scores_are_those_of_sacrebleu() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    references = ["the dog runs through the snow .", "a man sits on a bench .", "two cats sleep ."]
    written = ["the dog runs in the snow .", "a man is sitting on a bench", "two cats sleep ."]
    times = resample_counts(3, generator=generator(), resamples=50)  # (50, 3)
    bleu = corpus_scores(written, references, "BLEU", times)
    chrf = corpus_scores(written, references, "chrF", times)
    assert bleu.value == pytest.approx(sacrebleu.corpus_bleu(written, [references]).score)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(written, [references]).score)
    drawn = [index for index in range(3) for _ in range(int(times[0, index]))]
    some = sacrebleu.corpus_bleu(
        [written[index] for index in drawn], [[references[index] for index in drawn]]
    )
    assert float(bleu.draws[0]) == pytest.approx(some.score)
    with pytest.raises(ConfigurationError, match="one per sentence"):
        corpus_scores(written[:2], references, "BLEU", times)


def test_a_run_translates_without_its_data(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runner = CliRunner()
    asked = ["der hund läuft schnell", "rot haus"]
    result = runner.invoke(app, ["translate", str(run.path), *asked])
    assert result.exit_code == 0, result.output
    model, tokenizer = run.model(), Tokenizer.from_text(run.read_tokenizer())
    assert isinstance(model, TextModel)
    assert result.output.splitlines() == translate(model, tokenizer, asked, beams=4)
    lines = runner.invoke(app, ["translate", str(run.path), "--beam", "4"], input="\n".join(asked))
    assert lines.output == result.output


def test_the_command_scores_a_split(run: Run, here: Path) -> None:
    words = ["translate", str(run.path), "--test", "val", "--beam", "1", "--against", str(run.path)]
    result = CliRunner().invoke(app, words[:6])
    assert result.exit_code == 0, result.output
    for word in ("40 sentences of val", "BLEU", "chrF", "cross-entropy"):
        assert word in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against", "RUN"], "give --test SPLIT as well"),
        (["Hallo", "--test", "val"], "leave the sentences out"),
        (["Hallo", "--beam", "0"], "beams is 0"),
        (["Hallo", "--loops", "0"], "loops is 0"),
        (["--test", "nowhere"], "nowhere"),
        (["hund " * 40], "shorter one"),
    ],
)
def test_mistakes_are_one_sentence(
    run: Run, here: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["translate", str(run.path), *words])
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_a_run_of_another_task_is_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = train(
        RunConfig.model_validate({
            "task": {"name": "linear", "dims": 2}, "points": 4, "steps": 1, "batch": 2,
            "model": {"backbone": {"kind": "stack", "width": 8, "heads": 1, "layers": 1}},
        }),
        store=tmp_path,
    )  # fmt: skip
    with pytest.raises(SystemExit):
        main(["translate", str(numbers.path), "Hallo"])
    assert "which is no translation" in capsys.readouterr().err
    copied = tmp_path / run.name
    shutil.copytree(run.path, copied)
    (copied / "tokenizer.json").unlink()
    with pytest.raises(InnerloopError, match="whole folder of a run"):
        Run.open(copied).read_tokenizer()


def test_the_tokenizer_of_a_run_is_json(run: Run) -> None:
    assert json.loads(run.read_tokenizer())["model"]["type"] == "BPE"
