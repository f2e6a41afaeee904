"""Texts: tokenisers, tasks of classification and translation, decoding."""

from typing import TYPE_CHECKING

from innerloop.core.lazy import import_at_first_use

if TYPE_CHECKING:
    from innerloop.language.accuracy import probabilities, right_answers
    from innerloop.language.bag_of_words import BagOfWords
    from innerloop.language.classification import TextClassification
    from innerloop.language.decoding import Decoding, decode
    from innerloop.language.scoring import score
    from innerloop.language.table import TEXT_TASKS
    from innerloop.language.tokenizer import Tokenizer, tokenizer_of
    from innerloop.language.translation import Translation, translate

__all__ = [
    "TEXT_TASKS",
    "BagOfWords",
    "Decoding",
    "TextClassification",
    "Tokenizer",
    "Translation",
    "decode",
    "probabilities",
    "right_answers",
    "score",
    "tokenizer_of",
    "translate",
]

import_at_first_use(__name__)
