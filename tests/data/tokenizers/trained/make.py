#!/usr/bin/env python3
"""Writes cases.json: what Hugging Face's `tokenizers` learns from small texts, the evidence that our trainer learns the
same. Made with tokenizers 0.23.3 (nothing in it has changed what training gives since 0.13)."""
import json
import pathlib

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

STORY = [
    "Mrs. Dursley met Mr. Dursley at the station. \"You're late,\" said Mrs. Dursley, and Mr. Dursley said he'd know it.",
    "Once upon a time there was a station at which no train stopped; the trains' drivers didn't know it, they'd say.",
    "In 1834 the station had 12 clocks, in 1835 had 13.\n\n  The 13th struck at   midnight.\n\tNobody was there!!! :-)",
]
WORLD = [
    "안녕하세요, 세계. 안녕히 가세요, 세계여. 세계는 넓고 할 일은 많다.",
    "naïve café, naïve façade; Straße, Straßen. 👍👍🏽 你好，世界。你好吗？",
    "Привет, мир! Мир, привет. ٣٤ ٣٥ ²³ ½",
]


def nonsense(seed, words, letters):
    """Words of few letters: pairs that different merges make, equal counts, overlaps."""
    out = []
    for _ in range(words):
        word = ""
        while True:
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            word += letters[(seed >> 33) % len(letters)]
            if (seed >> 50) % 9 == 0:
                break
        out.append(word)
    return " ".join(out)


PROBES = STORY + WORLD + ["", " ", "\n\n\n", "abcabcabaab", "<|endoftext|> is text here"]


def case(name, documents, size, min_frequency):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    return {"name": name, "documents": documents, "vocabulary_size": size, "min_frequency": min_frequency,
            "learned": pieces[257:], "merges": model["merges"],
            "ids": [{"text": text, "ids": tokenizer.encode(text).ids} for text in PROBES]}


CASES = [
    case("story", STORY, 340, 2),
    case("story to its end", STORY, 5000, 3),
    case("many scripts", WORLD, 330, 2),
    case("two letters", [nonsense(1, 400, "ab"), nonsense(2, 400, "ab")], 420, 1),
    case("three letters", [nonsense(3, 500, "abc")], 500, 2),
    case("one letter", [nonsense(4, 200, "a")], 280, 1),
]
path = pathlib.Path(__file__).with_name("cases.json")
path.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in CASES) + "\n]\n")
