"""What tools/goldens/vision_golden.py knows of Gemma 4's encoder: sizes, pixels, and numbers that are no parameters."""
import torch
import transformers

import golden_gemma4

PATCH, POOL, MOST = 8, 3, 12  # pixels, patches and rows

VISION = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "head_dim": 16, "patch_size": PATCH, "pooling_kernel_size": POOL, "position_embedding_size": 40,
    "allow_global_per_layer_attribute_access": True}


def processor():
    kinds = transformers.models.gemma4.image_processing_pil_gemma4
    kinds._SUPPORTED_SOFT_TOKENS = (*kinds._SUPPORTED_SOFT_TOKENS, MOST)  # the library's are for images of real sizes
    return kinds.Gemma4ImageProcessorPil(patch_size=PATCH, max_soft_tokens=MOST, pooling_kernel_size=POOL)


def inputs(processor, images):
    found = processor(images, return_tensors="pt")
    return {"pixel_values": found["pixel_values"], "image_position_ids": found["image_position_ids"]}


def grids(inputs):
    """Columns and lines of squares of each image."""
    return [tuple((int(last) + 1) // POOL for last in places.max(0).values) for places in inputs["image_position_ids"]]


def rows(model, inputs):
    found = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    return torch.cat(list(found)), grids(inputs)


def pixels(inputs, count):
    """Patches line by line of images that are padded to one number, as squares, normalised as the model does it."""
    found = []
    for image, (columns, lines) in zip(inputs["pixel_values"], grids(inputs), strict=True):
        own = image[:columns * lines * POOL * POOL].reshape(lines, POOL, columns, POOL, PATCH, PATCH, 3)
        found.append(2 * (own.permute(0, 2, 1, 3, 6, 4, 5).reshape(-1, 3 * PATCH * PATCH) - 0.5))
    return found


of_gemma4 = processor


def unified_processor():
    kinds = transformers.models.gemma4_unified.image_processing_gemma4_unified
    kinds._SUPPORTED_SOFT_TOKENS = (*kinds._SUPPORTED_SOFT_TOKENS, MOST)
    return kinds.Gemma4UnifiedImageProcessor(patch_size=PATCH, max_soft_tokens=MOST, pooling_kernel_size=POOL)


def unified_inputs(processor, images):
    """The library has no processor of this model by Pillow: its images are resized by that of Gemma 4, which is the same but for
    the squares, whose patches are joined to one here."""
    resized = inputs(of_gemma4(), images)
    side, pictures, places = PATCH * POOL, [], []
    for image, (columns, lines) in zip(resized["pixel_values"], grids(resized), strict=True):
        own = image[:columns * lines * POOL * POOL].reshape(lines, POOL, columns, POOL, PATCH, PATCH, 3)
        squares = own.permute(0, 2, 1, 4, 3, 5, 6).reshape(-1, side * side * 3)
        at = torch.tensor([(x, y) for y in range(lines) for x in range(columns)])
        rest = MOST - len(at)
        pictures.append(torch.nn.functional.pad(squares, (0, 0, 0, rest)))
        places.append(torch.nn.functional.pad(at, (0, 0, 0, rest), value=-1))
    return {"pixel_values": torch.stack(pictures), "image_position_ids": torch.stack(places)}


def unified_grids(inputs):
    return [tuple(int(last) + 1 for last in places.max(0).values) for places in inputs["image_position_ids"]]


def unified_rows(model, inputs):
    found = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    return torch.cat(list(found)), unified_grids(inputs)


def unified_pixels(inputs, count):
    side = PATCH * POOL
    return [image[:columns * lines].reshape(-1, side, side, 3).permute(0, 3, 1, 2).reshape(-1, 3 * side * side)
            for image, (columns, lines) in zip(inputs["pixel_values"], unified_grids(inputs), strict=True)]


def unified_masks(model, ids, kinds):
    """Those of the library's generate(). A bare forward() of this class sees images in both directions in all layers, which Gemma 4
    "explicitly" does not, as the class says."""
    embeds = torch.zeros(*ids.shape, model.config.text_config.hidden_size)
    masks = model.create_masks_for_generate(model.config, embeds, None, None, None, mm_token_type_ids=kinds)
    return {"attention_mask": masks}


def spread_buffers(model, generator):
    """Limits of linear layers, some of which are passed, and the standardisation. Layers of one input have one limit of it."""
    inputs = {}
    for name, buffer in model.named_buffers():
        part = name.rsplit(".", 1)[-1]
        if part in ("std_bias", "std_scale"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
        elif part in ("input_min", "input_max", "output_min", "output_max"):
            size = 1.0 + float(torch.rand((), generator=generator))
            if part.startswith("input"):
                group = name
                for projection in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"):
                    group = group.replace(projection, "several" if projection[0] in "qkv" else "both")
                size = inputs.setdefault(group, size)
            buffer.fill_(size if part.endswith("max") else -size)


def write_sides(path, generator):
    """Sides of 100 images after transformers' choice: patch, squares' sides in patches, most rows, width, height, the new two."""
    choose = transformers.models.gemma4.image_processing_pil_gemma4.get_aspect_ratio_preserving_size
    lines = []
    for index, (x, y) in enumerate(torch.rand(100, 2, generator=generator).tolist()):
        width, height, most = int(2 ** (3 + 9 * x)), int(2 ** (3 + 9 * y)), (280, 70, 12)[index % 3]
        if max(width, height) <= 200 * min(width, height):
            high, wide = choose(height, width, 16, most * POOL * POOL, POOL)
            lines.append(f"16 {POOL} {most} {width} {height} {wide} {high}\n")
    path.write_text("".join(lines))


def models(sizes):
    """Large models see an image in both directions in layers with windows; small ones do not, and have limits."""
    text = golden_gemma4.models(sizes)
    common = {
        "architecture": "gemma4", "family": "Gemma4", "keys": [], "processor": processor, "inputs": inputs, "rows": rows,
        "pixels": pixels, "buffers": spread_buffers}
    return {
        "gemma4": {
            **common, "text": {**text["gemma4"][2], "use_bidirectional_attention": "vision"},
            "vision": {**VISION, "standardize": True}, "sizes": [(64, 64), (90, 30)]},
        "gemma4-e": {
            **common, "text": {**text["gemma4-e"][2], "pad_token_id": 103},
            "vision": {**VISION, "use_clipped_linears": True}, "kinds": None, "sizes": [(50, 90), (30, 31)]},
        "gemma4-u": {
            **common, "family": "Gemma4Unified", "text": {**text["gemma4"][2], "use_bidirectional_attention": "vision"},
            "vision": {"patch_size": PATCH, "pooling_kernel_size": POOL, "mm_embed_dim": 32, "mm_posemb_size": 14,
                       "output_proj_dims": 32},
            "config": {"audio_config": {"audio_embed_dim": 32, "output_proj_dims": 32}},
            "inputs": unified_inputs, "rows": unified_rows, "pixels": unified_pixels, "masks": unified_masks, "sizes": [(64, 64), (90, 30)]},
    }
