#!/usr/bin/env python3
"""Writes unigram_*.json and unigram_ids.json: small Unigram tokenizers, trained by SentencePiece and converted as
transformers does for XLM-RoBERTa, and the ids that the Hugging Face `tokenizers` library gives with them for texts.json
and languages.json. Needs sentencepiece, transformers, protobuf and tokenizers; the tests do not.

The whole map of nmt_nfkc is 300 KB, so the tokenizers here have only its rules that touch these texts.
tools/check_tokenizer.py compares with a tokenizer that has all of them: `make_unigram.py FOLDER` writes one.
"""
import io
import json
import pathlib
import sys

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers.convert_slow_tokenizer import import_protobuf

HERE = pathlib.Path(__file__).parent


def read(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def rules(texts):
    """The rules of nmt_nfkc for parts of the texts of one or two characters, as SentencePiece reads them."""
    norm = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc", escape_whitespaces=False,
                                                 add_dummy_prefix=False, remove_extra_whitespaces=False)
    found = {}
    for text in texts:
        for i, c in enumerate(text):
            if "\0" in text[i:i + 2]:
                continue
            if norm.Normalize(c) != c:
                found[c] = norm.Normalize(c)
            pair = text[i:i + 2]
            if norm.Normalize(pair) != "".join(map(norm.Normalize, pair)):
                found[pair] = norm.Normalize(pair)
    codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    return "".join(f"{codes(a)}\t{codes(b)}\n" for a, b in sorted(found.items()))


def train(texts, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([t.replace("\0", "") for t in texts] * 3), model_writer=model, model_type="unigram",
        character_coverage=0.995, hard_vocab_limit=False, num_threads=1, minloglevel=2, **options)
    proto = import_protobuf().ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto


def rounded(proto):
    return [(piece.piece, round(piece.score, 4)) for piece in proto.pieces]


def xlm_roberta(proto):
    """As XLMRobertaConverter and the published tokenizer.json."""
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + rounded(proto)[3:] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(Unigram(vocab, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")])
    return framed(tokenizer, vocab)


def spm(proto, scheme, split, fallback):
    """As SpmConverter: white space at the end goes, runs of spaces become one mark."""
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + rounded(proto)[3:]
    if fallback:
        vocab += [(f"<0x{byte:02X}>", 0.0) for byte in range(256) if byte != 0xf0]
    vocab += [("<mask>", 0.0)]
    tokenizer = Tokenizer(Unigram(vocab, unk_id=3, byte_fallback=fallback))
    steps = [normalizers.Replace("''", '"'), normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
             normalizers.Strip(left=not split, right=True)]
    if split:  # else every space is seen
        steps.append(normalizers.Replace(Regex(" {2,}"), "\u2581"))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme=scheme, split=split)
    return framed(tokenizer, vocab)


def framed(tokenizer, vocab):
    from tokenizers import AddedToken
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def write(path, tokenizer):
    document = json.loads(tokenizer.to_str())
    text = json.dumps(document, ensure_ascii=False)
    path.write_text(text.replace('"vocab": [[', '"vocab": [\n[').replace("], [", "],\n["), encoding="utf-8")


def main():
    languages, texts = read("languages.json"), read("texts.json")
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        return write(folder / "tokenizer.json",
                     xlm_roberta(train(languages, vocab_size=900, normalization_rule_name="nmt_nfkc")))
    (HERE / "rules.tsv").write_text(rules(texts + languages), encoding="utf-8")
    proto = train(languages, vocab_size=900, normalization_rule_tsv=str(HERE / "rules.tsv"))
    (HERE / "rules.tsv").unlink()
    made = {"unigram_xlm_roberta": xlm_roberta(proto), "unigram_bytes": spm(proto, "always", True, True),
            "unigram_whole": spm(proto, "never", False, False)}
    ids = {}
    for name, tokenizer in made.items():
        write(HERE / f"{name}.json", tokenizer)
        loaded = Tokenizer.from_file(str(HERE / f"{name}.json"))
        ids[name] = [encoding.ids for encoding in loaded.encode_batch(texts + languages)]
    lines = ",\n".join(f' "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "]"
                       for name, rows in ids.items())
    (HERE / "unigram_ids.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
