#include "models/linear.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {
constexpr std::size_t most_parts = 4;
}

Linear::Linear(std::string name, const std::vector<Part>& parts) : name_(std::move(name)) {
  check(!parts.empty() && parts.size() <= most_parts, "a group of linear layers has one to four parts");
  for (const Part& part : parts) {
    check(part.weight->spec.k == parts[0].weight->spec.k, "the linear layers of a group share their input");
    auto call = std::find_if(calls_.begin(), calls_.end(),
                             [&](const Call& other) { return other[0].part.weight->kernel == part.weight->kernel; });
    if (call == calls_.end()) {
      call = calls_.emplace(calls_.end());
    }
    call->push_back({part, width_});
    width_ += part.weight->spec.n;
  }
}

void Linear::run(const Step& step, const float* x, float* out, bool accumulate) const {
  run(step.tokens, step, x, out, accumulate);
}

void Linear::run(std::int64_t tokens, const Step& step, const float* x, float* out, bool accumulate) const {
  if (!step.runs(name_)) {
    return;
  }
  for (const Call& call : calls_) {
    std::array<MatmulOutput, most_parts> outputs;
    for (std::size_t i = 0; i < call.size(); ++i) {
      const auto& [part, offset] = call[i];
      const Matmul::Spec& spec = part.weight->spec;
      const float* bias = part.bias != nullptr ? part.bias->data : nullptr;
      outputs[i] = {spec.weight, part.weight->data, spec.n, bias, out + offset, width_, accumulate};
    }
    const MatmulWeight& first = *call[0].part.weight;
    const std::span used(outputs.data(), call.size());
    first.kernel->run({x, tokens, first.spec.k, first.spec.k, used, step.buffers.scratch}, *step.context);
  }
}

}  // namespace rocmforge
