"""Texts as prompts: splits, batches by length, padding, learning, and runs that go on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import innerloop as il
from innerloop.cli.main import main
from innerloop.core.errors import ConfigurationError, InnerloopError
from innerloop.core.prompt import Prompt
from innerloop.data.reading import read_texts
from innerloop.language.accuracy import right_answers
from innerloop.language.bag_of_words import BagOfWords
from innerloop.language.classification import TextClassification, training_texts
from innerloop.language.texts import Encoded, draw_similar
from innerloop.language.tokenizer import BEGIN, UNKNOWN
from innerloop.training.config import RunConfig
from innerloop.training.run import StartOverError
from innerloop.training.store import Store
from tests.language.made import made_data, write_ag_news, write_csv

TASK = TextClassification(dataset="ag_news", vocabulary=500)


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with made_data(tmp_path_factory.mktemp("texts")) as folder:
        yield folder


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def config(**settings: object) -> RunConfig:
    backbone = {"kind": "loop", "loops": 2, "width": 16, "heads": 2, "mask": "full"}
    return RunConfig.model_validate(
        {
            "task": TASK, "points": 40, "model": {"kind": "text", "backbone": backbone},
            "steps": 60, "batch": 32, "evaluate_every": 30, "save_every": 20, **settings,
        }
    )  # fmt: skip


def test_the_form_is_known_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INNERLOOP_DATA", str(tmp_path))
    form = TASK.form
    assert (form.vocabulary, form.classes, form.asks_at_end, form.varies) == (500, 4, True, True)
    assert config().model.model_dump()["vocabulary"] == 500
    with pytest.raises(InnerloopError, match="innerloop data get ag_news"):
        TASK.sample(2, 10, generator=generator())


def test_no_text_is_trained_on_and_held_out() -> None:
    train, validation = training_texts("ag_news", None)
    whole = read_texts("ag_news", "train")
    assert set(train.texts) | set(validation.texts) == set(whole.texts)
    assert not set(train.texts) & set(validation.texts)
    assert len(validation.texts) == 30  # a twentieth of 600


def test_a_limit_draws_the_same_texts_whatever_their_order(tmp_path: Path) -> None:
    few = training_texts("ag_news", 100)
    assert sum(len(part.texts) for part in few) == 100
    whole = read_texts("ag_news", "train")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INNERLOOP_DATA", str(tmp_path))
        rows = list(zip(whole.labels, whole.texts, strict=True))[::-1]
        write_csv(tmp_path / "text" / "ag_news_train.csv", ("label", "text"), rows)
        again = training_texts("ag_news", 100)
    for one, other in zip(few, again, strict=True):
        assert set(one.texts) == set(other.texts)


def test_a_prompt_is_a_text_with_padding_at_its_end() -> None:
    prompt = TASK.sample(16, 12, generator=generator())
    assert prompt.layout == "tokens"
    assert prompt.points <= 12
    tokens, scored = prompt.xs[..., 0], prompt.scored
    assert scored is not None
    assert bool((tokens[:, 0] == BEGIN).all())
    inside = tokens != 0  # (B, n)
    assert bool((inside[:, 1:] <= inside[:, :-1]).all()), "padding stands at the end"
    last = inside.sum(1) - 1  # (B,)
    assert torch.equal(scored.nonzero()[:, 1], last)
    assert bool((scored.sum(1) == 1).all())
    assert bool((prompt.ys == prompt.ys[:, :1]).all())


def test_the_generator_alone_decides() -> None:
    first, second, other = (TASK.sample(8, 20, generator=generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.xs, second.xs)
    assert first.xs.shape != other.xs.shape or not torch.equal(first.xs, other.xs)


def test_batches_are_of_similar_lengths_and_every_text_has_the_same_chance() -> None:
    lengths = torch.arange(3, 43)  # (40,)
    seen = torch.zeros(40)
    spreads: list[int] = []
    draws = generator()
    for _ in range(6000):
        which = draw_similar(lengths, 8, 100, draws)
        seen += torch.bincount(which, minlength=40)
        spreads.append(int(lengths[which].max() - lengths[which].min()))
    expected = 6000 * 8 / 40
    # The same text is several times in a batch, so that the deviation of a count is about 60.
    assert bool(((seen - expected).abs() < 0.25 * expected).all())
    assert sum(spreads) / len(spreads) < 8, "a random batch spans most of the 40 lengths"


def test_long_texts_are_cut_off() -> None:
    encoded = Encoded.of([[5, 6, 7, 8], [9]])
    tokens, lengths = encoded.padded(torch.tensor([1, 0]), 3)
    assert tokens.tolist() == [[9, 0, 0], [5, 6, 7]]
    assert lengths.tolist() == [1, 3]


def test_hidden_words_are_unknown_in_training_and_nowhere_else() -> None:
    task = TASK.model_copy(update={"dropout": 0.5})
    hidden = task.sample(32, 40, generator=generator()).xs  # (B, n, 1)
    plain = TASK.sample(32, 40, generator=generator()).xs  # (B, n, 1)
    changed = hidden != plain  # (B, n, 1)
    assert bool((hidden[changed] == UNKNOWN).all())
    share = float(changed.sum() / (plain > BEGIN).sum())
    assert 0.4 < share < 0.6
    assert torch.equal(
        task.held_out(32, 40, generator=generator()).xs,
        TASK.held_out(32, 40, generator=generator()).xs,
    )


def test_every_test_text_is_asked_once() -> None:
    seen = torch.cat([which for which, _ in TASK.test_prompts(40, batch=64)])
    assert torch.equal(seen.sort().values, torch.arange(200))
    truth = read_texts("ag_news", "test")
    for which, prompt in TASK.test_prompts(40, batch=64):
        labels = torch.tensor(truth.labels)[which]  # (B,)
        assert torch.equal(prompt.ys[:, 0, 0], labels.float())


def test_texts_of_ones_own_get_probabilities(tmp_path: Path) -> None:
    model = il.train(config(steps=120), store=tmp_path).model()
    texts = ["The coach said the league", "profit"]
    likely = il.language.probabilities(model, TASK, texts)  # (2, 4)
    assert likely.argmax(-1).tolist() == [1, 2]
    torch.testing.assert_close(likely.sum(-1), torch.ones(2))
    alone = il.language.probabilities(model, TASK, texts[1:])  # (1, 4)
    torch.testing.assert_close(alone, likely[1:], rtol=1e-4, atol=1e-5)
    with pytest.raises(InnerloopError, match="there are no texts"):
        il.language.probabilities(model, TASK, [])


def test_the_command_line_trains_and_classifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["train", "text-looped", "--scale", "smoke"])
    assert "share of wrong answers" in capsys.readouterr().out
    (run,) = (tmp_path / "runs").iterdir()
    with pytest.raises(SystemExit):
        main(["classify", str(run), "A goal", "--json", "-"])
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["text"] == "A goal"
    assert answer["class"] in ("World", "Sports", "Business", "Sci/Tech")
    with pytest.raises(SystemExit):
        main(["classify", str(run), "--json", "-"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in rows] == ["looped transformer (1 layer)", "bag of words"]
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in rows)
    assert rows[1]["accuracy"] > 0.9
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(run)])
    assert ended.value.code == 2
    assert "innerloop classify" in capsys.readouterr().err


class Answers(il.core.OneShot):
    """Answers with the class that is asked for, or with the next one."""

    traits = il.core.Traits(causal=False)

    def __init__(self, wrong: bool) -> None:
        self.wrong = wrong

    def init(self, prompt: Prompt) -> torch.Tensor:
        return (prompt.ys + 1) % 4 if self.wrong else prompt.ys


def test_right_answers_are_counted() -> None:
    assert bool(right_answers(Answers(wrong=False), TASK, 40).all())
    assert not bool(right_answers(Answers(wrong=True), TASK, 40).any())


def test_words_that_decide_the_class_are_learned(tmp_path: Path) -> None:
    run = il.train(config(steps=120), store=tmp_path)
    accuracy = float(right_answers(run.model(), TASK, 40).float().mean())
    assert accuracy > 0.9  # chance is 0.25
    assert run.metrics()["error"].dropna().iloc[-1] < 0.1


def test_a_bag_of_words_learns_them_too() -> None:
    assert float(right_answers(BagOfWords(TASK), TASK, 1000).float().mean()) > 0.95


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = il.train(config(), store=tmp_path / "whole")
    calls = iter(range(1000))
    store = Store(tmp_path / "parts")
    store.train(config(), stop=lambda: next(calls) >= 25)
    assert not next(iter(store.runs())).finished
    parts = store.train(config())
    for one, other in zip(whole.model().parameters(), parts.model().parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.metrics().equals(parts.metrics())


def test_a_run_does_not_go_on_with_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(1000))
    store = Store(tmp_path / "runs")
    store.train(config(), stop=lambda: next(calls) >= 5)
    monkeypatch.setenv("INNERLOOP_DATA", str(write_ag_news(tmp_path / "other", seed=1)))
    with pytest.raises(StartOverError, match="was begun with other data"):
        store.train(config())


def test_other_data_sets_are_refused() -> None:
    for name in ("agnews", "multi30k"):
        with pytest.raises(ValueError, match="unknown text data set"):
            TextClassification(dataset=name)
    with pytest.raises(ConfigurationError, match="text data set"):
        il.training.recipe("text-standard", **{"task.dataset": "agnews"})
