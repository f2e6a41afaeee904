"""A made-up pair of languages: words are mapped one to one, and every two of them change places."""

import random
from pathlib import Path

GERMAN = "der hund katze läuft schläft schnell rot blau haus baum mann kind".split()
ENGLISH = "the dog cat runs sleeps quickly red blue house tree man child".split()
WORDS: dict[str, str] = dict(zip(GERMAN, ENGLISH, strict=True))


def in_english(german: str) -> str:
    """The right translation: word by word, with places 0 and 1, 2 and 3, .. exchanged."""
    words = [WORDS[word] for word in german.split()]
    for place in range(0, len(words) - 1, 2):
        words[place : place + 2] = words[place + 1], words[place]
    return " ".join(words)


SPLITS = {"multi30k": ("test_2016_flickr", "val"), "iwslt14": ("test", "valid")}
"""Names of the test split and of the held-out one."""


def write_language(
    folder: Path, *, dataset: str = "multi30k", pairs: int = 1500, seed: int = 0
) -> list[tuple[str, str]]:
    """Write its splits as those of a data set; the pairs of the test split, which no other has."""
    rng = random.Random(seed)
    texts = {" ".join(rng.choices(GERMAN, k=rng.randint(2, 5))) for _ in range(2 * pairs)}
    german = sorted(texts)
    rng.shuffle(german)
    test, held_out = SPLITS[dataset]
    own = {test: german[:40], held_out: german[40:80], "train": german[80 : 80 + pairs]}
    (folder / "translation").mkdir(parents=True, exist_ok=True)
    for split, lines in own.items():
        for side, text in (("de", lines), ("en", [in_english(line) for line in lines])):
            path = folder / "translation" / f"{dataset}.{split}.{side}.txt"
            path.write_text("".join(f"{line}\n" for line in text), "utf-8")
    return [(line, in_english(line)) for line in own[test]]
