"""This project's table: decode and prefill of the measured models, and attention, modelled."""
from .chips import CHIPS
from .isa import Unknown
from .models import BAND, BLOCK, EXPERT_MODELS, MEASURED, MEASURED_EXPERTS, MODELS, TUNED_BAND, VULKAN
from .own import Own
from .own_chains import chain_rows
from .own_experts import OwnExperts
from .own_packed import OwnPacked


def report(folder, chips, only=("decode", "prefill", "kernels")):
    wanted = chips or [name for name, chip in CHIPS.items() if (folder / chip.architecture / "matvec.hsaco").exists()]
    if not wanted:
        raise Unknown(f"{folder} holds no code objects of a known chip: ./forge kernels gfx1100 makes some")
    lines = ["| model | chip | | published: HIP | published: Vulkan | modelled | with the band | to the better one | at most |",
             "|---|---|---|---:|---:|---:|---:|---:|---:|"]
    shapes = ["| chip | kernel | case | us | bound | share of the limit |", "|---|---|---|---:|---|---|"]
    chains = []
    steps = ["| model | chip | | launch | of them | us each | us |", "|---|---|---|---|---:|---:|---:|"]
    for name in wanted:
        if name not in CHIPS:
            raise Unknown(f"no chip '{name}'; known: {', '.join(CHIPS)}")
        chip = CHIPS[name]
        own = Own(folder / chip.architecture, chip)
        for model_name, chip_name, decode, prefill, tokens in MEASURED:
            if chip_name == name:
                model = MODELS[model_name]
                if "decode" in only:
                    most = 1e9 * chip.memory_gbs / model.weight_bytes()
                    lines.append(row(model_name, name, "decode", decode, 1e6 / own.decode_us(model, chip.launch_us), most))
                    if own.has_packed:
                        packed = OwnPacked(own).decode_us(model, chip.launch_us)
                        lines.append(row(model_name, name, "decode, tuned", decode, 1e6 / packed, most))
                if "steps" in only and own.has_packed:
                    steps += step_rows(f"| {model_name} | {name} | decode, tuned |", OwnPacked(own).decode_launches(model, chip.launch_us))
                for what, products in (("prefill", None), ("prefill, tuned", OwnPacked(own).prefill_products))[:1 + own.has_packed]:
                    if "prefill" in only:
                        slow, fast = (1e6 * tokens / own.prefill_us(model, tokens, chip.launch_us, least, products) for least in (False, True))
                        lines.append(row(model_name, name, what, prefill, slow, fast))
                    if "steps" in only:
                        steps += step_rows(f"| {model_name} | {name} | {what} |", own.prefill_steps(model, tokens, chip.launch_us, False, products))
        if "experts" in only:
            for found, of_steps in expert_rows(OwnExperts(own), chip):
                lines += found
                steps += of_steps if "steps" in only else []
        if "chains" in only and own.has_packed and chip.l2s == 1:  # CDNA has none
            chains += [*chain_rows(own), ""]
        if "kernels" in only:
            shapes += single_kernels(own, chip)
        if "several" in only and own.has_packed:
            shapes += several_tokens(own, chip)
    tables = [*([lines] if {"decode", "prefill", "experts"} & set(only) else []), *([steps] if "steps" in only else []), *([chains[:-1]] if chains else []), *([shapes] if {"kernels", "several"} & set(only) else [])]
    return "\n\n".join("\n".join(table) for table in tables)


def expert_rows(own, chip):
    """(lines of the table, lines of the step) of each model with experts, by the portable kernels and by the tuned ones."""
    for model_name, chip_name, decode in MEASURED_EXPERTS:
        model = EXPERT_MODELS[model_name]
        for tuned in (False, True)[:1 + own.has_packed] if chip_name == chip.name else ():
            what = "decode, tuned" if tuned else "decode"
            launches = [(name, count, us + chip.launch_us) for name, count, us in own.decode_launches(model, tuned)]
            rate = 1e6 / sum(count * us for _, count, us in launches)
            yield ([row(model_name, chip.name, what, decode, rate, 1e9 * chip.memory_gbs / model.read_bytes())],
                   step_rows(f"| {model_name} | {chip.name} | {what} |", launches))


def step_rows(start, steps):
    """A step's launches, one a line, and their sum."""
    found = [f"{start} {what} | {count} | {each:.1f} | {count * each:.0f} |" for what, count, each in steps]
    return [*found, f"{start} sum | | | {sum(count * each for _, count, each in steps):.0f} |"]


def row(model, chip, what, figures, value, most):
    """No band and no ratio for prompts: the model is not near enough there."""
    decode = what.startswith("decode")
    vulkan = VULKAN.get((model, chip), (None, None))[0 if decode else 1]
    low, high = (value * (1 + part) for part in (TUNED_BAND if what.endswith("tuned") else BAND))
    better = max(sum(found) / 2 for found in (figures, vulkan) if found)
    band, ratio = (f"{low:.4g} to {high:.4g}", f"{low / better:.2f} to {high / better:.2f}") if decode else ("", "")
    return f"| {model} | {chip} | {what} | {range_text(figures)} | {range_text(vulkan)} | {value:.4g} | {band} | {ratio} | {most:.4g} |"


def range_text(figures):
    low, high = figures or (0, 0)
    return "" if not figures else f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def share_of(kernel, weights, microseconds, chip):
    """Of the DRAM rate: the file's bytes of so many weights in that time."""
    elems, size = BLOCK[kernel]
    return weights * size / elems / microseconds / 1000 / chip.memory_gbs


def several_tokens(own, chip):
    """Tuned products with a few tokens; amd_matvec.md has the table."""
    for kernel in ("q4_0", "q4_k", "q6_k"):
        for rows, columns in ((14336, 4096), (4096, 4096), (4096, 14336)):
            for tokens in (2, 4, 8):
                cost = OwnPacked(own).matvec(((kernel, rows),), columns, tokens=tokens)
                share = share_of(kernel, rows * columns, cost.microseconds, chip)
                yield f"| {chip.name} | {kernel} matvec, tuned | {rows} x {columns}, {tokens} tokens | {cost.microseconds:.1f} | {cost.bound} | {share:.0%} of DRAM |"


def single_kernels(own, chip):
    model = MODELS["Llama 3 8B Q4_K_M"]
    for kernel in ("q4_0", "q4_k", "q6_k"):
        cost = own.matvec(kernel, 14336, 4096)
        share = share_of(kernel, 14336 * 4096, cost.microseconds, chip)
        yield f"| {chip.name} | {kernel} matvec | 14336 x 4096, one token | {cost.microseconds:.1f} | {cost.bound} | {share:.0%} of DRAM |"
        if own.has_packed:
            cost = OwnPacked(own).matvec(((kernel, 14336),), 4096)
            share = share_of(kernel, 14336 * 4096, cost.microseconds, chip)
            yield f"| {chip.name} | {kernel} matvec, tuned | 14336 x 4096, one token | {cost.microseconds:.1f} | {cost.bound} | {share:.0%} of DRAM |"
    for kernel in ("q4_0", "q4_k"):
        microseconds = own.matmul(kernel, 14336, 4096, 512)
        share = 2 * 14336 * 4096 * 512 / microseconds / 1e6 / chip.matrix_f16
        yield f"| {chip.name} | {kernel} matmul | 14336 x 4096, 512 tokens | {microseconds:.0f} | | {share:.0%} of f16 |"
        if own.has_packed:
            microseconds = OwnPacked(own).matmul(kernel, (14336,), 4096, 512)
            share = 2 * 14336 * 4096 * 512 / microseconds / 1e6 / chip.matrix_f16
            yield f"| {chip.name} | {kernel} matmul, tuned | 14336 x 4096, 512 tokens | {microseconds:.0f} | | {share:.0%} of f16 |"
    for keys in (4096, 32768):
        cost = own.attention(model, 1, keys, True)
        share = keys * model.kv_heads * model.head_dim * 4 / cost.microseconds / 1000 / chip.memory_gbs
        yield f"| {chip.name} | paged, f16 | 32 heads, 8 of KV, {keys} keys | {cost.microseconds:.1f} | {cost.bound} | {share:.0%} of DRAM |"
    if own.has_packed:
        for kv, size in (("f16", 2), ("bf16", 2), ("q8_0", 34 / 32)):
            for keys in (4096, 32768):
                cost = OwnPacked(own).attention(model, keys, kv)
                share = keys * model.kv_heads * model.head_dim * 2 * size / cost.microseconds / 1000 / chip.memory_gbs
                yield (f"| {chip.name} | decode attention, {kv}, tuned | 32 heads, 8 of KV, {keys} keys | {cost.microseconds:.1f} | {cost.bound} | "
                       f"{share:.0%} of DRAM |")
    cost = own.attention(model, 2048, 1024, False)
    share = 4 * 2048 * 1024 * model.heads * model.head_dim / cost.microseconds / 1e6 / chip.matrix_f16
    yield f"| {chip.name} | flash, f16 | 2048 rows, 1024 keys | {cost.microseconds:.0f} | {cost.bound} | {share:.0%} of f16 |"
