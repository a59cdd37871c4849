"""What tools/goldens/vision_golden.py knows of encoders that see an image in tiles: their classes, sizes, pixels and files."""
import json
import pathlib

import gguf
import numpy
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

MEAN, STD = [0.48, 0.45, 0.41], [0.27, 0.26, 0.28]
TILE, PATCH, MERGE = 16, 4, 2


def in_groups(patch, merge):
    """The pixels of each square in patches, those that become one row behind each other."""
    def pixels(images):
        side = images.shape[2] // patch // merge
        parts = images.reshape(-1, 3, side, merge, patch, side, merge, patch).permute(0, 2, 5, 3, 6, 1, 4, 7)
        return parts.reshape(images.shape[0], -1)
    return pixels


def pixels_of_tiles(tiles):
    """The pixels of each image of a batch of tiles, of which the images have so many."""
    def pixels(inputs, count):
        return [part.flatten() for part in torch.split(in_groups(PATCH, MERGE)(inputs["pixel_values"]), tiles)]
    return pixels


def internvl_processor():
    return transformers.models.got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil(
        size={"height": TILE, "width": TILE}, crop_to_patches=True, min_patches=1, max_patches=2, image_mean=MEAN, image_std=STD)


def internvl_tiles(processor, images):
    return [processor.get_number_of_image_patches(image.height, image.width) for image in images]


def internvl_name(key):
    """The names of the files that are published, which the converter reads: Q, K and V are joined there."""
    for old, new in (("model.vision_tower.", "vision_model."), ("model.multi_modal_projector.layer_norm", "mlp1.0"),
                     ("model.multi_modal_projector.linear_1", "mlp1.1"), ("model.multi_modal_projector.linear_2", "mlp1.3"),
                     (".cls_token", ".class_embedding"), (".patch_embeddings.projection", ".patch_embedding"),
                     (".position_embeddings", ".position_embedding"), (".encoder.layer.", ".encoder.layers."),
                     ("attention.projection_layer", "attn.proj"), (".attention.", ".attn."), ("lambda_", "ls"),
                     ("layernorm_before", "norm1"), ("layernorm_after", "norm2")):
        key = key.replace(old, new)
    return key


def save_internvl(model, folder):
    vision = model.config.vision_config
    state = {}
    for key, value in model.state_dict().items():
        if key.startswith(("model.vision_tower.", "model.multi_modal_projector.")):
            state[internvl_name(key)] = value
    for key in [key for key in state if ".attn.q_proj." in key]:
        parts = [state.pop(key.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        state[key.replace("q_proj", "qkv")] = torch.cat(parts)
    save_file({key: value.contiguous() for key, value in state.items()}, pathlib.Path(folder, "model.safetensors"))
    config = {
        "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": model.config.downsample_ratio,
        "min_dynamic_patch": 1, "max_dynamic_patch": 2, "llm_config": {"hidden_size": model.config.text_config.hidden_size},
        "vision_config": {
            "architectures": ["InternVisionModel"], "model_type": "intern_vit_6b", "hidden_act": vision.hidden_act,
            "layer_norm_eps": vision.layer_norm_eps, "hidden_size": vision.hidden_size, "image_size": TILE, "patch_size": PATCH,
            "intermediate_size": vision.intermediate_size, "num_hidden_layers": vision.num_hidden_layers,
            "num_attention_heads": vision.num_attention_heads}}
    pathlib.Path(folder, "config.json").write_text(json.dumps(config))


def rows_of_tiles(model, inputs):
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    return torch.cat(list(rows)), [(TILE // PATCH // MERGE, TILE // PATCH // MERGE)]


def images_of(processor, images):
    return {"pixel_values": processor(images, return_tensors="pt")["pixel_values"]}


def idefics3_processor():
    kind = transformers.models.idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil
    return kind(size={"longest_edge": 2 * TILE}, max_image_size={"longest_edge": TILE}, image_mean=MEAN, image_std=STD)


def idefics3_tiles(processor, images):
    found = [processor([image], return_row_col_info=True, return_tensors="pt") for image in images]
    return [int(each["rows"][0][0]) * int(each["cols"][0][0]) + 1 for each in found]


def idefics3_inputs(processor, images):
    found = processor([images], return_tensors="pt")
    return {"pixel_values": found["pixel_values"], "pixel_attention_mask": found["pixel_attention_mask"]}


def idefics3_pixels(tiles):
    return lambda inputs, count: pixels_of_tiles(tiles)({"pixel_values": inputs["pixel_values"][0]}, count)


def marked(pad, count, tiles):
    """Each tile behind two tokens, which say which one it is."""
    return [token for tile in range(tiles) for token in (105, 106 + tile, *[pad] * (count // tiles))]


# The converter takes patches of 16 pixels alone. Limits that are small enough for tests are written into the file behind it.
LFM2 = {"unit": 32, "least": 1, "most": 2, "tile": 32, "tiles": 4}


def by_pillow(_, images, size, resample=None, **__):
    """Images of one size [n, 3, height, width] in another."""
    found = [Image.fromarray(image.permute(1, 2, 0).numpy()).resize((size.width, size.height), Image.Resampling.BILINEAR)
             for image in images]
    return torch.stack([torch.from_numpy(numpy.array(image)).permute(2, 0, 1) for image in found])


def lfm2_processor():
    """transformers has no processor of LFM2-VL that uses Pillow; this one does in its place."""
    transformers.image_processing_backends.TorchvisionBackend.resize = by_pillow
    return transformers.models.lfm2_vl.image_processing_lfm2_vl.Lfm2VlImageProcessor(
        min_image_tokens=LFM2["least"], max_image_tokens=LFM2["most"], tile_size=LFM2["tile"], max_tiles=LFM2["tiles"],
        image_mean=MEAN, image_std=STD)


def lfm2_tiles(processor, images):
    found = [processor([image], return_row_col_info=True, return_tensors="pt") for image in images]
    counts = [int(each["image_rows"][0]) * int(each["image_cols"][0]) for each in found]
    return [count + (count > 1) for count in counts]


def lfm2_inputs(processor, images):
    found = processor(images, return_tensors="pt")
    return {key: found[key] for key in ("pixel_values", "spatial_shapes", "pixel_attention_mask")}


def lfm2_rows(model, inputs):
    found = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    return torch.cat(list(found)), [(int(x) // MERGE, int(y) // MERGE) for y, x in inputs["spatial_shapes"]]


def lfm2_pixels(tiles):
    """The pixels of each image, in patches whose channels are apart, those of a row behind each other."""
    def pixels(inputs, count):
        found = []
        for values, (lines, columns) in zip(inputs["pixel_values"], inputs["spatial_shapes"].tolist(), strict=True):
            patches = values[:lines * columns].reshape(lines // MERGE, MERGE, columns // MERGE, MERGE, 16, 16, 3)
            found.append(patches.permute(0, 2, 1, 3, 6, 4, 5).flatten())
        parts = iter(found)
        return [torch.cat([next(parts) for _ in range(of)]) for of in tiles]
    return pixels


def add_keys(path, keys):
    """Writes a GGUF file again, with further numbers."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(path.with_suffix(".part"), reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1] if len(field.types) > 1 else None)
    for key, value in keys.items():
        writer.add_uint32(key, value)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, numpy.array(tensor.data), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".part").rename(path)


def models(sizes, rope):
    """The small encoder of InternVL, and the large one, which has other norms; Idefics 3; LFM2-VL."""
    qwen2 = {**sizes, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "vocab_size": 112,
             "model_type": "qwen2", "rope_parameters": rope(1000.0)}
    # The converter knows the names mlp1.0 to mlp1.3 only where there are as many layers.
    vision = {"hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2,
              "image_size": [TILE, TILE], "patch_size": [PATCH, PATCH], "attention_bias": True, "use_mean_pooling": True,
              "layer_norm_eps": 1e-6}
    internvl = {
        "architecture": "qwen2", "family": "InternVL", "text": qwen2, "vision": vision,
        "config": {"downsample_ratio": 0.5}, "keys": [], "processor": internvl_processor, "inputs": images_of,
        "tiles": internvl_tiles, "rows": rows_of_tiles, "pixels": pixels_of_tiles, "kinds": None, "save": save_internvl,
        "sizes": [(40, 30), (50, 20)]}
    large = {**vision, "norm_type": "rms_norm", "use_qk_norm": True, "attention_bias": False}
    idefics3 = {
        "architecture": "llama", "family": "Idefics3", "text": {
            **sizes, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 112,
            "model_type": "llama", "rope_parameters": rope(2000.0)},
        "vision": {"hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
                   "image_size": TILE, "patch_size": PATCH},
        "config": {"scale_factor": MERGE}, "keys": [], "processor": idefics3_processor, "inputs": idefics3_inputs,
        "tiles": idefics3_tiles, "rows": rows_of_tiles, "pixels": idefics3_pixels, "kinds": None, "spelled": marked,
        "preprocessor": {"size": {"longest_edge": 2 * TILE}}, "sizes": [(40, 30), (20, 48)]}
    lfm2 = {
        "architecture": "lfm2", "family": "Lfm2Vl", "text": {
            **sizes, "num_hidden_layers": 3, "num_key_value_heads": 2, "norm_eps": 1e-5, "block_auto_adjust_ff_dim": False,
            "layer_types": ["conv", "full_attention", "conv"], "vocab_size": 112, "model_type": "lfm2",
            "rope_parameters": rope(1000.0)},
        "vision": {"model_type": "siglip2_vision_model", "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 3,
                   "num_attention_heads": 2, "patch_size": 16, "num_patches": 256, "vision_use_head": False},
        "config": {"downsample_factor": MERGE, "projector_hidden_size": 40}, "keys": [], "processor": lfm2_processor,
        "inputs": lfm2_inputs, "tiles": lfm2_tiles, "rows": lfm2_rows, "pixels": lfm2_pixels, "kinds": None,
        "spelled": marked, "sizes": [(60, 30), (94, 90)],
        "encoder_keys": {"clip.vision.image_min_pixels": LFM2["least"] * LFM2["unit"] ** 2,
                         "clip.vision.image_max_pixels": LFM2["most"] * LFM2["unit"] ** 2,
                         "clip.vision.preproc_tile_size": LFM2["tile"], "clip.vision.preproc_max_tiles": LFM2["tiles"]}}
    return {"lfm2": lfm2, "internvl": internvl, "internvl-6b": {**internvl, "vision": large, "sizes": [(20, 50), (24, 24)]}, "idefics3": idefics3}


def write_multiples(path, generator):
    """The sides of 100 images after transformers' choice for Idefics 3: tile, longest side, width, height, the first size, the grid."""
    kinds = transformers.models.idefics3.image_processing_pil_idefics3
    processor = kinds.Idefics3ImageProcessorPil()
    sizes = []
    processor.resize = lambda image, size, resample=None: sizes.append(size)
    lines = []
    for index, (x, y) in enumerate(torch.rand(100, 2, generator=generator).tolist()):
        width, height = int(2 ** (4 + 8 * x)), int(2 ** (4 + 8 * y))
        tile, longest = ((364, 1456), (512, 2048), (384, 1536))[index % 3]
        first = kinds.get_resize_output_image_size(numpy.zeros((3, height, width), numpy.uint8), longest)
        processor.resize_for_vision_encoder(numpy.zeros((3, *first), numpy.uint8), tile)
        lines.append(f"{tile} {longest} {width} {height} {first[1]} {first[0]} {sizes[-1].width // tile} {sizes[-1].height // tile}\n")
    path.write_text("".join(lines))


def write_grids(path, generator):
    """The grids of 100 images after transformers' choice for InternVL: tile, least and most tiles, width, height, columns, lines."""
    choose = transformers.models.got_ocr2.image_processing_pil_got_ocr2.get_optimal_tiled_canvas
    lines = []
    for index, (x, y) in enumerate(torch.rand(100, 2, generator=generator).tolist()):
        width, height, least, most = int(2 ** (5 + 7 * x)), int(2 ** (5 + 7 * y)), (1, 2)[index % 2], (12, 6, 4)[index % 3]
        if index % 5 == 0:
            width = height = width // 64 * 64 + 64
        columns, rows = choose((height, width), (448, 448), least, most)
        lines.append(f"448 {least} {most} {width} {height} {columns} {rows}\n")
    path.write_text("".join(lines))
