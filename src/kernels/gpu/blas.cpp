#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "kernels/gpu/blas_products.h"
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/matmul_args.h"
#include "kernels/gpu/matmul_convert.h"
#include "kernels/gpu/matmul_kernels.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::FinishRowsArgs> finish_kernel{"matmul", "finish_rows"};

/// hipBLASLt has algorithms for these, and says so only when a product is asked for.
constexpr std::array hip_architectures{"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201"};

class GpuBlasMatmul final : public GpuKernel<MatmulKernel> {
 public:
  GpuBlasMatmul(DeviceKind kind, std::vector<std::string> libraries)
      : GpuKernel(kind), portable_(make_gpu_matmul(kind)), libraries_(std::move(libraries)) {
    if (libraries_.empty()) {
      for (const char* library : blas_names(kind).libraries) {
        if (library != nullptr) {
          libraries_.emplace_back(library);
        }
      }
    }
  }

  [[nodiscard]] std::string_view name() const override { return "gpu_blas"; }
  [[nodiscard]] int priority() const override { return portable_->priority() + 10; }
  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override;
  [[nodiscard]] std::size_t packed_bytes(const Matmul::Spec&) const override { return 0; }
  void pack(const Matmul::Spec&, const void*, void*, ExecutionContext&) const override {}
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override;
  [[nodiscard]] std::int64_t few_tokens() const override { return portable_->few_tokens(); }
  void run(const Matmul::Args& args, ExecutionContext& context) const override;

 private:
  /// Opened when it is first asked for; every later call has the same library or the same reason.
  [[nodiscard]] std::pair<std::shared_ptr<const BlasApi>, std::string> library() const;

  std::unique_ptr<MatmulKernel> portable_;
  std::vector<std::string> libraries_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const BlasApi> api_;
  mutable std::string problem_;
};

std::pair<std::shared_ptr<const BlasApi>, std::string> GpuBlasMatmul::library() const {
  const std::lock_guard lock(mutex_);
  if (api_ == nullptr && problem_.empty()) {
    try {
      std::vector<const char*> names;
      for (const std::string& name : libraries_) {
        names.push_back(name.c_str());
      }
      api_ = std::make_shared<const BlasApi>(blas_names(device()), names);
    } catch (const Error& error) {
      problem_ = error.what();
    }
  }
  return {api_, problem_};
}

Support GpuBlasMatmul::supports(const Matmul::Spec& spec, const DeviceInfo& device) const {
  if (Support support = portable_->supports(spec, device); !support.ok) {
    return support;
  }
  if (spec.weight != DType::f16 && spec.weight != DType::bf16) {
    return Support::no(fmt::format("format {} is neither F16 nor BF16", info(spec.weight).name));
  }
  if (spec.k % 8 != 0) {
    return Support::no(fmt::format("k {} is not a multiple of 8", spec.k));
  }
  if (!device.vendor_runtime) {
    return Support::no("the device is not driven by its vendor's runtime");
  }
  const std::string_view architecture = std::string_view(device.architecture).substr(0, device.architecture.find(':'));
  if (device.kind == DeviceKind::hip && std::ranges::find(hip_architectures, architecture) == hip_architectures.end()) {
    return Support::no(fmt::format("hipBLASLt does not serve {}", architecture));
  }
  const auto [api, problem] = library();
  return api != nullptr ? Support::yes() : Support::no(problem);
}

std::size_t GpuBlasMatmul::workspace_bytes(std::int64_t tokens, std::int64_t k) const {
  return tokens <= few_tokens() ? portable_->workspace_bytes(tokens, k)
                                : converted_bytes(tokens, k) + blas_workspace_alignment + blas_workspace_bytes;
}

void finish(const MatmulOutput& output, const Matmul::Args& args, const float* scales, bool divide, Stream& stream) {
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(args.tokens);
  shape.block[0] = gpu::finish_threads;
  finish_kernel.launch(stream, shape,
                       {output.out, output.stride, scales, divide ? nullptr : output.bias,
                        static_cast<std::int32_t>(output.n), divide ? 1 : 0});
}

void GpuBlasMatmul::run(const Matmul::Args& args, ExecutionContext& context) const {
  check_arguments(args);
  check(context.stream != nullptr, "matmul: a GPU kernel without a stream");
  Stream& stream = *context.stream;
  // Made by the first call of all, though it may need no product: a recording could not hold what it allocates.
  BlasProducts& products = stream.device().kept<BlasProducts>([&] {
    const auto [api, problem] = library();
    check(api != nullptr, "matmul: gpu_blas runs where its library could not be opened");
    return std::make_unique<BlasProducts>(api, stream.device().driver());
  });
  if (args.tokens <= few_tokens()) {
    portable_->run(args, context);
    return;
  }
  const ConvertedRows converted = place_converted(args);
  const auto end = reinterpret_cast<std::uintptr_t>(args.workspace) + converted_bytes(args.tokens, args.k);
  const std::uintptr_t aligned = (end + blas_workspace_alignment - 1) / blas_workspace_alignment * blas_workspace_alignment;
  // All outputs of one type, then all of the other: the converted rows share their place.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const bool bfloat = dtype == DType::bf16;
    bool ready = false;
    for (const MatmulOutput& output : args.outputs) {
      if (output.dtype != dtype) {
        continue;
      }
      if (!std::exchange(ready, true)) {
        convert_rows(args, bfloat, converted, stream);
      }
      // Only binary16 rows have scales; the library adds to what is already in the scale of the product.
      if (output.accumulate && !bfloat) {
        finish(output, args, converted.scales, true, stream);
      }
      products.multiply({bfloat, output.weight, converted.rows, output.out, output.n, args.tokens, args.k,
                         converted_stride(args.k), output.stride, output.accumulate},
                        reinterpret_cast<void*>(aligned), stream.handle());
      if (!bfloat || output.bias != nullptr) {
        finish(output, args, converted.scales, false, stream);
      }
    }
  }
}

}  // namespace

std::unique_ptr<MatmulKernel> make_gpu_blas_matmul(DeviceKind kind, std::vector<std::string> libraries) {
  return std::make_unique<GpuBlasMatmul>(kind, std::move(libraries));
}

}  // namespace rocmforge
