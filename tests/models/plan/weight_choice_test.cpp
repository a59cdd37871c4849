#include "models/plan/weight_choice.h"

#include <gtest/gtest.h>

#include "kernels/register_all.h"

namespace rocmforge::testing {
namespace {

class WeightChoice : public ::testing::Test {
 protected:
  WeightChoice() {
    register_all_kernels(registry_);
    gpu_.kind = DeviceKind::hip;
    gpu_.architecture = "gfx1100";
    gpu_.wave_size = 32;
    gpu_.shared_memory_bytes = 65536;
    gpu_.compute_units = 48;
  }

  template <class Op>
  [[nodiscard]] Choice<Op> choose(const typename Op::Spec& spec, bool small_weights, std::string_view forced = {}) const {
    return choose_for_weights<Op>(registry_, spec, gpu_, forced, small_weights);
  }

  KernelRegistry registry_;
  DeviceInfo gpu_;
};

std::string reason_of(const std::vector<Refusal>& refusals, std::string_view kernel) {
  for (const Refusal& refusal : refusals) {
    if (refusal.kernel == kernel) {
      return refusal.reason;
    }
  }
  return "no refusal";
}

TEST_F(WeightChoice, ALargerLayoutGivesWayWhereTheModelWouldNotFit) {
  for (const DType format : {DType::iq3_s, DType::iq3_xxs, DType::iq2_s, DType::iq2_xs, DType::iq2_xxs, DType::iq1_s,
                             DType::iq1_m, DType::tq1_0, DType::tq2_0}) {
    const Matmul::Spec grown{format, 64, 512};
    EXPECT_EQ(choose<Matmul>(grown, false).kernel->name(), "amd") << name(format);
    const Choice<Matmul> small = choose<Matmul>(grown, true);
    EXPECT_EQ(small.kernel->name(), "gpu") << name(format);
    EXPECT_EQ(reason_of(small.refusals, "amd"), "the model would not fit with its larger layout of these weights");

    ExpertMatmul::Spec experts{};
    experts.weight = format;
    experts.n = 64;
    experts.k = 512;
    experts.experts = 8;
    experts.used = 2;
    EXPECT_EQ(choose<ExpertMatmul>(experts, false).kernel->name(), "amd") << name(format);
    EXPECT_EQ(choose<ExpertMatmul>(experts, true).kernel->name(), "gpu") << name(format);
  }
}

TEST_F(WeightChoice, ALayoutOfTheFilesSizeStays) {
  for (const DType format : {DType::q4_0, DType::q4_k, DType::q6_k, DType::mxfp4, DType::nvfp4, DType::iq4_xs}) {
    EXPECT_EQ(choose<Matmul>({format, 64, 512}, true).kernel->name(), "amd") << name(format);
  }
}

TEST_F(WeightChoice, AKernelThatIsNamedStays) {
  EXPECT_EQ(choose<Matmul>({DType::iq3_s, 64, 512}, true, "amd").kernel->name(), "amd");
}

}  // namespace
}  // namespace rocmforge::testing
