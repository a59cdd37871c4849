#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/check/arguments/arguments.h"
#include "kernels/formats/hopper/hopper_product.h"
#include "kernels/launch/hopper/architecture.h"
#include "kernels/launch/packed_support.h"
#include "kernels/matmul/hopper/matmul_args.h"
#include "kernels/matmul/hopper/matmul_many.h"
#include "kernels/matmul/hopper/matvec.h"
#include "kernels/matmul/kernels.h"

namespace rocmforge {
namespace {

using hopper::MatvecKind;

/// Few tokens: the mat-vec kernels. More: quantised weights by matmul_many.h, which takes neighbours of any number of
/// tokens; F16 and BF16 by cuBLASLt, which takes none. That difference makes them two kernels.
class HopperMatmul final : public hopper::HopperProduct<Matmul> {
 public:
  HopperMatmul(bool quantised, Device* device)
      : quantised_(quantised), blas_(make_gpu_blas_matmul(DeviceKind::cuda, device)) {}

  [[nodiscard]] std::string_view name() const override { return quantised_ ? "hopper" : "hopper_dense"; }

  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override {
    const MatvecKind kind = hopper::matvec_kind(spec.weight);
    if (!quantised_ && (kind == MatvecKind::none || kind == MatvecKind::packed)) {
      return Support::no(fmt::format("format {} is neither F16 nor BF16", info(spec.weight).name));
    }
    constexpr std::int64_t most_rows = std::int64_t{1} << 22;
    const std::int64_t most_columns = quantised_ ? 131072 : 65536;  // one token's fit into shared memory
    const bool has_layout = !quantised_ || kind == MatvecKind::packed;
    const Support packed =
        check_packed(spec, hopper::check_architecture(device), has_layout, "Hopper", most_rows, most_columns);
    return quantised_ || !packed.ok ? packed : blas_->supports(spec, device);
  }

  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    const std::size_t few = hopper::matvec_workspace_bytes(std::min(tokens, few_tokens()), k);
    if (tokens <= few_tokens()) {
      return few;
    }
    return std::max(few, quantised_ ? hopper::matmul_many_workspace_bytes(tokens, k) : blas_->workspace_bytes(tokens, k));
  }
  [[nodiscard]] std::int64_t few_tokens() const override { return hopper::most_matvec_tokens; }
  [[nodiscard]] MatmulFusions fusions() const override {
    const std::int64_t most = quantised_ ? std::numeric_limits<std::int64_t>::max() : few_tokens();
    return {most, most, few_tokens()};
  }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args, fusions());
    check(context.stream != nullptr, "matmul: a GPU kernel without a stream");
    if (args.tokens == 0) {
      return;
    }
    if (args.tokens <= few_tokens()) {
      run_few(args, *context.stream);
    } else if (quantised_) {
      hopper::run_matmul_many(args, *context.stream);
    } else {
      blas_->run(args, context);
    }
  }

 private:
  /// One launch for each kind of weights, the first output's before others.
  static void run_few(const Matmul::Args& args, Stream& stream) {
    const MatvecKind first = hopper::matvec_kind(args.outputs[0].dtype);
    hopper::run_matvec(first, args, stream);
    for (const MatvecKind kind : {MatvecKind::packed, MatvecKind::f16, MatvecKind::bf16}) {
      if (kind != first) {
        hopper::run_matvec(kind, args, stream);
      }
    }
  }

  bool quantised_;
  std::unique_ptr<MatmulKernel> blas_;
};

}  // namespace

std::unique_ptr<MatmulKernel> make_hopper_matmul() { return std::make_unique<HopperMatmul>(true, nullptr); }
std::unique_ptr<MatmulKernel> make_hopper_dense_matmul(Device* device) {
  return std::make_unique<HopperMatmul>(false, device);
}

}  // namespace rocmforge
