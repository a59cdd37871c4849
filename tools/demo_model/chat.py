"""The tokenizer and the ChatML encoding of conversations."""
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTROL = [END_OF_TEXT, IM_START, IM_END]  # ids 0, 1, 2
# The split that GGUF files name "qwen2": contractions, words, single digits, punctuation, white space.
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_level(bpe):
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_tokenizer(texts, size):
    tokenizer = byte_level(models.BPE())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=CONTROL, initial_alphabet=alphabet,
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def tokenizer_of(metadata):
    """The tokenizer of a GGUF file of the demo model."""
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = byte_level(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, types) if kind == 3])
    return tokenizer


class Encoder:
    """Encodes conversations to (ids, weights); weights are in percent: what counts in the loss, and how much."""

    def __init__(self, path):
        self.tokenizer = Tokenizer.from_file(path)
        self.text = lambda t: self.tokenizer.encode(t, add_special_tokens=False).ids
        self.end, self.start, self.stop = (self.tokenizer.token_to_id(t) for t in CONTROL)
        self.head = {role: [self.start] + self.text(role + "\n") for role in ("system", "user", "assistant")}
        self.tail = [self.stop] + self.text("\n")
        self.letters = {c: self.tokenizer.token_to_id(c) for c in "abcdefghijklmnopqrstuvwxyz"}

    def prompt(self, messages):
        """The ids of a conversation up to the point where the assistant's reply begins."""
        ids = []
        for message in messages:
            ids += self.head[message["role"]] + self.text(message["content"]) + self.tail
        return ids + self.head["assistant"]

    def example(self, messages, answer, weight=100, prompt_weight=0, letter_by_letter=False):
        """A training example; letter_by_letter writes the answer as one token per letter."""
        prompt = self.prompt(messages)
        reply = ([self.letters[c] for c in answer] if letter_by_letter else self.text(answer)) + self.tail
        return prompt + reply, [prompt_weight] * len(prompt) + [weight] * (len(reply) - 1) + [0]

    def conversation(self, turns, rng):
        """A training example of several turns that all count. A reversed word is written letter by letter, or as the
        tokenizer would split it when it re-reads the chat; the latter is no target."""
        ids, weights = [], []
        for skill, text, answer in turns:
            letters = skill == "reverse" and rng.random() < 0.6
            weight = 0 if skill == "reverse" and not letters else 30 if skill == "story" else 100
            more = self.example([{"role": "user", "content": text}], answer, weight, letter_by_letter=letters)
            ids, weights = ids + more[0], weights + more[1]
        return ids, weights

    def decode(self, ids):
        return self.tokenizer.decode(ids)
