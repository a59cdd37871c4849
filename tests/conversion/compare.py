"""Compares one model after another with transformers: a line of JSON for each. Run by run.py, in its virtual environment."""
import argparse
import json
import pathlib
import shutil
import sys

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools/goldens"), str(ROOT / "python")]

import drawn  # noqa: E402: found by the path above
import files  # noqa: E402
import model_golden  # noqa: E402

TOKENS = 40


def error(ours, theirs):
    return float(numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs))


def logits(path, ids, **options):
    """[tokens, vocabulary] token by token, after a check that the whole text gives the last ones too."""
    import rocmforge

    with rocmforge.Model(str(path), device="cpu", kv_type="f32", ctx_size=128, **options) as model:
        with model.sequence() as sequence:
            rows = numpy.stack([sequence.append([token]) for token in ids])
        if not numpy.array_equal(model.logits(ids), rows[-1]):
            raise AssertionError("the text at once gives other logits than token by token")
    return rows


def compare(folder, name, index, arguments):
    architecture, family, own = model_golden.MODELS[name]
    own = drawn.draw(name, own, arguments.seed, index)
    torch.manual_seed(index)
    model, config, generator = model_golden.build(f"{name} {arguments.seed} {index}", architecture, family, own)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # others take only some widths
    ids = torch.randint(0, config.vocab_size, (1, TOKENS), generator=generator)
    with torch.no_grad():
        theirs = model(ids, use_cache=False).logits[0].numpy()
    model.save_pretrained(folder)
    drawn.complete(folder, name)
    tokens, result = ids[0].tolist(), {}
    whole = folder / "F32.gguf"
    files.convert(folder, whole)
    result["experts"] = any("_exps." in name for name in files.read(whole)[1])
    result["F32"] = error(logits(whole, tokens), theirs)
    quantised = ["Q8_0", "Q4_K_M"] if arguments.quantiser and name not in drawn.NOT_QUANTISED else []
    for kind in ["F16", *quantised]:
        other = folder / f"{kind}.gguf"
        if kind == "F16":
            files.convert(folder, other, kind)
        else:
            files.quantise(arguments.quantiser, whole, other, kind)
        if not files.types(other):
            continue
        files.dequantised(other, folder / "plain.gguf")
        plain, rows = logits(folder / "plain.gguf", tokens), logits(other, tokens)
        result[kind] = error(logits(other, tokens, matmul="reference"), plain)
        result[f"{kind}, fast"] = error(rows, plain)
        result[f"{kind} and transformers"] = error(rows, theirs)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sources")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quantiser")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    files.find_converter(arguments.sources)
    for name in arguments.only.split(",") if arguments.only else drawn.names(model_golden.MODELS):
        for index in range(arguments.draws):
            folder = arguments.folder / f"{name}-{index}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                result = compare(folder, name, index, arguments)
            except Exception as problem:  # whatever the converter or a class throws is this model's result
                result = {"problem": f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"}
            print(json.dumps({"name": name, "index": index, **result}), flush=True)


if __name__ == "__main__":
    main()
