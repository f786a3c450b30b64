#!/usr/bin/env python3
"""Writes ids.json: the ids that the Hugging Face `tokenizers` library gives for texts.json with each tokenizer here.

The tokenizers named learnt_* are written by `ELMO_UPDATE_GOLDEN=1 test_text --gtest_filter='Golden.*'`; odd_*.json
are learnt_* with other components, made here.
"""
import json
import pathlib

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent


def added(id, content, **flags):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
    token.update(flags)
    return token


def write(name, document):
    (HERE / f"{name}.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def make_odd():
    bpe = json.loads((HERE / "learnt_bpe_cased.json").read_text(encoding="utf-8"))
    bpe["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "NFC"}, {"type": "Lowercase"}]}
    bpe["pre_tokenizer"]["add_prefix_space"] = False
    size = len(bpe["model"]["vocab"])
    bpe["added_tokens"] += [
        added(size, "Harbour", single_word=True, normalized=True),
        added(size + 1, "<br>", lstrip=True, rstrip=True),
        added(size + 2, "<br><br>"),
        added(size + 3, "\u00c9tude", normalized=True, rstrip=True)]
    bpe["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "end", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                            "end": {"id": "end", "ids": [4, 2], "tokens": ["<mask>", "</s>"]}}}]}
    # Bytes without a token of their own become <unk>, neighbours as one.
    bpe["model"]["merges"] = [m for m in bpe["model"]["merges"] if "z" not in m and "\u00f0" not in m]
    for token in [t for t in bpe["model"]["vocab"] if "z" in t or "\u00f0" in t]:
        del bpe["model"]["vocab"][token]
    bpe["model"]["fuse_unk"] = True
    for token in bpe["added_tokens"][5:]:
        token["id"] -= size - len(bpe["model"]["vocab"])
    ids = {t: i for i, t in enumerate(sorted(bpe["model"]["vocab"], key=bpe["model"]["vocab"].get))}
    bpe["model"]["vocab"] = ids
    write("odd_bpe", bpe)

    wordpiece = json.loads((HERE / "learnt_wordpiece_cased.json").read_text(encoding="utf-8"))
    wordpiece["normalizer"].update(clean_text=False, handle_chinese_chars=False, strip_accents=True)
    wordpiece["model"]["max_input_chars_per_word"] = 7
    wordpiece["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    wordpiece["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    write("odd_wordpiece", wordpiece)


def main():
    make_odd()
    texts = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))
    ids = {}
    for path in sorted(HERE.glob("learnt_*.json")) + sorted(HERE.glob("odd_*.json")):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids[path.stem] = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    lines = ",\n".join(f' "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "]"
                       for name, rows in ids.items())
    (HERE / "ids.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
