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
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(),
                            [](const auto& k) { return k->priority() > KernelPriority::reference; }));
    for (const auto& a : kernels) {
      const auto same = [&](const auto& b) { return a->name() == b->name() && a->device() == b->device(); };
      EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), same), 1) << a->name() << " is registered twice";
    }
  };
  check_names(registry_.all<EmbeddingRows>());
  check_names(registry_.all<RmsNorm>());
  check_names(registry_.all<Matmul>());
  check_names(registry_.all<RopeAppend>());
  check_names(registry_.all<Attention>());
  check_names(registry_.all<GatedActivation>());
  check_names(registry_.all<LatentAppend>());
  check_names(registry_.all<HeadMatmul>());
}

TEST_F(Registry, TheBestKernelOfTheProcessorWins) {
  const auto choice = registry_.choose<Attention>(attention(64), device_);
  EXPECT_EQ(choice.kernel->name(), "cpu_" + std::string(name(device_.cpu_isa)));
  const auto here =
      std::ranges::count(registry_.all<Attention>(), DeviceKind::cpu, [](const auto& k) { return k->device(); });
  EXPECT_EQ(std::ssize(choice.refusals) + 1, here);
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

TEST_F(Registry, AnUnsupportedMaskFallsToTheReferenceWithTheReason) {
  Attention::Spec masked = attention(64);
  masked.mask = true;
  const auto choice = registry_.choose<Attention>(masked, device_);
  EXPECT_EQ(choice.kernel->name(), "reference");
  EXPECT_EQ(reason(choice.refusals, "cpu_generic"), "no additive mask");
}

TEST_F(Registry, EveryHeadDimAndTypeOfCacheHasAFastKernelOnTheProcessor) {
  for (std::int32_t head_dim = 1; head_dim <= 512; ++head_dim) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      Attention::Spec spec = attention(head_dim);
      spec.kv_dtype = type;
      EXPECT_EQ(registry_.choose<Attention>(spec, device_).kernel->name(), "cpu_" + std::string(name(device_.cpu_isa)))
          << head_dim;
    }
  }
}

TEST_F(Registry, EveryPairOfTypesOfCacheHasAFastKernelOnTheProcessor) {
  constexpr DType types[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,  DType::q5_1,
                             DType::q5_0, DType::q4_1, DType::q4_0, DType::iq4_nl};
  for (const DType k : types) {
    for (const DType v : types) {
      Attention::Spec spec = attention(96);
      spec.kv_dtype = {k, v};
      spec.kv_dtype.k_rotated = is_kv_quant(k);
      EXPECT_EQ(registry_.choose<Attention>(spec, device_).kernel->name(), "cpu_" + std::string(name(device_.cpu_isa)))
          << name(spec.kv_dtype);
    }
  }
}

TEST_F(Registry, AKernelForOneTypeRefusesPairsAndRotation) {
  DeviceInfo card;
  card.kind = DeviceKind::hip;
  card.architecture = "gfx1100";
  KvTypes rotated = DType::q8_0;
  rotated.v_rotated = true;
  for (const KvTypes& types :
       {KvTypes(DType::q8_0, DType::q4_0), KvTypes(DType::q4_0), KvTypes(DType::f16, DType::bf16), rotated}) {
    Attention::Spec spec = attention(128);
    spec.kv_dtype = types;
    spec.most_rows = 1;
    const auto choice = registry_.choose<Attention>(spec, card);
    EXPECT_EQ(choice.kernel->name(), "paged") << name(types);
    EXPECT_THAT(reason(choice.refusals, "amd_decode"), HasSubstr("KV of " + name(types)));
  }
}

TEST_F(Registry, AForcedKernelThatCannotIsAnErrorWithTheReason) {
  Attention::Spec masked = attention(64);
  masked.mask = true;
  const std::string text = error<Attention>(masked, device_, "cpu_generic");
  EXPECT_THAT(text, HasSubstr("no kernel for attention"));
  EXPECT_THAT(text, HasSubstr("cpu_generic: no additive mask"));
  EXPECT_THAT(text, HasSubstr("reference: 'cpu_generic' was asked for"));
}

TEST_F(Registry, AnUnknownForcedKernelIsNamed) {
  const std::string text = error<Attention>(attention(64), device_, "flash");
  EXPECT_THAT(text, HasSubstr("there is none named 'flash'"));
  EXPECT_THAT(text, HasSubstr("cpu_generic: 'flash' was asked for"));
}

TEST_F(Registry, TheNameOfAFamilyForcesItsBestVariant) {
  const Choice<Attention> best = registry_.choose<Attention>(attention(64), device_);
  const Choice<Attention> forced = registry_.choose<Attention>(attention(64), device_, "cpu");
  EXPECT_EQ(forced.kernel, best.kernel);
  EXPECT_TRUE(std::ranges::any_of(forced.refusals, [](const Refusal& refusal) {
    return refusal.kernel == "reference" && refusal.reason == "'cpu' was asked for";
  }));
  EXPECT_FALSE(is_named("cpuid_x", "cpu"));
  EXPECT_FALSE(is_named("cpu", "cpu_avx2"));
  EXPECT_TRUE(is_named("cpu_avx2", "cpu_avx2"));
}

TEST_F(Registry, WhatNobodyCanDoListsEveryRefusal) {
  Attention::Spec spec = attention(64);
  spec.kv_heads = 3;
  const std::string text = error<Attention>(spec, device_, "");
  for (const auto& kernel : registry_.all<Attention>()) {
    if (kernel->device() == device_.kind) {
      EXPECT_THAT(text, HasSubstr(std::string(kernel->name()) + ": "));
    }
  }
  EXPECT_THAT(text, HasSubstr("q_heads 8 is not a multiple of kv_heads 3"));
}

TEST_F(Registry, KernelsOfOtherDevicesAreLeftOut) {
  DeviceInfo gpu = device_;
  gpu.kind = DeviceKind::hip;
  gpu.wave_size = 32;
  EXPECT_EQ(registry_.choose<RmsNorm>({64, 1e-5f}, gpu).kernel->device(), DeviceKind::hip);
  EXPECT_EQ(registry_.choose<RmsNorm>({64, 1e-5f}, device_).kernel->device(), DeviceKind::cpu);
  EXPECT_THAT(error<RmsNorm>({64, 1e-5f}, gpu, "reference"), HasSubstr("there is none named 'reference'"));
}

}  // namespace
}  // namespace rocmforge
