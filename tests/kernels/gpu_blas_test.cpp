#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/gpu/matmul_kernels.h"
#include "kernels/register_all.h"

// When the vendor's matrix library is used, and what is said where it is not.

namespace rocmforge {
namespace {

using testing::HasSubstr;

DeviceInfo gpu(DeviceKind kind, std::string architecture) {
  DeviceInfo info;
  info.kind = kind;
  info.architecture = std::move(architecture);
  info.wave_size = 32;
  info.vendor_runtime = true;
  return info;
}

const DeviceInfo h200 = gpu(DeviceKind::cuda, "sm_90");
constexpr Matmul::Spec f16{DType::f16, 64, 512};

std::unique_ptr<MatmulKernel> without_library(DeviceKind kind) { return make_gpu_blas_matmul(kind, {"libnowhere.so.1"}); }

TEST(GpuBlas, AMissingLibraryIsNamed) {
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::hip}) {
    const auto kernel = without_library(kind);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Support support = kernel->supports(f16, gpu(kind, "gfx1100:xnack-"));
      EXPECT_FALSE(support.ok);
      EXPECT_THAT(support.reason, HasSubstr("libnowhere.so.1: cannot open shared object file"));
    }
  }
}

TEST(GpuBlas, ALibraryWithoutTheFunctionsIsTooOld) {
  const Support support = make_gpu_blas_matmul(DeviceKind::cuda, {"libm.so.6"})->supports(f16, h200);
  EXPECT_FALSE(support.ok);
  EXPECT_THAT(support.reason, HasSubstr("has no function cublasLtCreate: it is too old"));
}

TEST(GpuBlas, OtherWeightsAndDevicesAreLeftToTheOtherKernels) {
  const auto cuda = without_library(DeviceKind::cuda);
  const auto hip = without_library(DeviceKind::hip);
  EXPECT_EQ(cuda->supports({DType::q4_k, 64, 512}, h200).reason, "format Q4_K is neither F16 nor BF16");
  EXPECT_EQ(cuda->supports({DType::f32, 64, 512}, h200).reason, "format F32 is neither F16 nor BF16");
  EXPECT_EQ(cuda->supports({DType::bf16, 64, 500}, h200).reason, "k 500 is not a multiple of 8");
  EXPECT_EQ(hip->supports(f16, gpu(DeviceKind::hip, "gfx1030")).reason, "hipBLASLt does not serve gfx1030");
  DeviceInfo emulated = h200;
  emulated.vendor_runtime = false;
  EXPECT_EQ(cuda->supports(f16, emulated).reason, "the device is not driven by its vendor's runtime");
}

/// Where the machine has the library, it has every function too.
TEST(GpuBlas, TheVendorsLibraryServesOrSaysWhyNot) {
  KernelRegistry registry;
  register_all_kernels(registry);
  const Choice<Matmul> choice = registry.choose<Matmul>(f16, h200);
  // "hopper_dense" leaves many tokens to the library, so it is there with the library alone.
  if (choice.kernel->name() != "hopper_dense") {
    ASSERT_EQ(choice.kernel->name(), "gpu");
    ASSERT_EQ(choice.refusals.size(), 3u);
    for (const Refusal& refusal : choice.refusals) {
      EXPECT_THAT(refusal.kernel, testing::AnyOf("gpu_blas", "hopper", "hopper_dense"));
      EXPECT_THAT(refusal.reason, HasSubstr(refusal.kernel == "hopper"
                                                ? "format F16 has no layout for Hopper"
                                                : "libcublasLt.so.13, libcublasLt.so.12, libcublasLt.so.11: cannot open"));
    }
  }
}

TEST(GpuBlas, FewTokensNeedNoMoreThanThePortableKernelAndKeepItsPromise) {
  const auto kernel = without_library(DeviceKind::cuda);
  const auto portable = make_gpu_matmul(DeviceKind::cuda);
  EXPECT_EQ(kernel->few_tokens(), portable->few_tokens());
  EXPECT_GT(kernel->priority(), portable->priority());
  EXPECT_EQ(kernel->workspace_bytes(8, 4096), portable->workspace_bytes(8, 4096));
  EXPECT_GE(kernel->workspace_bytes(9, 4096), portable->workspace_bytes(9, 4096) + (32u << 20));
}

}  // namespace
}  // namespace rocmforge
