#!/usr/bin/env python3
"""Makes the Gemma 4 assistants of tests/golden/models/assistant, and the logits that they must give.

Each is transformers' Gemma4AssistantForCausalLM with random weights, for a golden model of golden_gemma4.py. Behind position p
of that model's text it gets the embedding of the token p + 1 and the model's final hidden state of p. Its queries have position
p + 1 and see the keys and values that the model's last layer of each kind has: all up to p, in layers with a window of W those
of the last W - 1 (as llama.cpp's graph has it: the query's own position counts, and has no keys).

NAME-draft.logits has the logits of all positions (behind the last one the first token); NAME-next.logits those of some tokens
behind them that it is given, from its own states, all at the position of the first.

    golden/bin/python tools/goldens/golden_assistant.py tests/golden/models
"""
import pathlib
import sys

import torch
import transformers

import model_golden
from golden_eagle3 import write_logits
from golden_gemma4 import FULL, LOCAL
from model_golden_parts import U32, write_gguf

FOLDER = "assistant/"
NEXT = 3

# name: layers and sizes, where they are not those of the model
DRAFTS = {
    "gemma4": {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 96,
               "layer_types": [LOCAL, LOCAL, FULL], "num_hidden_layers": 3},
    # More queries than the model has, and an embedding that is narrower than its own.
    "gemma4-e": {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 32,
                 "layer_types": [LOCAL, FULL], "num_hidden_layers": 2},
}


def build(name, of_model, own):
    """The assistant with random weights, and the configuration of its text part."""
    sizes = {**model_golden.SIZES, **of_model, **own, "num_kv_shared_layers": own["num_hidden_layers"],
             "use_double_wide_mlp": False, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    config = transformers.Gemma4AssistantConfig(
        text_config=transformers.Gemma4TextConfig(**sizes), backbone_hidden_size=model_golden.SMALL["hidden_size"])
    config._attn_implementation = config.text_config._attn_implementation = "eager"
    assistant = transformers.Gemma4AssistantForCausalLM(config).float().eval()
    generator = torch.Generator().manual_seed(model_golden.seed_of(FOLDER + name))
    model_golden.spread(assistant, generator, 0.0)
    return assistant, config.text_config, generator


def pairs(name, config):
    """The keys of an assistant: those of a model of its family, under its own name."""
    for key, kind, value in model_golden.metadata("gemma4", name, config):
        yield key.replace("gemma4.", "gemma4-assistant."), kind, "gemma4-assistant" if key == "general.architecture" else value
    yield "gemma4-assistant.embedding_length_out", U32, model_golden.SMALL["hidden_size"]
    yield "gemma4-assistant.nextn_predict_layers", U32, config.num_hidden_layers


def tensors(config, assistant):
    own = {"pre_projection": "blk.0.nextn.pre_projection", "post_projection": "nextn.post_projection"}
    for part, target in own.items():
        yield f"{target}.weight", getattr(assistant, part).weight.detach().numpy()
    assistant.pre_projection = assistant.post_projection = torch.nn.Identity()
    yield from model_golden.tensors("gemma4", "assistant", config, assistant)


class Text:
    """A text of the model: its states, and what of it a query behind a position sees."""

    def __init__(self, model, config, ids):
        out = model.model(ids, use_cache=False, return_shared_kv_states=True)
        self.states, self.shared = out.last_hidden_state, dict(out.shared_kv_states)
        self.window, self.embed = config.sliding_window, model.model.embed_tokens

    def draft(self, assistant, token, state, position):
        def seen(kind, first):
            return tuple(part[:, :, max(first, 0):position] for part in self.shared[kind])

        embedding = self.embed(torch.tensor([[token]]))
        out = assistant(
            inputs_embeds=torch.cat([embedding, state], -1), position_ids=torch.tensor([[position]]),
            shared_kv_states={FULL: seen(FULL, 0), LOCAL: seen(LOCAL, position - self.window + 1)})
        return out.logits[0, 0], out.last_hidden_state


@torch.no_grad()
def make(folder, name):
    _, family, of_model = model_golden.MODELS[name]
    model, config, generator = model_golden.build(name, "gemma4", family, of_model)
    ids = torch.randint(0, config.vocab_size, (1, model_golden.TOKENS), generator=generator)
    assistant, own_config, _ = build(name, of_model, DRAFTS[name])
    text = Text(model, config, ids)
    rows = []
    for position in range(model_golden.TOKENS):
        token = int(ids[0, (position + 1) % model_golden.TOKENS])
        logits, state = text.draft(assistant, token, text.states[:, position:position + 1], position + 1)
        rows.append(logits)
    write_logits(folder / f"{FOLDER}{name}-draft.logits", ids[0], torch.stack(rows))
    fed, further = [], []
    for _ in range(NEXT):
        fed.append(int(logits.argmax()))
        logits, state = text.draft(assistant, fed[-1], state, model_golden.TOKENS)
        further.append(logits)
    write_logits(folder / f"{FOLDER}{name}-next.logits", fed, torch.stack(further))
    write_gguf(folder / f"{FOLDER}{name}-draft.gguf", list(pairs(name, own_config)), list(tensors(own_config, assistant)))
    print(f"{name}: logits spread {torch.stack(rows).std():.2f}, then {fed}")


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for name in DRAFTS:
        make(folder, name)


if __name__ == "__main__":
    main()
