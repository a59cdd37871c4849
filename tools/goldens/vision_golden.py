#!/usr/bin/env python3
"""Makes the tiny models of tests/golden/models/vision, which see images, and what they must give.

    python -m venv golden && golden/bin/pip install torch torchvision transformers numpy pillow gguf
    golden/bin/python tools/goldens/vision_golden.py CONVERTER tests/golden/models/vision [NAME...]

Each is the real architecture of Hugging Face transformers with random weights, run in f32. Its text part is written to NAME.gguf,
as model_golden.py writes them, its encoder to mmproj-NAME.gguf by llama.cpp's own CONVERTER (convert_hf_to_gguf.py). NAME.images
has the images, their pixels after transformers' preprocessing by Pillow, the rows that the encoder gives, and the logits of a
prompt with the images. sides.txt,
longest-sides.txt and filled-sides.txt have the sides of images whose size is chosen (write_sides, write_longest_sides); windows.txt has orders of squares
(write_windows). Layout, all numbers little-endian: u32 images, tokens, vocabulary, width of a row; for each image u32
width, height, columns, lines, pixels, rows and its RGB bytes, padded to 4, then its f32 pixels and its f32 rows; i32 tokens,
f32 logits.
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from PIL import Image

import golden_gemma4_vision
import golden_tiled_vision
import model_golden
from model_golden_parts import STRING, U32, seed_of, write_gguf

BEFORE, AFTER = 101, 102  # tokens around an image
PAD = 103
LINE_END = 104


def axial(processor, images):
    found = processor(images, return_tensors="pt")
    return {"pixel_values": found["pixel_values"], "image_grid_thw": found["image_grid_thw"]}


def merged(model, inputs):
    """Rows of a Qwen encoder, those of all images together, and the columns and rows of each image."""
    grid = inputs["image_grid_thw"]
    found = model.model.get_image_features(**inputs, return_dict=True)
    parts = [torch.cat(list(found.pooler_output))]
    parts += [torch.cat(list(part)) for part in getattr(found, "deepstack_features", [])]
    merge = model.config.vision_config.spatial_merge_size
    return torch.cat(parts, 1), [(int(w) // merge, int(h) // merge) for _, h, w in grid]


def halves(inputs, count):
    """The pixels of each image: patches in the encoder's order, of two equal frames only the first."""
    patches = inputs["pixel_values"]
    counts = inputs["image_grid_thw"].prod(-1).tolist()
    width = patches.shape[1] // 3 // 2
    first = patches.reshape(patches.shape[0], 3, 2, width)[:, :, 0].reshape(patches.shape[0], -1)
    return torch.split(first, counts)


def window_order(grid, patch=14):
    """Squares of images in the order of an encoder with windows of 112 pixels."""
    return transformers.models.qwen2_5_vl.modeling_qwen2_5_vl.get_vision_window_index(grid, 2, 112, patch)[0]


def halves_in_windows(inputs, count):
    """As halves(), window by window."""
    patches = [part.unflatten(0, (-1, 4)) for part in halves(inputs, count)]
    return [part[window_order(grid[None])].flatten(0, 1) for part, grid in zip(patches, inputs["image_grid_thw"], strict=True)]


def qwen_processor(name, patch, merge, mean, std):
    kind = getattr(transformers.models.qwen2_vl.image_processing_pil_qwen2_vl, "Qwen2VLImageProcessorPil")
    unit = patch * merge
    return kind(patch_size=patch, merge_size=merge, image_mean=mean, image_std=std,
                size={"shortest_edge": 8 * unit * unit, "longest_edge": 4096 * unit * unit})


QWEN3VL = {
    **model_golden.SMALL, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "vocab_size": 112,
    "max_position_embeddings": 128, "rope_parameters": model_golden.rope(2000.0, mrope_section=[3, 3, 2])}

QWEN2VL = {
    **model_golden.SMALL, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "vocab_size": 112, "max_position_embeddings": 128,
    "rope_parameters": model_golden.rope(1000.0, mrope_section=[2, 1, 1])}


def squares(processor, images):
    return {"pixel_values": processor(images, return_tensors="pt")["pixel_values"]}


def pooled(model, inputs):
    """Rows of an encoder of squares."""
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    side = math.isqrt(rows.shape[1])
    return rows.flatten(0, 1), [(side, side)] * rows.shape[0]


def in_groups(patch, merge):
    """The pixels of each square in patches, those that become one row behind each other."""
    def pixels(inputs, count):
        images = inputs["pixel_values"]
        side = images.shape[2] // patch // merge
        parts = images.reshape(count, 3, side, merge, patch, side, merge, patch).permute(0, 2, 5, 3, 6, 1, 4, 7)
        return [part.reshape(-1, 3 * patch * patch) for part in parts]
    return pixels


def padded(processor, images):
    found = processor(images, return_tensors="pt")
    return {"pixel_values": found["pixel_values"], "image_sizes": found["image_sizes"]}


def with_line_ends(model, inputs):
    """Rows of Pixtral's encoder with the embedding that stands between lines."""
    parts = model.model.get_image_features(**inputs, vision_feature_layer=-1, return_dict=True).pooler_output
    unit = model.config.vision_config.patch_size * model.config.spatial_merge_size
    grids = [(int(w) // unit, int(h) // unit) for h, w in inputs["image_sizes"]]
    end = model.model.language_model.embed_tokens.weight[LINE_END][None]
    rows = []
    for part, (columns, lines) in zip(parts, grids, strict=True):
        for line in range(lines):
            rows += [part[line * columns:(line + 1) * columns], *[end] * (line + 1 < lines)]
    return torch.cat(rows), grids


def in_their_sizes(patch, merge):
    """As in_groups, of images that are padded to one size."""
    def pixels(inputs, count):
        found = []
        for image, (height, width) in zip(inputs["pixel_values"], inputs["image_sizes"].tolist(), strict=True):
            lines, columns = height // patch // merge, width // patch // merge
            part = image[:, :height, :width].reshape(3, lines, merge, patch, columns, merge, patch)
            found.append(part.permute(1, 4, 2, 5, 0, 3, 6).reshape(-1, 3 * patch * patch))
        return found
    return pixels


def pixtral_processor():
    kind = transformers.models.pixtral.image_processing_pil_pixtral.PixtralImageProcessorPil
    return kind(patch_size={"height": 16, "width": 16}, size={"longest_edge": 48}, image_mean=[0.48, 0.45, 0.41],
                image_std=[0.27, 0.26, 0.28])


def line_ends(ids, grids):
    """The ids of the prompt as transformers takes it: another token stands between the lines of an image."""
    ids, at = ids.clone(), 0
    for columns, lines in grids:
        at = at + int((ids[0, at:] == PAD).nonzero()[0])
        for line in range(1, lines):
            ids[0, at + line * (columns + 1) - 1] = LINE_END
        at += lines * (columns + 1) - 1
    return ids


def glm4v_processor():
    kind = transformers.models.glm4v.image_processing_pil_glm4v.Glm4vImageProcessorPil
    return kind(patch_size=8, merge_size=2, image_mean=[0.48, 0.45, 0.41], image_std=[0.27, 0.26, 0.28],
                size={"shortest_edge": 2 * 8 * 16 * 16, "longest_edge": 2 * 6144 * 16 * 16})


def halves_of_pairs(name, values, config):
    """The converter puts the elements of a head that turn together apart, the first ones before the second ones."""
    if ".attn_q." not in name and ".attn_k." not in name:
        return values
    head_dim = config.hidden_size // config.num_attention_heads
    heads = values.reshape(-1, head_dim, *values.shape[1:])
    turned = int(head_dim * config.rope_parameters["partial_rotary_factor"])
    order = [*range(0, turned, 2), *range(1, turned, 2), *range(turned, head_dim)]
    return numpy.ascontiguousarray(heads[:, order].reshape(values.shape))


def gemma3_processor():
    kind = transformers.models.gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil
    return kind(size={"height": 64, "width": 64}, image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])


# name: architecture, class, text, vision, further keys of the text file, processor, pixels of an image, rows
MODELS = {
    "qwen3vl": {
        "architecture": "qwen3vl", "family": "Qwen3VL", "text": QWEN3VL,
        "vision": {"depth": 3, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "patch_size": 8,
                   "spatial_merge_size": 2, "out_hidden_size": 32, "num_position_embeddings": 36,
                   "deepstack_visual_indexes": [0, 1]},
        "keys": [("qwen3vl.n_deepstack_layers", U32, 2)],
        "processor": lambda: qwen_processor("qwen3vl", 8, 2, [0.5, 0.45, 0.4], [0.5, 0.6, 0.55]),
        "sizes": [(64, 32), (48, 64), (45, 61)]},
    "qwen2vl": {
        "architecture": "qwen2vl", "family": "Qwen2VL", "text": QWEN2VL,
        "vision": {"depth": 3, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2, "num_heads": 2, "patch_size": 8,
                   "spatial_merge_size": 2},
        "keys": [], "processor": lambda: qwen_processor("qwen2vl", 8, 2, [0.5, 0.45, 0.4], [0.5, 0.6, 0.55]),
        "sizes": [(64, 32), (45, 61)]},
    "qwen25vl": {  # windows have 4 x 4 squares of 28 pixels
        "architecture": "qwen2vl", "family": "Qwen2_5_VL", "text": QWEN2VL,
        "vision": {"depth": 3, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "patch_size": 14,
                   "spatial_merge_size": 2, "window_size": 112, "fullatt_block_indexes": [1], "out_hidden_size": 32},
        "keys": [], "processor": lambda: qwen_processor("qwen25vl", 14, 2, [0.5, 0.45, 0.4], [0.5, 0.6, 0.55]),
        "pixels": halves_in_windows,
        "sizes": [(140, 56), (60, 142)]},
    "glm4v": {
        "architecture": "glm4", "family": "Glm4v", "text": {
            **model_golden.SMALL, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "rms_norm_eps": 1e-5, "vocab_size": 112, "attention_bias": True, "pad_token_id": 0,
            "rope_parameters": model_golden.rope(1000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])},
        "vision": {"depth": 2, "hidden_size": 32, "intermediate_size": 24, "num_heads": 2, "patch_size": 8, "image_size": 40,
                   "spatial_merge_size": 2, "out_hidden_size": 32},
        "keys": [], "processor": glm4v_processor, "text_tensor": halves_of_pairs, "sizes": [(64, 32), (45, 61)]},
    "gemma3": {
        "architecture": "gemma3", "family": "Gemma3", "text": {**model_golden.MODELS["gemma3"][2], "num_hidden_layers": 6},
        "vision": {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64,
                   "patch_size": 8, "vision_use_head": False},
        "config": {"mm_tokens_per_image": 4}, "keys": [], "processor": gemma3_processor, "inputs": squares, "rows": pooled,
        "pixels": in_groups(8, 4), "kinds": "token_type_ids", "sizes": [(64, 64), (90, 50)]},
    "pixtral": {
        "architecture": "llama", "family": "Mistral3", "text": {
            **model_golden.SMALL, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-5,
            "model_type": "mistral", "sliding_window": None, "rope_parameters": model_golden.rope(2000.0)},
        "vision": {"model_type": "pixtral", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3,
                   "num_attention_heads": 2, "image_size": 48, "patch_size": 8, "hidden_act": "silu"},
        "config": {"spatial_merge_size": 2}, "keys": [], "processor": pixtral_processor, "inputs": padded,
        "rows": with_line_ends, "pixels": in_their_sizes(8, 2), "kinds": None, "ids": line_ends,
        "counts": lambda grids: [lines * (columns + 1) - 1 for columns, lines in grids],
        "sizes": [(40, 24), (90, 50), (20, 48)]},
}
MODELS.update(golden_gemma4_vision.models(model_golden.SMALL))
MODELS.update(golden_tiled_vision.models(model_golden.SMALL, model_golden.rope))


def spread(model, generator):
    """Random weights of the encoder with which every part of it matters."""
    for name, weight in model.named_parameters():
        if not name.startswith(model_golden.SEEING_PARTS):
            continue
        if weight.dim() == 1 and name.endswith("weight"):
            offset = 1.0 if "soft_emb_norm" in name else 0.0
            values = 0.5 + torch.rand(weight.shape, generator=generator) - offset
        elif weight.dim() == 1 or "pos" in name:
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        else:
            values = 1.2 / math.sqrt(math.prod(weight.shape[1:])) * torch.randn(weight.shape, generator=generator)
        if "input_projection" in name:  # the converter stores it as F16
            values = values.half().float()
        weight.data.copy_(values)


def picture(width, height, generator):
    """Waves of three colours with noise, so that neighbours are alike as in photographs."""
    y, x = numpy.mgrid[0:height, 0:width]
    phases = 6.3 * torch.rand(3, 3, generator=generator).numpy()
    waves = [numpy.sin(x / 7.0 * (1 + p[0] / 6) + p[1]) * numpy.cos(y / 9.0 + p[2]) for p in phases]
    noise = torch.rand(height, width, 3, generator=generator).numpy()
    return Image.fromarray(numpy.uint8(numpy.clip(128 + 90 * numpy.stack(waves, 2) + 60 * (noise - 0.5), 0, 255)))


def build(name):
    own = MODELS[name]
    config = getattr(transformers, own["family"] + "Config")(
        text_config={**model_golden.SIZES, **own["text"]}, vision_config=own["vision"], image_token_id=PAD,
        **own.get("config", {}))
    config._attn_implementation = "eager"
    model = getattr(transformers, own["family"] + "ForConditionalGeneration")(config).float().eval()
    generator = torch.Generator().manual_seed(seed_of("vision/" + name))
    model_golden.spread(model, generator, 1.0 if own["architecture"] in model_golden.NORMS_FROM_ZERO else 0.0)
    spread(model, generator)
    own.get("buffers", lambda _, __: None)(model, generator)
    return model, generator


def own_name(name, key):
    """The name that published files and the converter have for one that transformers has changed. The converter passes over all
    names with "language_model.", also the embedding of which it takes the row between lines."""
    if key == "model.language_model.embed_tokens.weight" and name == "pixtral":
        return "embed_tokens.weight"
    tower = "vision_tower."
    return key.replace(tower, tower + "vision_model.") if name in ("gemma3", "lfm2") and "vision_model" not in key else key


def convert(converter, name, model, processor, target):
    with tempfile.TemporaryDirectory() as folder:
        if "save" in MODELS[name]:
            MODELS[name]["save"](model, folder)
        else:
            model.save_pretrained(folder, state_dict={own_name(name, key): value for key, value in model.state_dict().items()})
        names = {str(LINE_END): {"content": "[IMG_BREAK]"}}
        pathlib.Path(folder, "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": names}))
        config = pathlib.Path(folder, "preprocessor_config.json")
        config.write_text(json.dumps({"image_mean": list(processor.image_mean), "image_std": list(processor.image_std),
                                      "image_seq_length": getattr(model.config, "mm_tokens_per_image", 0),
                                      **MODELS[name].get("preprocessor", {})}))
        subprocess.run([sys.executable, converter, folder, "--mmproj", "--outtype", "f32", "--outfile", str(target)],
                       check=True, stdout=subprocess.DEVNULL)
    if "encoder_keys" in MODELS[name]:
        golden_tiled_vision.add_keys(target, MODELS[name]["encoder_keys"])


def prompt(images, generator):
    """Texts around the images, of which each is the tokens that stand for it."""
    def text(length):
        return torch.randint(4, 100, (length,), generator=generator).tolist()
    tokens = text(5)
    for image in images:
        tokens += [BEFORE, *image, AFTER, *text(4)]
    return torch.tensor([tokens])


def make(converter, folder, name):
    own = MODELS[name]
    model, generator = build(name)
    processor = own["processor"]()
    images = [picture(width, height, generator) for width, height in own["sizes"]]
    inputs = own.get("inputs", axial)(processor, images)
    with torch.no_grad():
        rows, grids = own.get("rows", merged)(model, inputs)
        tiles = own.get("tiles", lambda _, found: [1] * len(found))(processor, images)
        if len(grids) == sum(tiles):  # of each tile; those of an image are alike
            grids = [grids[sum(tiles[:image])] for image in range(len(images))]
        grids = grids if len(grids) == len(images) else grids * len(images)
        counts = own.get("counts", lambda found: [x * y * count for (x, y), count in zip(found, tiles, strict=True)])(grids)
        spelled = own.get("spelled", lambda pad, count, _: [pad] * count)
        ids = prompt([spelled(PAD, count, of) for count, of in zip(counts, tiles, strict=True)], generator)
        kinds = (ids == PAD).long()
        extra = {own.get("kinds", "mm_token_type_ids"): kinds}
        extra.pop(None, None)
        extra.update(own.get("masks", lambda *_: {})(model, ids, kinds))
        logits = model(input_ids=own.get("ids", lambda found, _: found)(ids, grids), **inputs, **extra, use_cache=False).logits[0].numpy()
    text = model.config.text_config
    pairs = [*model_golden.metadata(own["architecture"], own["architecture"], text), *own["keys"],
             ("tokenizer.ggml.model", STRING, "none")]
    stored = own.get("text_tensor", lambda _, values, __: values)
    tensors = [(key, stored(key, values, text))
               for key, values in model_golden.tensors(own["architecture"], own["architecture"], text, model)]
    write_gguf(folder / f"{name}.gguf", pairs, tensors)
    convert(converter, name, model, processor, folder / f"mmproj-{name}.gguf")
    data = struct.pack("<IIII", len(images), ids.shape[1], logits.shape[1], rows.shape[1])
    pixels_of = own.get("pixels", halves) if "tiles" not in own else own["pixels"](tiles)
    for image, pixels, (columns, lines), part in zip(
            images, pixels_of(inputs, len(images)), grids, torch.split(rows, counts), strict=True):
        rgb = image.tobytes()
        data += struct.pack("<IIIIII", image.width, image.height, columns, lines, pixels.numel(), part.shape[0]) + rgb + bytes(-len(rgb) % 4)
        data += pixels.numpy().astype("<f4").tobytes() + part.numpy().astype("<f4").tobytes()
    data += ids[0].numpy().astype("<i4").tobytes() + logits.astype("<f4").tobytes()
    (folder / f"{name}.images").write_bytes(data)
    print(f"{name:10} {rows.shape[0]} rows of {rows.shape[1]}, spread {rows.std():.2f}; logits {logits.std():.2f}")


def write_sides(path):
    """Sides of 200 images after transformers' choice: patch, least and most tokens, width, height, the new two."""
    resize = transformers.models.qwen2_vl.image_processing_pil_qwen2_vl.smart_resize
    generator = torch.Generator().manual_seed(seed_of("vision/sides"))
    lines = []
    while len(lines) < 200:
        patch, most = [(14, 4096), (16, 1024), (16, 64), (14, 16)][len(lines) % 4]
        width, height = (int(2 ** (12 * x)) for x in torch.rand(2, generator=generator).tolist())
        unit = 2 * patch
        if max(width, height) > 50 * min(width, height):
            continue
        high, wide = resize(height, width, unit, 8 * unit * unit, most * unit * unit)
        if high * wide <= most * unit * unit:
            lines.append(f"{patch} 8 {most} {width} {height} {wide} {high}\n")
    path.write_text("".join(lines))


def write_longest_sides(path):
    """Sides of 100 images after transformers' choice for Pixtral: unit, longest side, width, height, the new two."""
    resize = transformers.models.pixtral.image_processing_pil_pixtral.get_resize_output_image_size
    generator = torch.Generator().manual_seed(seed_of("vision/longest"))
    lines = []
    while len(lines) < 100:
        unit, longest = [(16, 1024), (28, 1540)][len(lines) % 2]
        width, height = (int(2 ** (4 + 8 * x)) for x in torch.rand(2, generator=generator).tolist())
        if max(width, height) > 50 * min(width, height):
            continue
        pixels = numpy.zeros((3, height, width), numpy.uint8)
        high, wide = resize(pixels, longest, unit, transformers.image_utils.ChannelDimension.FIRST)
        if min(high, wide) > 0:
            lines.append(f"{unit} {longest} {width} {height} {wide} {high}\n")
    path.write_text("".join(lines))


def write_windows(path):
    """The order of squares of 30 images in an encoder with windows of 4 x 4 of them, as transformers has it: columns, lines, and
    the index of each square line by line."""
    generator = torch.Generator().manual_seed(seed_of("vision/windows"))
    text = ""
    for columns, lines in torch.randint(1, 14, (30, 2), generator=generator).tolist():
        found = window_order(torch.tensor([[1, 2 * lines, 2 * columns]])).tolist()
        text += " ".join(map(str, [columns, lines, *found])) + "\n"
    path.write_text(text)


def main():
    converter, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    write_sides(folder / "sides.txt")
    write_windows(folder / "windows.txt")
    write_longest_sides(folder / "longest-sides.txt")
    golden_gemma4_vision.write_sides(folder / "filled-sides.txt", torch.Generator().manual_seed(seed_of("vision/filled")))
    golden_tiled_vision.write_grids(folder / "tile-grids.txt", torch.Generator().manual_seed(seed_of("vision/grids")))
    golden_tiled_vision.write_multiples(folder / "tile-multiples.txt", torch.Generator().manual_seed(seed_of("vision/multiples")))
    for name in MODELS:
        if name in sys.argv[3:] or len(sys.argv) == 3:
            make(converter, folder, name)


if __name__ == "__main__":
    main()
