// A way to draw that is added from outside: one kernel, which the registry prefers.
#include "extension/toy_sampler.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/register_all.h"

namespace rocmforge {
namespace {

class ToySamplers : public ::testing::Test {
 protected:
  ToySamplers() {
    register_all_kernels(registry_);
    registry_.add<SampleTokens>(make_toy_sampler());
  }

  std::int32_t draw(std::vector<float> logits, const SampleRow& row, const std::vector<SampleAdjustment>& adjustments = {},
                    const std::uint32_t* mask = nullptr) {
    const SampleTokens::Spec spec{static_cast<std::int64_t>(logits.size())};
    std::int32_t token = -2;
    SampleTokens::Args args;
    args.logits = logits.data();
    args.num_rows = 1;
    args.rows = &row;
    args.adjustments = adjustments.data();
    args.masks = mask;
    args.out = &token;
    ExecutionContext context;
    registry_.choose<SampleTokens>(spec, cpu_device_info()).kernel->run(spec, args, context);
    return token;
  }

 private:
  KernelRegistry registry_;
};

TEST_F(ToySamplers, AreChosenByTheirPriority) { EXPECT_EQ(draw({3.0f, 1.0f, 2.0f}, {}), 1); }

TEST_F(ToySamplers, GetBiasesAndMasks) {
  const std::uint32_t but_the_second = 0b101;
  EXPECT_EQ(draw({3.0f, 1.0f, 2.0f}, {.num_adjustments = 1}, {{.id = 0, .bias = -5.0f}}), 0);
  EXPECT_EQ(draw({3.0f, 1.0f, 2.0f}, {.mask = 0}, {}, &but_the_second), 2);
  EXPECT_EQ(draw({-std::numeric_limits<float>::infinity()}, {}), -1) << "every token is forbidden";
}

}  // namespace
}  // namespace rocmforge
