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


def write_language(folder: Path, *, pairs: int = 1500, seed: int = 0) -> list[tuple[str, str]]:
    """Write its splits as those of multi30k; the pairs of the test split, which no other has."""
    rng = random.Random(seed)
    texts = {" ".join(rng.choices(GERMAN, k=rng.randint(2, 5))) for _ in range(2 * pairs)}
    german = sorted(texts)
    rng.shuffle(german)
    own = {"test_2016_flickr": german[:40], "val": german[40:80], "train": german[80 : 80 + pairs]}
    (folder / "translation").mkdir(parents=True)
    for split, lines in own.items():
        for side, text in (("de", lines), ("en", [in_english(line) for line in lines])):
            path = folder / "translation" / f"multi30k.{split}.{side}.txt"
            path.write_text("".join(f"{line}\n" for line in text), "utf-8")
    return [(line, in_english(line)) for line in own["test_2016_flickr"]]
