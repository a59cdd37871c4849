"""The image encoder: a small vision transformer in the form of InternVL's, and its GGUF file (mmproj)."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import gguf_file

MARKS = ["<img>", "<IMG_CONTEXT>", "</img>"]  # before an image, of each of its rows, behind it


@dataclass
class EyesConfig:
    image: int = 48  # sides that every picture is stretched to
    patch: int = 12
    hidden: int = 128
    layers: int = 3
    heads: int = 2
    ffn: int = 256
    merge: int = 2  # sides, in patches, of the square that becomes a row
    text: int = 512  # width of the language model
    eps: float = 1e-6

    @property
    def side(self):
        return self.image // self.patch

    @property
    def rows(self):
        return (self.side // self.merge) ** 2


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.ln1, self.ln2 = nn.LayerNorm(c.hidden, c.eps), nn.LayerNorm(c.hidden, c.eps)
        self.attn_q, self.attn_k, self.attn_v = (nn.Linear(c.hidden, c.hidden, bias=False) for _ in range(3))
        self.attn_out = nn.Linear(c.hidden, c.hidden)
        self.ffn_up, self.ffn_down = nn.Linear(c.hidden, c.ffn), nn.Linear(c.ffn, c.hidden)
        self.ls1, self.ls2 = nn.Parameter(torch.ones(c.hidden)), nn.Parameter(torch.ones(c.hidden))

    def forward(self, x):
        h = self.ln1(x)
        q, k, v = (part(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.attn_q, self.attn_k, self.attn_v))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.ls1 * self.attn_out(a)
        return x + self.ls2 * self.ffn_down(F.gelu(self.ffn_up(self.ln2(x))))


class Eyes(nn.Module):
    """From pixels [batch, 3, image, image] to rows [batch, rows, text] that stand among the words of a prompt."""

    def __init__(self, config):
        super().__init__()
        self.config = c = config
        self.patch_embd = nn.Conv2d(3, c.hidden, c.patch, c.patch)
        self.class_embd = nn.Parameter(torch.zeros(c.hidden))
        self.position_embd = nn.Parameter(torch.randn(c.side ** 2 + 1, c.hidden) * .1)  # the class's comes first
        self.blk = nn.ModuleList(Layer(c) for _ in range(c.layers))
        joined = c.merge ** 2 * c.hidden
        self.norm, self.first, self.second = nn.LayerNorm(joined, 1e-5), nn.Linear(joined, c.text), nn.Linear(c.text, c.text)
        nn.init.normal_(self.second.weight, std=.1 * c.text ** -.5)

    def squares(self, pixels):
        """The joined states of each square's patches, which the projector gets."""
        c = self.config
        x = self.patch_embd(pixels).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_embd.expand(x.size(0), 1, -1), x), 1) + self.position_embd
        for layer in self.blk:
            x = layer(x)
        squares = x[:, 1:].unflatten(1, (c.side // c.merge, c.merge, c.side // c.merge, c.merge)).transpose(2, 3)
        return squares.flatten(1, 2).flatten(2)

    def features(self, squares):
        """[batch, rows, text] between the two layers of the projector."""
        return F.gelu(self.first(self.norm(squares)))

    def forward(self, pixels):
        return self.second(self.features(self.squares(pixels)))


def pixels_of(images, config):
    """Of PIL images, stretched and normalised as the engine does it."""
    from PIL import Image
    sides = (config.image, config.image)
    arrays = [np.asarray(image.resize(sides, Image.BICUBIC), dtype=np.uint8) for image in images]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)


def normalised(pixels):
    return pixels.float() / 127.5 - 1


def metadata_of(c):
    return {
        "general.architecture": "clip", "general.type": "mmproj", "general.name": "ROCmForge demo's eyes",
        "general.license": "apache-2.0", "general.file_type": 7, "general.quantization_version": 2,
        "general.alignment": gguf_file.ALIGNMENT, "clip.has_vision_encoder": True, "clip.projector_type": "internvl",
        "clip.use_gelu": True, "clip.vision.projection_dim": c.text, "clip.vision.image_size": c.image,
        "clip.vision.patch_size": c.patch, "clip.vision.embedding_length": c.hidden,
        "clip.vision.feed_forward_length": c.ffn, "clip.vision.block_count": c.layers,
        "clip.vision.attention.head_count": c.heads, "clip.vision.attention.layer_norm_epsilon": c.eps,
        "clip.vision.image_mean": [.5, .5, .5], "clip.vision.image_std": [.5, .5, .5],
        "clip.vision.projector.scale_factor": c.merge, "clip.vision.preproc_min_tiles": 1,
        "clip.vision.preproc_max_tiles": 1,
    }


def file_name(name):
    for ours, of_file in (("norm.", "mm.model.mlp.0."), ("first.", "mm.model.mlp.1."), ("second.", "mm.model.mlp.3.")):
        if name.startswith(ours):
            return of_file + name[len(ours):]
    return "v." + name + ("" if name.endswith((".weight", ".bias")) or name == "class_embd" else ".weight")


def read(path):
    """The encoder of a file that write() has written."""
    tensors, eyes = gguf_file.read(path)[1], Eyes(EyesConfig())
    eyes.load_state_dict({name: torch.tensor(tensors[file_name(name)]).reshape(value.shape)
                          for name, value in eyes.state_dict().items()})
    return eyes


def write(path, eyes):
    """Matrices of layers in Q8_0, the product of the patches in F16, the rest in F32."""
    tensors = {}
    for name, weight in eyes.state_dict().items():
        kind = {2: gguf_file.TYPE_Q8_0, 4: gguf_file.TYPE_F16}.get(weight.dim(), gguf_file.TYPE_F32)
        values = weight.detach().float().numpy()
        if name == "class_embd":
            values = values.reshape(1, 1, -1)
        if name == "position_embd":
            values, kind = values.reshape(1, *values.shape), gguf_file.TYPE_F32
        tensors[file_name(name)] = values, kind
    gguf_file.write(path, metadata_of(eyes.config), tensors)
