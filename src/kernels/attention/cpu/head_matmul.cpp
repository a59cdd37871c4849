#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/attention/kernels.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/matmul/cpu/cpu_product.h"

namespace rocmforge {
namespace {

/// Rows of a head's matrix that one thread takes at a time.
constexpr std::int64_t most_head_rows = 128;

class CpuHeadMatmul final : public CpuProduct<HeadMatmul> {
 public:
  using CpuProduct::CpuProduct;

  [[nodiscard]] std::size_t workspace_bytes(const HeadMatmul::Spec& spec, std::int64_t tokens) const override {
    return inputs_of(spec, tokens, nullptr).bytes;
  }

  void run(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    check(args.workspace != nullptr, "head_matmul: no workspace for the activations");
    const MatmulInputs inputs = inputs_of(spec, args.tokens, static_cast<std::byte*>(args.workspace));
    // A short input is prepared before other threads would have woken up.
    const std::int64_t grain = spec.heads * args.tokens * spec.k < 32768 ? spec.heads : 1;
    for_each_range(context, spec.heads, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        prepare(spec, args, inputs.from(head * args.tokens, spec.k), head);
      }
    });
    const std::int64_t parts = divide_up(spec.n, most_head_rows);
    for_each_range(context, spec.heads * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        multiply(spec, args, inputs.from(i / parts * args.tokens, spec.k), i / parts, i % parts * most_head_rows);
      }
    });
  }

 private:
  [[nodiscard]] MatmulInputs inputs_of(const HeadMatmul::Spec& spec, std::int64_t tokens, std::byte* memory) const {
    return {spec.heads * tokens, spec.k, bodies().quantised, bodies().plain, memory};
  }

  /// Brings one head's input into the form that the products read, and copies its tails.
  void prepare(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, const MatmulInputs& inputs,
               std::int64_t head) const {
    const float* x = args.x + head * (spec.k + spec.tail);
    InputPanel panel{x, args.x_stride, spec.k, args.tokens, 0, 0, args.tokens};
    if (is_quantised(spec.weight)) {
      for (; panel.panel * packed::panel_columns < spec.k; ++panel.panel) {
        bodies().quantised.quantise(panel, inputs.quantised);
      }
    } else {
      for (; panel.panel * packed::plain_panel_columns < spec.k; ++panel.panel) {
        bodies().plain.prepare(panel, inputs.plain);
      }
    }
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      std::copy_n(x + t * args.x_stride + spec.k, spec.tail,
                  args.out + (t * spec.heads + head) * (spec.n + spec.tail) + spec.n);
    }
  }

  /// Products of a head's rows from `row` on with all tokens.
  void multiply(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, const MatmulInputs& inputs, std::int64_t head,
                std::int64_t row) const {
    const std::int64_t width = spec.n + spec.tail;
    const MatmulProduct product = {spec.weight,
                                   static_cast<const std::uint8_t*>(args.weight) + head * args.head_bytes,
                                   spec.n,
                                   spec.k,
                                   args.tokens,
                                   inputs.quantised,
                                   inputs.plain,
                                   nullptr,
                                   args.out + head * width,
                                   spec.heads * width,
                                   false,
                                   1.0f};
    const auto multiply = is_quantised(spec.weight) ? bodies().quantised.multiply : bodies().plain.multiply;
    multiply(product, {row, std::min(row + most_head_rows, spec.n), 0, args.tokens});
  }
};

}  // namespace

std::vector<std::unique_ptr<HeadMatmulKernel>> make_cpu_head_matmuls() {
  std::vector<std::unique_ptr<HeadMatmulKernel>> kernels;
  for (const CpuMatmulBodies& bodies : cpu_matmul_bodies()) {
    if (!bodies.plain.bfloats) {
      kernels.push_back(std::make_unique<CpuHeadMatmul>(bodies));
    }
  }
  return kernels;
}

}  // namespace rocmforge
