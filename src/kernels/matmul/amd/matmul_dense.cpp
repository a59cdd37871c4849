#include <fmt/format.h>

#include "base/error.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/amd/architectures.h"
#include "kernels/matmul/amd/matvec.h"
#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/matmul/kernels.h"

namespace rocmforge {
namespace {

class AmdDenseMatmul final : public MatmulKernel {
 public:
  explicit AmdDenseMatmul(Device* device)
      : blas_(make_gpu_blas_matmul(DeviceKind::hip, device)), portable_(make_gpu_matmul(DeviceKind::hip)) {}

  [[nodiscard]] std::string_view name() const override { return "amd_dense"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::hip; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    if (Support support = amd::check_architecture(device); !support.ok) {
      return support;
    }
    if (spec.weight != DType::f16 && spec.weight != DType::bf16) {
      return Support::no(fmt::format("format {} is neither F16 nor BF16", info(spec.weight).name));
    }
    if (spec.k % 8 != 0) {
      return Support::no(fmt::format("k {} is not a multiple of 8", spec.k));
    }
    constexpr std::int64_t most_rows = std::int64_t{1} << 22;
    constexpr std::int64_t most_columns = 65536;  // the values of each record fit into shared memory
    if (spec.n > most_rows || spec.k > most_columns) {
      return Support::no(fmt::format("more than {} rows or {} columns", most_rows, most_columns));
    }
    return Support::yes();
  }

  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    return tokens <= few_tokens() ? 0 : blas_->workspace_bytes(tokens, k);
  }
  [[nodiscard]] std::int64_t few_tokens() const override { return amd::most_matvec_tokens; }
  [[nodiscard]] MatmulFusions fusions() const override { return {few_tokens(), few_tokens()}; }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args, fusions());
    check(context.stream != nullptr, "matmul: a GPU kernel without a stream");
    if (args.tokens == 0) {
      return;
    }
    // Called by the first call, even if that does not need it: the library's allocations cannot be part of a recording.
    const MatmulOutput& first = args.outputs[0];
    const bool library = blas_->supports({first.dtype, first.n, args.k}, context.stream->device().info()).ok;
    if (args.tokens <= few_tokens()) {
      amd::run_dense_matvec(args, *context.stream);
    } else {
      (library ? blas_ : portable_)->run(args, context);
    }
  }

 private:
  std::unique_ptr<MatmulKernel> blas_;
  std::unique_ptr<MatmulKernel> portable_;
};

}  // namespace

std::unique_ptr<MatmulKernel> make_amd_dense_matmul(Device* device) { return std::make_unique<AmdDenseMatmul>(device); }

}  // namespace rocmforge
