"""The model to beat: logistic regression on which words a text has, whatever their order."""

from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from innerloop.core.learner import OneShot, Traits
from innerloop.core.prompt import Prompt
from innerloop.data.reading import digest
from innerloop.language.classification import TextClassification, training_texts
from innerloop.language.tokenizer import Tokenizer


class BagOfWords(OneShot):
    """TF-IDF of words and pairs of words, then logistic regression, by scikit-learn.

    It learns from the same texts as a model of the task, and reads the words that tokens spell.
    """

    traits = Traits(causal=False)

    def __init__(self, task: TextClassification) -> None:
        """For the texts of a task; they are read at the first answer."""
        self.task = task

    @cached_property
    def name(self) -> str:
        """What it is."""
        return "bag of words"

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return self.task.tokenizer()

    def init(self, prompt: Prompt) -> Tensor:
        """The class of each text, at each of its tokens: (B, n, 1)."""
        tokenizer = self._tokenizer
        texts = [tokenizer.decode(text) for text in prompt.xs[..., 0].long().tolist()]
        fitted = _fitted(self.task.dataset, self.task.limit, digest(self.task.dataset, "train"))
        classes = torch.tensor(fitted.predict(texts))  # (B,)
        return classes[:, None, None].expand_as(prompt.xs).to(prompt.xs)


@lru_cache(maxsize=8)
def _fitted(dataset: str, limit: int | None, content: str) -> Any:
    """The pipeline, fitted to the training texts; `content` is what is in the files."""
    # Which take long to import.
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    train, _ = training_texts(dataset, limit)
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    pipeline = make_pipeline(words, LogisticRegression(C=10, max_iter=200))
    return pipeline.fit(list(train.texts), list(train.labels))
