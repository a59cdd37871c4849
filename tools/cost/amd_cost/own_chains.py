"""A decode step of a model with experts on RDNA, with a launch for each call, and with one for all calls from attention's output to the
next layer's Q, K and V."""
from .models import CHAINED_EXPERTS
from .own_experts import OwnExperts


class ExpertSteps:
    def __init__(self, own):
        self.experts, self.chip, self.model = OwnExperts(own), own.chip, CHAINED_EXPERTS
        self.packed = self.experts.packed

    def dense(self, call, better, chained):
        model = self.model
        if call == "output":
            rows, columns = (("q4_k", model.hidden),), model.heads * model.head_dim
        else:
            rows = (("q4_k", model.heads * model.head_dim), ("q4_k", model.kv_heads * model.head_dim), (better, model.kv_heads * model.head_dim))
            columns = model.hidden
        return self.packed.matvec(rows, columns, norm=call == "dense", with_experts=call if chained else None).microseconds

    def calls(self, better, chained):
        """(what, microseconds) of the five calls of a layer that can be one launch."""
        experts = self.experts.packed_experts
        return [("attention's output", self.dense("output", better, chained)), ("router", self.experts.route_rows(self.model, chained).microseconds),
                ("gate and up", experts(self.model, "q4_k", False, chained).microseconds), ("down", experts(self.model, better, True, chained).microseconds),
                ("Q, K and V", self.dense("dense", better, chained))]

    def launches(self, merged):
        model = self.model
        return 4 + model.layers * (2 if merged else 6)

    def step(self, merged, keys=128):
        """(launches, microseconds of launches and hand-overs, microseconds of the step). The last layer is followed by the output in place of Q, K and V, which is taken to be
        the same. The draw counts only as launches."""
        model, packed, us = self.model, self.packed, self.chip.launch_us
        finer = model.finer_layers()
        calls = sum(count * sum(time for _, time in self.calls(better, merged)) for better, count in (("q4_k", model.layers - finer), ("q6_k", finer)))
        others = packed.matvec((("q6_k", model.vocabulary),), model.hidden, norm=True).microseconds
        between = self.launches(merged) * us + (4 * model.layers * packed.handover_us() if merged else 0.0)
        return self.launches(merged), between, model.layers * packed.attention(model, keys).microseconds + calls + others + between


def chain_rows(own):
    steps = ExpertSteps(own)
    lines = ["| chip | call | alone | in a chain |", "|---|---|---:|---:|"]
    for better in ("q4_k", "q6_k"):
        lines += [f"| {own.chip.name} | {what}, {better if what in ('down', 'Q, K and V') else 'q4_k'} | {alone:.1f} | {chained:.1f} |"
                  for (what, alone), (_, chained) in zip(steps.calls(better, False), steps.calls(better, True))]
    lines += ["", "| chip | | launches | us of launches and hand-overs | us of a step |", "|---|---|---:|---:|---:|"]
    for merged in (False, True):
        count, between, total = steps.step(merged)
        lines.append(f"| {own.chip.name} | {'merged' if merged else 'a launch each'} | {count} | {between:.0f} | {total:.0f} |")
    return lines
