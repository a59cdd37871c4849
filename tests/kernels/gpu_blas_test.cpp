#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>

#include "device/fake_driver.h"
#include "kernels/fake_blas.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/portable/blas_products.h"
#include "kernels/register_all.h"
#include "paths.h"
#include "temporary_folder.h"

// When the vendor's matrix library is used, and the reasons when it is not.

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

std::unique_ptr<MatmulKernel> without_library(DeviceKind kind) {
  return make_gpu_blas_matmul(kind, nullptr, {"libnowhere.so.1"});
}

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
  const Support support = make_gpu_blas_matmul(DeviceKind::cuda, nullptr, {"libm.so.6"})->supports(f16, h200);
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
  // "hopper_dense" uses the library for many tokens, so it exists only with the library.
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

/// A fake GPU with host memory, and a library that multiplies there. Kernels do nothing.
const std::string& fake_blas() {
  static const std::string path = test::build_path("tests/librocmforge_fake_blas.so");
  return path;
}

class FakeBlasTest : public testing::Test {
 protected:
  FakeBlasTest() {
    void* library = ::dlopen(fake_blas().c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto entry = reinterpret_cast<FakeBlasEntry>(::dlsym(library, "fake_blas"));
    blas_ = entry();
    *blas_ = {};
    for (const char* object : {"matmul", "matvec"}) {
      folder_.write("sm_90/" + std::string(object) + ".cubin",
                    "\x7f"
                    "ELF code");
    }
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_, "sm_90", true),
                                       KernelLibrary::from_folder(folder_.path()));
    kernel_ = make_gpu_blas_matmul(DeviceKind::cuda, device_.get(), {fake_blas().c_str()});
  }

  [[nodiscard]] std::string refusal() const { return kernel_->supports(f16, device_->info()).reason; }

  /// A product of 16 tokens with weights of f16.n rows, and one more of `other` rows.
  void multiply(std::int64_t other = 0, bool accumulate = false) {
    constexpr std::int64_t tokens = 16;
    const std::vector<float> x(tokens * f16.k);
    const std::vector<std::uint16_t> weight(static_cast<std::size_t>(std::max(f16.n, other) * f16.k));
    std::vector<float> out(static_cast<std::size_t>(tokens * (f16.n + other)));
    std::vector<MatmulOutput> outputs{{DType::f16, weight.data(), f16.n, nullptr, out.data(), f16.n, accumulate}};
    if (other > 0) {
      outputs.push_back({DType::f16, weight.data(), other, nullptr, out.data() + tokens * f16.n, other, accumulate});
    }
    const std::size_t bytes = kernel_->workspace_bytes(tokens, f16.k);
    const std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(256, (bytes + 255) / 256 * 256),
                                                                std::free);
    ExecutionContext context;
    context.stream = &device_->stream();
    kernel_->run(
        {.x = x.data(), .tokens = tokens, .k = f16.k, .x_stride = f16.k, .outputs = outputs, .workspace = workspace.get()},
        context);
  }

  [[nodiscard]] std::ptrdiff_t launches(std::string_view of) const {
    return std::ranges::count_if(log_->kernels, [&](const std::string& kernel) { return kernel.starts_with(of); });
  }

  FakeBlas* blas_ = nullptr;
  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
  std::unique_ptr<MatmulKernel> kernel_;
};

TEST_F(FakeBlasTest, ServesWhatItMultipliesRight) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(blas_->products, 2) << "one of each type, tried once";
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(blas_->products, 2);
  multiply(48);
  EXPECT_EQ(blas_->products, 4);
  EXPECT_EQ(launches("matmul"), 0);
}

TEST_F(FakeBlasTest, ALibraryThatFailsItsTrialIsRefusedWithItsWords) {
  blas_->fails = true;
  EXPECT_THAT(refusal(), HasSubstr("a small product of F16 weights: cublasLtMatmul: EXECUTION_FAILED"));
  multiply();
  EXPECT_GT(launches("matmul_f16"), 0) << "the portable kernel serves whoever asks nevertheless";
}

TEST_F(FakeBlasTest, ALibraryThatMultipliesWrongIsRefused) {
  blas_->is_wrong = true;
  EXPECT_THAT(refusal(), HasSubstr("a small product of F16 weights: element 0, 0 is"));
}

TEST_F(FakeBlasTest, ALibraryThatDoesNotKnowTheDeviceIsRefused) {
  blas_->refuses_handles = true;
  EXPECT_THAT(refusal(), HasSubstr("cublasLtCreate: NOT_INITIALIZED"));
}

TEST_F(FakeBlasTest, AShapeWithoutAnAlgorithmGoesToThePortableKernelAlone) {
  EXPECT_EQ(refusal(), "");
  blas_->refused_rows = 48;
  multiply(48);
  EXPECT_EQ(blas_->products, 3) << "the other product is the library's";
  EXPECT_EQ(launches("matmul_f16"), 1);
  const int searches = blas_->searches;
  multiply(48);
  EXPECT_EQ(blas_->searches, searches) << "it is not asked again";
  EXPECT_EQ(launches("matmul_f16"), 2);
}

TEST_F(FakeBlasTest, AProductThatFailsInAStepGoesToThePortableKernel) {
  EXPECT_EQ(refusal(), "");
  blas_->fails = true;
  multiply(0, true);
  EXPECT_EQ(launches("matmul_f16"), 1);
  EXPECT_EQ(launches("finish_rows"), 2) << "what the product would have added to has its scale back";
  for (int i = 0; i < 20; ++i) {
    multiply();
  }
  blas_->fails = false;
  blas_->products = 0;
  multiply();
  EXPECT_EQ(blas_->products, 0) << "after some failures the library is left alone";
  EXPECT_THAT(refusal(), HasSubstr("it has refused 8 products"));
}

TEST_F(FakeBlasTest, DescriptorSetsAreBounded) {
  const std::array names{fake_blas().c_str()};
  const auto api = std::make_shared<const BlasApi>(blas_names(DeviceKind::cuda), names);
  BlasProducts products(api, device_->driver());
  const auto prepare = [&](std::int64_t tokens) {
    products.prepare({.rows = 64, .tokens = tokens, .k = 64, .x_stride = 64, .out_stride = 64});
  };
  for (std::int64_t tokens = 1; tokens <= 5000; ++tokens) {
    prepare(tokens);
    prepare(1);
  }
  EXPECT_EQ(products.num_descriptor_sets(), 512u);
  EXPECT_EQ(blas_->descriptions, 512);
  EXPECT_EQ(blas_->searches, 5000) << "the one in use is kept";
}

}  // namespace
}  // namespace rocmforge
