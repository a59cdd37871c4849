#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/register_all.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

class Registry : public testing::Test {
 protected:
  Registry() { register_all_kernels(registry_); }

  static Attention::Spec attention(std::int32_t head_dim) { return {.q_heads = 8, .kv_heads = 2, .head_dim = head_dim}; }

  static std::string reason(const std::vector<Refusal>& refusals, std::string_view kernel) {
    const auto found = std::find_if(refusals.begin(), refusals.end(), [&](const Refusal& r) { return r.kernel == kernel; });
    return found == refusals.end() ? "(no refusal)" : found->reason;
  }

  template <class Op>
  std::string error(const typename Op::Spec& spec, const DeviceInfo& device, std::string_view forced) {
    try {
      (void)registry_.choose<Op>(spec, device, forced);
      return "(no error)";
    } catch (const Error& e) {
      return e.what();
    }
  }

  KernelRegistry registry_;
  DeviceInfo device_ = cpu_device_info();
};

TEST_F(Registry, EveryOperationHasAReferenceAndSomethingFaster) {
  const auto check_names = [](const auto& kernels) {
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [](const auto& k) { return k->name() == "reference"; }));
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [](const auto& k) { return k->priority() > 0; }));
    for (const auto& a : kernels) {
      EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), [&](const auto& b) { return a->name() == b->name(); }), 1)
          << a->name() << " is registered twice";
    }
  };
  check_names(registry_.all<EmbeddingRows>());
  check_names(registry_.all<RmsNorm>());
  check_names(registry_.all<Matmul>());
  check_names(registry_.all<RopeAppend>());
  check_names(registry_.all<Attention>());
  check_names(registry_.all<GatedActivation>());
}

TEST_F(Registry, TheBestKernelOfTheProcessorWins) {
  const auto choice = registry_.choose<Attention>(attention(64), device_);
  EXPECT_EQ(choice.kernel->name(), "cpu_" + std::string(name(device_.cpu_isa)));
  EXPECT_EQ(choice.refusals.size() + 1, registry_.all<Attention>().size());
  EXPECT_THAT(reason(choice.refusals, "reference"), HasSubstr("is preferred"));
}

TEST_F(Registry, ALesserProcessorGetsALesserKernel) {
  const auto choice = registry_.choose<RmsNorm>({64, 1e-5f}, cpu_device_info(CpuIsa::generic));
  EXPECT_EQ(choice.kernel->name(), "cpu_generic");
  for (const Refusal& refusal : choice.refusals) {
    if (refusal.kernel != "reference") {
      EXPECT_THAT(refusal.reason, HasSubstr("this processor has generic"));
    }
  }
}

TEST_F(Registry, AForcedKernelServesAlone) {
  const auto choice = registry_.choose<Attention>(attention(64), device_, "reference");
  EXPECT_EQ(choice.kernel->name(), "reference");
  EXPECT_EQ(reason(choice.refusals, "cpu_generic"), "'reference' was asked for");
}

TEST_F(Registry, AnUnsupportedHeadDimFallsToTheReferenceWithTheReason) {
  const auto choice = registry_.choose<Attention>(attention(20), device_);
  EXPECT_EQ(choice.kernel->name(), "reference");
  EXPECT_EQ(reason(choice.refusals, "cpu_generic"), "head_dim 20 is not a multiple of 8");
}

TEST_F(Registry, AForcedKernelThatCannotIsAnErrorWithTheReason) {
  const std::string text = error<Attention>(attention(20), device_, "cpu_generic");
  EXPECT_THAT(text, HasSubstr("no kernel for attention"));
  EXPECT_THAT(text, HasSubstr("cpu_generic: head_dim 20 is not a multiple of 8"));
  EXPECT_THAT(text, HasSubstr("reference: 'cpu_generic' was asked for"));
}

TEST_F(Registry, AnUnknownForcedKernelIsNamed) {
  const std::string text = error<Attention>(attention(64), device_, "flash");
  EXPECT_THAT(text, HasSubstr("there is none named 'flash'"));
  EXPECT_THAT(text, HasSubstr("cpu_generic: 'flash' was asked for"));
}

TEST_F(Registry, WhatNobodyCanDoListsEveryRefusal) {
  Attention::Spec spec = attention(64);
  spec.kv_heads = 3;
  const std::string text = error<Attention>(spec, device_, "");
  for (const auto& kernel : registry_.all<Attention>()) {
    EXPECT_THAT(text, HasSubstr(std::string(kernel->name()) + ": "));
  }
  EXPECT_THAT(text, HasSubstr("q_heads 8 is not a multiple of kv_heads 3"));
}

TEST_F(Registry, KernelsOfOtherDevicesAreLeftOut) {
  DeviceInfo gpu = device_;
  gpu.kind = DeviceKind::hip;
  EXPECT_THAT(error<RmsNorm>({64, 1e-5f}, gpu, ""), HasSubstr("no kernel for rms_norm"));
}

}  // namespace
}  // namespace rocmforge
