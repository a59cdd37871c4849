#include "extension/toy_sampler.h"

#include <cmath>
#include <span>

namespace rocmforge {
namespace {

std::int32_t least_likely(std::span<const float> logits, const std::uint32_t* mask) {
  std::int32_t least = -1;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const bool may_be_drawn =
        std::isfinite(logits[id]) && (mask == nullptr || mask_allows(mask, static_cast<std::int64_t>(id)));
    if (may_be_drawn && (least < 0 || logits[id] < logits[static_cast<std::size_t>(least)])) {
      least = static_cast<std::int32_t>(id);
    }
  }
  return least;
}

class ToySampler final : public OpKernel<SampleTokens> {
 public:
  [[nodiscard]] std::string_view name() const override { return "toy"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::specialised; }
  [[nodiscard]] Support supports(const SampleTokens::Spec& spec, const DeviceInfo&) const override {
    return spec.vocab > 0 ? Support::yes() : Support::no("the vocabulary is empty");
  }
  void run(const SampleTokens::Spec& spec, const SampleTokens::Args& args, ExecutionContext&) const override {
    for (std::int64_t r = 0; r < args.num_rows; ++r) {
      const SampleRow& row = args.rows[r];
      float* logits = args.logits + r * spec.vocab;
      for (std::int32_t i = 0; i < row.num_adjustments; ++i) {
        const SampleAdjustment& adjustment = args.adjustments[row.first_adjustment + i];
        logits[adjustment.id] = adjusted(logits[adjustment.id], row, adjustment);
      }
      const std::uint32_t* mask = row.mask < 0 ? nullptr : args.masks + row.mask * sample_mask_words(spec.vocab);
      args.out[r] = least_likely({logits, static_cast<std::size_t>(spec.vocab)}, mask);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<SampleTokens>> make_toy_sampler() { return std::make_unique<ToySampler>(); }

}  // namespace rocmforge
