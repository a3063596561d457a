#!/usr/bin/env python3
"""Makes the small tokenizers of this folder, and what Hugging Face's tokenizers (0.23.3) makes of a few strings.

    pip install tokenizers==0.23.3 && python3 make.py
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
TEXT = [
    "The current that flows into a node flows out of it again.",
    "What goes in must come out; what is written must be read.",
    "The sum of the currents in the network is zero, and the sum of the parts is the whole.",
    "Every head reads from the stream and writes to the stream.",
    "We read 12 values, 3 of them twice: 12, 3 and 345.",
    "for (int i = 0; i < 10; ++i) sum += value[i];",
    "Der Strom fließt über die Brücke, die Knoten zählen mit. Où est le nœud ?",
]
STRINGS = [
    "", " ", "  ", "\n", "The current flows.", " The  current\tflows \n\n again", "reads 12345 values", "don't I'll WE'RE it's",
    "Brücke nœud fließt", "Bru\u0308cke e\u0301", "日本語 你好", "👍🏽 ok", "a\u00a0b\u3000c", "x\u2028y", "<s>The</s>", "<s> the sum",
    "the <mask> stream", "sum<mark>sum", " <mark>  <mark> a<mark>b", "<mark>", "\u2581the \u2581", "<0x41> <0x0A>", "\u0000\u0001",
    "ſ's I'ſ K", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "++i;\r\n  return x[0] != y;\r\n", "… — “quoted” ‘x’",
    "\u1112\u1161\u11ab \ud55c", "q\u0307\u0323 \u212b", "e\u0301\u0301", "\ufb01 \u33a5 \u2460 \u00bd",
]
SPECIAL = ["<unk>", "<s>", "</s>", "<mask>"]


def train(tokenizer, size, alphabet=()):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, initial_alphabet=list(alphabet), show_progress=False)
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("<mark>", single_word=True, normalized=True)])
    return tokenizer


def template():
    return processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])


def byte_level():
    """GPT-2's splitting in its own Split, NFC, trimmed offsets, BOS and EOS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template()])
    return train(tokenizer, 420, pre_tokenizers.ByteLevel.alphabet())


def byte_fallback():
    """Llama 2's normalizer and decoder; characters without a token become bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = template()
    tokenizer = train(tokenizer, 330)
    value = json.loads(tokenizer.to_str())
    vocab = value["model"]["vocab"]
    for byte in range(256):
        vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    value["added_tokens"][-1]["id"] = len(vocab)
    return Tokenizer.from_str(json.dumps(value))


def mixed():
    """What the others leave out: NFKC, Lowercase, Strip; Whitespace, Punctuation, Digits, Metaspace; unknown characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s{2,}"), " "), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(True),
         pre_tokenizers.Split("=", "contiguous", invert=True), pre_tokenizers.Metaspace(prepend_scheme="first", split=True)])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return train(tokenizer, 300)


def flat(text, offsets):
    """Characters to bytes."""
    ends = [0]
    for character in text:
        ends.append(ends[-1] + len(character.encode()))
    return [ends[min(position, len(text))] for span in offsets for position in span]


def cases_of(tokenizer):
    as_text = Tokenizer.from_str(tokenizer.to_str())
    as_text.encode_special_tokens = True
    for text in STRINGS:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        yield {
            "name": text[:20],
            "text": text,
            "ids": encoding.ids,
            "ids_specials_as_text": as_text.encode(text, add_special_tokens=False).ids,
            "ids_add_special_tokens": tokenizer.encode(text).ids,
            "offsets": flat(text, encoding.offsets),
            "decoded": tokenizer.decode(encoding.ids, skip_special_tokens=False),
            "decoded_skip_special": tokenizer.decode(encoding.ids),
        }


def decode_cases_of(tokenizer):
    state = 1
    for length in list(range(1, 9)) * 4:
        ids = []
        for _ in range(length):
            state = (state * 1103515245 + 12345) % 2**31
            ids.append((state >> 8) % tokenizer.get_vocab_size())
        yield {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False)}


for make in (byte_level, byte_fallback, mixed):
    folder = HERE / make.__name__
    folder.mkdir(exist_ok=True)
    tokenizer = make()
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False) + "\n")
    lines = [json.dumps(case, ensure_ascii=True) for case in cases_of(tokenizer)]
    decode = [json.dumps(case, ensure_ascii=True) for case in decode_cases_of(tokenizer)]
    (folder / "cases.json").write_text('{"note": %s,\n"cases": [\n%s\n],\n"decode": [\n%s\n]}\n' % (
        json.dumps(make.__doc__), ",\n".join(lines), ",\n".join(decode)))
