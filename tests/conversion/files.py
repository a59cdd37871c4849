"""Files of the converter and the quantiser, and what is in them."""
import contextlib
import io
import json
import logging
import pathlib
import subprocess
import sys

import numpy
import torch

KINDS = {"F32": 0, "F16": 1}  # llama.cpp's numbers of file types


def find_converter(sources):
    """Makes the converter's modules importable."""
    sys.path[:0] = [str(pathlib.Path(sources) / "gguf-py"), str(sources)]
    logging.disable(logging.WARNING)


def convert(folder, out, kind="F32"):
    """The converter's file of a model that transformers saved, without a vocabulary."""
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    # Read as it stands: through a class of transformers it would get keys of other models.
    ModelBase.load_hparams = staticmethod(lambda path, is_mistral_format=False: json.loads((pathlib.Path(path) / "config.json").read_text()))
    with torch.inference_mode(), contextlib.redirect_stderr(io.StringIO()):
        found = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
        for each in (found, *(own for own in vars(found).values() if isinstance(own, type))):  # some choose among classes of their own
            each.set_vocab = lambda self: self._set_vocab_none()
            each.no_mtp = each.supports_mtp_export
        found(folder, gguf.LlamaFileType(KINDS[kind]), out).write()


def quantise(program, source, out, kind):
    done = subprocess.run([program, "--allow-requantize", source, out, kind, "2"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the quantiser: {done.stderr.strip().splitlines()[-1:]}")


def read(path):
    """The values of a file's keys, and its tensors in F32."""
    import gguf

    reader = gguf.GGUFReader(path)
    values = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    tensors = {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32).reshape(
            *reversed([int(size) for size in tensor.shape]))
        for tensor in reader.tensors}
    return values, tensors


def types(path):
    """How many tensors a file has of each type, but F32."""
    import gguf

    counts = {}
    for tensor in gguf.GGUFReader(path).tensors:
        counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
    counts.pop("F32", None)
    return counts


def dequantised(path, out):
    """The same file with every tensor in F32."""
    import gguf

    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for name, values in read(path)[1].items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
