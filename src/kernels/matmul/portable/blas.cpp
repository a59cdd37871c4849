#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/portable/matmul_args.h"
#include "kernels/matmul/portable/matmul_convert.h"
#include "kernels/matmul/portable/vendor_blas.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::FinishRowsArgs> finish_kernel{"matmul", "finish_rows"};

/// hipBLASLt has algorithms for these, and says so only when a product is asked for.
constexpr std::array hip_architectures{"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201"};

class GpuBlasMatmul final : public GpuKernel<MatmulKernel> {
 public:
  GpuBlasMatmul(DeviceKind kind, Device* device, std::vector<std::string> libraries)
      : GpuKernel(kind), portable_(make_gpu_matmul(kind)), device_(device), libraries_(std::move(libraries)) {
    if (libraries_.empty()) {
      const auto& names = blas_names(kind).libraries;
      const std::span known(names.begin(), std::ranges::find(names, nullptr));
      libraries_ = device != nullptr ? device->driver().libraries_called(known)
                                     : std::vector<std::string>(known.begin(), known.end());
    }
  }

  [[nodiscard]] std::string_view name() const override { return "gpu_blas"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::family; }
  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override;
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override;
  [[nodiscard]] std::int64_t few_tokens() const override { return portable_->few_tokens(); }
  void run(const Matmul::Args& args, ExecutionContext& context) const override;

 private:
  /// Why the library cannot be used, empty when it can: the problem of its device, or without a device whether it can be
  /// opened.
  [[nodiscard]] std::string problem() const;
  /// Puts the products of one type on the stream; outputs whose product the library refuses are added to `refused`.
  void multiply(const Matmul::Args& args, bool bfloat, VendorBlas& blas, Stream& stream,
                std::vector<MatmulOutput>& refused) const;

  std::unique_ptr<MatmulKernel> portable_;
  Device* device_;  ///< null where nothing will run
  std::vector<std::string> libraries_;
};

std::string GpuBlasMatmul::problem() const {
  if (device_ != nullptr) {
    return VendorBlas::of(*device_, libraries_).problem();
  }
  try {
    std::vector<const char*> names;
    for (const std::string& name : libraries_) {
      names.push_back(name.c_str());
    }
    static_cast<void>(BlasApi(blas_names(device()), names));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
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
  const std::string_view architecture = device.architecture_name();
  if (device.kind == DeviceKind::hip && std::ranges::find(hip_architectures, architecture) == hip_architectures.end()) {
    return Support::no(fmt::format("hipBLASLt does not serve {}", architecture));
  }
  std::string reason = problem();
  return reason.empty() ? Support::yes() : Support::no(std::move(reason));
}

std::size_t GpuBlasMatmul::workspace_bytes(std::int64_t tokens, std::int64_t k) const {
  // The portable kernel takes what the library refuses.
  const std::size_t portable = portable_->workspace_bytes(tokens, k);
  return tokens <= few_tokens()
             ? portable
             : std::max(portable, converted_bytes(tokens, k) + blas_workspace_alignment + blas_workspace_bytes);
}

void finish(const MatmulOutput& output, const Matmul::Args& args, const float* scales, bool divide, Stream& stream) {
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(args.tokens);
  shape.block[0] = gpu::finish_threads;
  finish_kernel.launch(stream, shape,
                       {output.out, output.stride, scales, divide ? nullptr : output.bias,
                        static_cast<std::int32_t>(output.n), divide ? 1 : 0});
}

void GpuBlasMatmul::multiply(const Matmul::Args& args, bool bfloat, VendorBlas& blas, Stream& stream,
                             std::vector<MatmulOutput>& refused) const {
  const ConvertedRows converted = place_converted(args);
  const auto end = reinterpret_cast<std::uintptr_t>(args.workspace) + converted_bytes(args.tokens, args.k);
  const std::uintptr_t aligned = (end + blas_workspace_alignment - 1) / blas_workspace_alignment * blas_workspace_alignment;
  bool ready = false;
  for (const MatmulOutput& output : args.outputs) {
    if (output.dtype != (bfloat ? DType::bf16 : DType::f16)) {
      continue;
    }
    const BlasProduct product{bfloat,      output.weight, converted.rows,           output.out,    output.n,
                              args.tokens, args.k,        converted_stride(args.k), output.stride, output.accumulate};
    const BlasProducts::DescriptorSet* descriptors = blas.prepare(product);
    if (descriptors == nullptr) {
      refused.push_back(output);
      continue;
    }
    if (!std::exchange(ready, true)) {
      convert_rows(args, bfloat, converted, stream);
    }
    // Only binary16 rows have scales (powers of two): the library adds to `out`, which must be in the scale of the product.
    const bool scaled = output.accumulate && !bfloat;
    if (scaled) {
      finish(output, args, converted.scales, true, stream);
    }
    if (!blas.multiply(*descriptors, product, reinterpret_cast<void*>(aligned), stream.handle())) {
      if (scaled) {
        MatmulOutput before = output;
        before.bias = nullptr;
        finish(before, args, converted.scales, false, stream);
      }
      refused.push_back(output);
    } else if (!bfloat || output.bias != nullptr) {
      finish(output, args, converted.scales, false, stream);
    }
  }
}

void GpuBlasMatmul::run(const Matmul::Args& args, ExecutionContext& context) const {
  check_arguments(args);
  check(context.stream != nullptr, "matmul: a GPU kernel without a stream");
  Stream& stream = *context.stream;
  // Made by the first call, even if that needs no product: its allocations cannot be part of a recording.
  VendorBlas& blas = VendorBlas::of(stream.device(), libraries_);
  if (args.tokens <= few_tokens() || !blas.problem().empty()) {
    portable_->run(args, context);
    return;
  }
  // All outputs of one type, then all of the other, then those left to the portable kernel: each group converts the rows
  // into the workspace anew.
  std::vector<MatmulOutput> refused;
  for (const bool bfloat : {false, true}) {
    multiply(args, bfloat, blas, stream, refused);
  }
  if (!refused.empty()) {
    Matmul::Args rest = args;
    rest.outputs = refused;
    portable_->run(rest, context);
  }
}

}  // namespace

std::unique_ptr<MatmulKernel> make_gpu_blas_matmul(DeviceKind kind, Device* device, std::vector<std::string> libraries) {
  return std::make_unique<GpuBlasMatmul>(kind, device, std::move(libraries));
}

}  // namespace rocmforge
