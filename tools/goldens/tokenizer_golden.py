#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/*.hashes: what Hugging Face `tokenizers` makes of 10,000 random strings.

    pip install tokenizers gguf sentencepiece
    tools/goldens/tokenizer_golden.py                      # all files
    tools/goldens/tokenizer_golden.py --show llama-spm 17  # string 17 and its ids, to study a difference

Each tokenizer is built from the vocabulary and merges of a GGUF file of tests/golden/tokenizer, packed with xz, and the expressions below. A
file of hashes holds one FNV-1a hash of 32 bits per string, little-endian; the strings come from the same generator as those of
tests/tokenizer/random_text.h.

NAME.hashes covers the ids. lacking.NAME.hashes is the same for the vocabulary without the bytes of LACKING and all that
holds them (a SentencePiece one: the characters, and all tokens of bytes), where the library leaves characters out or has the unknown token for them. pre.NAME.hashes, one for each kind of pre-tokenizer, is made over GPT-2's vocabulary and covers
the ids and then the byte lengths of the pieces, since many cuts show in no id of a vocabulary that was made with others.

bert-bge is a WordPiece vocabulary; cased.bert-bge reads it without lower case and with accents. unigram.gguf.xz has a small
model that `--train-unigram` trains with SentencePiece on such strings, with SentencePiece's own normalisation (nmt_nfkc);
SentencePiece's ids are the expected ones.

Where tokenizer.json files hold more than a GGUF file can say, the GGUF meaning is built: no normalizer (qwen2 has NFC), and
for falcon the expressions alone (its Digits step sees bytes written as characters, some of which count as numbers).
"""
import argparse
import io
import lzma
import pathlib
import random
import struct
import tempfile

import sentencepiece
from gguf import GGUFReader, GGUFWriter
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizer"
COUNT = 10000
MASK = (1 << 64) - 1

# The random strings.

SPACES = [0x20] * 6 + [9, 9, 10, 10, 10, 13, 0x0B, 0x0C, 0xA0, 0x85, 0x2003, 0x2028, 0x3000, 0x180E]
ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'vE", "'LL", "'x", "n't", "''", "\u2019s", "'\u017f"]
FACES = [(0x1F300, 0x1F64F), (0x2600, 0x26FF), (0x1F680, 0x1F6C5)]
DIGITS = [(0x30, 0x39)]
PUNCTUATION = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)]
LATIN = [(0xC0, 0xFF), (0x100, 0x24F), (0x1E00, 0x1EFF)]
HAN = [(0x4E00, 0x9FA5), (0x3400, 0x4DB5)]
KANA = [(0x3041, 0x3096), (0x30A1, 0x30FA)]
HANGUL = [(0xAC00, 0xD7A3)]
SLAVIC = [(0x410, 0x44F), (0x400, 0x45F), (0x3B1, 0x3C9)]
ARABIC = [(0x621, 0x63A), (0x641, 0x64A), (0x64B, 0x652), (0x660, 0x669), (0x5D0, 0x5EA)]
INDIC = [(0x904, 0x939), (0x93E, 0x94D), (0x966, 0x96F), (0xE01, 0xE3A)]
CONTROL = [(0x00, 0x1F), (0x7F, 0x9F)]
RARE = [(0x10330, 0x1034A), (0x10400, 0x1044F), (0x1D400, 0x1D454), (0x20000, 0x2A6D6), (0x10000, 0x1000B),
        (0xE0020, 0xE007F), (0xE000, 0xE0FF), (0xF0000, 0xF0010), (0xFF01, 0xFF5E)]
SYMBOLS = [(0xA1, 0xBF), (0x2010, 0x2027), (0x20A0, 0x20BF), (0x2150, 0x2188), (0x2190, 0x22FF), (0x2460, 0x249B),
           (0x3001, 0x3020), (0x2581, 0x2581), (0x1C4, 0x1CC), (0x2070, 0x2071)]


class RandomText:
    def __init__(self, index):
        self.state = (index * 0xD1B54A32D192ED03 + 0x526F434D) & MASK
        self.text = []

    def below(self, count):
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return ((z ^ z >> 31) >> 33) % count

    def make(self):
        for _ in range(1 + self.below(12)):
            if self.below(2) == 0:
                self.text.append(" ")
            self.segment()
        return "".join(self.text)

    def run(self, ranges, longest):
        for _ in range(1 + self.below(longest)):
            self.one(ranges)

    def one(self, ranges):
        first, last = ranges[self.below(len(ranges))]
        self.text.append(chr(first + self.below(last - first + 1)))

    def word(self):
        count, shape = 1 + self.below(10), self.below(4)
        for i in range(count):
            letter = "etaoinshrdlucmfwypvbgkqjxz"[min(self.below(26), self.below(26))]
            self.text.append(letter.upper() if shape == 0 or (shape == 1 and i == 0) else letter)

    def space(self):
        for _ in range(1 + self.below(6)):
            self.text.append(chr(SPACES[self.below(len(SPACES))]))

    def contraction(self):
        self.word()
        self.text.append(ENDINGS[self.below(len(ENDINGS))])

    def emoji(self):
        for _ in range(1 + self.below(4)):
            self.one(FACES)
            kind = self.below(5)
            if kind == 0:
                self.text.append("\u200d")
            elif kind == 1:
                self.text.append("\ufe0f")
            elif kind == 2:
                self.text.append(chr(0x1F3FB + self.below(5)))

    def combining(self):
        for _ in range(1 + self.below(5)):
            self.text.append(chr(0x61 + self.below(26)))
            self.text.append(chr(0x300 + self.below(0x6F)))

    def segment(self):
        kind = self.below(24)
        if kind in (6, 7):
            self.run(DIGITS, 8)
        elif kind in (8, 9):
            self.run(PUNCTUATION, 4)
        elif kind in (10, 11):
            self.space()
        elif kind == 12:
            self.contraction()
        elif 13 <= kind <= 19:
            self.run(*((LATIN, 6), (HAN, 6), (KANA, 6), (HANGUL, 5), (SLAVIC, 8), (ARABIC, 8), (INDIC, 6))[kind - 13])
        elif kind == 20:
            self.emoji()
        elif kind == 21:
            self.combining()
        elif kind == 22:
            self.run(CONTROL if self.below(3) == 0 else RARE, 4)
        elif kind == 23:
            self.run(SYMBOLS, 4)
        else:
            self.word()


def hash_ids(ids):
    value = 2166136261
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


# The regular expressions of the models' own tokenizer.json files.

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+END|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*END"
CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = CASED.replace("END", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?") + r"|\p{N}{1,3}" + CASED_REST
TEKKEN = CASED.replace("END", "") + r"|\p{N}" + CASED_REST
# Chinese characters are words of their own.
KIMI_UPPER, KIMI_LOWER = (letters[:-1] + r"&&[^\p{Han}]]" for letters in (UPPER, LOWER))
KIMI = (r"[\p{Han}]+|" + CASED.replace(UPPER, KIMI_UPPER).replace(LOWER, KIMI_LOWER).replace("END", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?")
        + r"|\p{N}{1,3}" + CASED_REST.replace("[\\r\\n/]", "[\\r\\n]"))
DEEPSEEK_LETTERS = (
    "\\s?["
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376"
    "\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F"
    "\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    "\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D"
    "\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4"
    "\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D"
    "\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A"
    "\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943"
    "]+")
DEEPSEEK_CJK = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"
DEEPSEEK3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
             "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
NOT_BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
DEEPSEEK3_CJK = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"

CASCADE = "".join(rf"\s{{{count}}}(?!\S)|" for count in (512, 256, 128, 64, 32, 16, 8, 4, "1,2")) + r"\s{1}"
AFMOE_SCRIPTS = (
    "[\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F\u2F00-\u2FDF\u0E40-\u0E7F\u0E80-\u0EFF"
    "\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF\uAC00-\uD7AF\u1100-\u11FF]+")

PASSES = {
    "gpt-2": [GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [LLAMA3.replace("{1,3}", "")],
    "qwen35": [QWEN35],
    "gpt-4o": [GPT4O],
    "tekken": [TEKKEN],
    "kimi-k2": [KIMI],
    "deepseek-llm": ["[\r\n]", DEEPSEEK_LETTERS,
                     "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", "\\s+$", DEEPSEEK_CJK, "\\p{N}+"],
    "deepseek-coder": ["[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"],
    "deepseek-v3": ["\\p{N}{1,3}", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", DEEPSEEK3],
    "starcoder": ["\\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "seed-coder": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "youtu": ["[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
              "|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", GPT4O.replace("{1,3}", "")],
    "bloom": [NOT_BLOOM],
    "viking": [NOT_BLOOM, r"\p{N}"],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")],
    "ufakzeka": [LLAMA3.replace("{1,3}", "").replace(CONTRACTION + "|", "")],
    "exaone-moe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]"
                   r"|\s+(?!\S)|\s+"],
    "laguna": [r"[^\n]+|[\n]+", LLAMA3.replace("{1,3}", "")],
    "spark2_5": ["\\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3.replace("[\r\n]*|\\s*[\r\n]+", "|[\r\n]"), r"\p{N}"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "jais-2": [LLAMA3.replace(r"\s+(?!\S)|\s+", CASCADE)],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))", AFMOE_SCRIPTS, DEEPSEEK3],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
}
IGNORE_MERGES = {"llama-bpe", "tekken", "minicpm5", "youtu"}
NORMAL, CONTROL_TYPE, USER_DEFINED, UNUSED = 1, 3, 4, 5
# Letters, white space, and bytes that begin and continue characters.
LACKING = b"qX7\t\xc3\xe2\x9f\xa9"


def packed_fields(name):
    """The fields of NAME.gguf.xz."""
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(lzma.decompress((FOLDER / f"{name}.gguf.xz").read_bytes()))
        file.flush()
        return GGUFReader(file.name).fields


class Vocabulary:
    def __init__(self, name):
        fields = packed_fields(name)

        def field(key):
            found = fields.get("tokenizer.ggml." + key)
            return found.contents() if found else None

        self.model, self.pre, self.tokens = field("model"), field("pre"), field("tokens")
        self.types, self.scores, self.merges = field("token_type"), field("scores"), field("merges")


def without_bytes(vocabulary):
    """Tokens keep their ids; those that hold a byte of LACKING can't be made any more."""
    if vocabulary.model == "llama":
        lost = {f"<0x{byte:02X}>" for byte in range(256)}  # SentencePiece has all bytes or none
        gone = {text for text in vocabulary.tokens if text in lost or any(chr(byte) in text for byte in LACKING if byte < 0x80)}
    else:
        characters = byte_characters()
        lost = {characters[byte] for byte in LACKING}
        gone = {text for text in vocabulary.tokens if lost & set(text)}
        vocabulary.merges = [merge for merge in vocabulary.merges if not lost & set(merge)]
    vocabulary.types = [UNUSED if text in gone else kind for text, kind in zip(vocabulary.tokens, vocabulary.types)]
    return vocabulary


def byte_characters():
    """What byte-level vocabularies write for each byte: printable ones stand for themselves, the others for U+0100 and up."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def add_user_defined(tokenizer, vocabulary):
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False)
                          for text, kind in zip(vocabulary.tokens, vocabulary.types) if kind == USER_DEFINED])


def byte_level(vocabulary, pre):
    ids = {text: i for i, text in enumerate(vocabulary.tokens) if vocabulary.types[i] != UNUSED}
    merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=pre in IGNORE_MERGES))
    steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in PASSES[pre]]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    add_user_defined(tokenizer, vocabulary)
    return tokenizer


def sentence_piece(vocabulary, prefix="\u2581"):
    """Merges are all ways to write a token as two, the highest score first. Without a prefix it is Gemma 4's kind."""
    ids = {text: i for i, text in enumerate(vocabulary.tokens) if vocabulary.types[i] != UNUSED}
    usable = {text for text, kind in zip(vocabulary.tokens, vocabulary.types) if kind in (NORMAL, USER_DEFINED)}
    merges = []
    for text in usable:
        for i in range(1, len(text)):
            if text[:i] in usable and text[i:] in usable:
                merges.append((-vocabulary.scores[ids[text]], ids[text[:i]], ids[text[i:]], text[:i], text[i:]))
    merges.sort()
    unknown = vocabulary.tokens[0]
    pairs = [merge[3:] for merge in merges]
    tokenizer = Tokenizer(models.BPE(ids, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([*([normalizers.Prepend(prefix)] if prefix else []), normalizers.Replace(" ", "\u2581")])
    add_user_defined(tokenizer, vocabulary)
    return tokenizer


def wordpiece(vocabulary, cased=False):
    """The file has U+2581 where a word begins, the library "##" where it does not; control tokens are as they are."""
    def piece(text, kind):
        return text if kind == CONTROL_TYPE else text[1:] if text[0] == "\u2581" else "##" + text

    ids = {piece(text, kind): i for i, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=not cased, lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def training_texts():
    """Strings other than those of the test, with few ideographs, and words whose parts recur."""
    chance = random.Random(5)
    parts = ["".join(chance.choice("etaoinshrdlu") for _ in range(chance.randint(1, 4))) for _ in range(400)]
    for index in range(20000, 26000):
        text = "".join(c for c in RandomText(index).make() if c not in "\n\0" and (ord(c) < 0x3000 or ord(c) % 64 == 0))
        yield text + " " + " ".join(chance.choice(parts) + chance.choice(parts) for _ in range(8))


def train_unigram():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=training_texts(), model_writer=model, vocab_size=3000, model_type="unigram",
        character_coverage=0.985, max_sentence_length=100000, hard_vocab_limit=False, user_defined_symbols=["<mark>"],
        minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    path = FOLDER / "unigram.gguf"
    writer = GGUFWriter(path, "t5")
    writer.add_tokenizer_model("t5")
    writer.add_token_list([piece.piece.encode() for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([piece.type for piece in proto.pieces])
    writer.add_bos_token_id(proto.trainer_spec.bos_id)
    writer.add_eos_token_id(proto.trainer_spec.eos_id)
    writer.add_unk_token_id(proto.trainer_spec.unk_id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    path.with_suffix(".gguf.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
    path.unlink()


class Unigram:
    """SentencePiece, made of the GGUF file."""

    def __init__(self, prefix=True, merges_spaces=True):
        fields = packed_fields("unigram")
        read = lambda key: fields["tokenizer.ggml." + key].contents()
        proto = sentencepiece_model_pb2.ModelProto()
        proto.trainer_spec.model_type = 1
        for text, score, kind in zip(read("tokens"), read("scores"), read("token_type")):
            proto.pieces.add(piece=text, score=score, type=kind)
        proto.normalizer_spec.precompiled_charsmap = bytes(byte & 255 for byte in read("precompiled_charsmap"))
        proto.normalizer_spec.add_dummy_prefix = prefix
        proto.normalizer_spec.remove_extra_whitespaces = merges_spaces
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())

    def encode(self, text, add_special_tokens):
        self.ids = self.processor.encode(text)
        return self


def all_tokenizers():
    """Name of the golden file, and how to make its tokenizer."""
    for name in ("gpt-2", "deepseek-coder"):
        yield name, lambda name=name: byte_level(Vocabulary(name), name)
    for name in ("llama-spm", "phi-3"):
        yield name, lambda name=name: sentence_piece(Vocabulary(name))
    yield "gemma4", lambda: sentence_piece(Vocabulary("llama-spm"), "")
    yield "lacking.gpt-2", lambda: byte_level(without_bytes(Vocabulary("gpt-2")), "gpt-2")
    yield "lacking.llama-spm", lambda: sentence_piece(without_bytes(Vocabulary("llama-spm")))
    yield "bert-bge", lambda: wordpiece(Vocabulary("bert-bge"))
    yield "cased.bert-bge", lambda: wordpiece(Vocabulary("bert-bge"), cased=True)
    yield "unigram", Unigram
    yield "spaces.unigram", lambda: Unigram(prefix=True, merges_spaces=False)
    yield "plain.unigram", lambda: Unigram(prefix=False)
    for pre in PASSES:
        yield "pre." + pre, lambda pre=pre: byte_level(Vocabulary("gpt-2"), pre)


def encode(name, tokenizer, index):
    text = RandomText(index).make()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    if not name.startswith("pre."):
        return ids
    # The characters of the byte-level form are bytes of the text.
    return ids + [len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", nargs=2, metavar=("NAME", "INDEX"))
    parser.add_argument("--only", metavar="NAME", help="write this file alone")
    parser.add_argument("--train-unigram", action="store_true", help="write unigram.gguf.xz anew first")
    arguments = parser.parse_args()
    if arguments.train_unigram:
        train_unigram()
    for name, make in all_tokenizers():
        if arguments.show and arguments.show[0] != name or arguments.only and arguments.only != name:
            continue
        tokenizer = make()
        if arguments.show:
            index = int(arguments.show[1])
            print(ascii(RandomText(index).make()), encode(name, tokenizer, index), sep="\n")
            continue
        hashes = [hash_ids(encode(name, tokenizer, index)) for index in range(COUNT)]
        (FOLDER / f"{name}.hashes").write_bytes(struct.pack(f"<{COUNT}I", *hashes))
        print(f"{name}: {COUNT} strings")


if __name__ == "__main__":
    main()
