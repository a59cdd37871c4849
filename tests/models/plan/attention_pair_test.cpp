#include "models/plan/attention_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/error_text.h"

namespace rocmforge {
namespace {

using ::testing::HasSubstr;

/// Supports what the test says, with an order of K of its own.
class NamedBackend final : public AttentionBackend {
 public:
  NamedBackend(std::string kernel_name, KernelPriority priority, bool prefill, bool decode, KvOrder order)
      : name_(std::move(kernel_name)), priority_(priority), prefill_(prefill), decode_(decode), order_(order) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return priority_; }
  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo&) const override {
    return (spec.has_single_rows() ? decode_ : prefill_) ? Support::yes() : Support::no("for the other phase");
  }
  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override {
    return {.block_tokens = spec.has_single_rows() ? 64 : 32,
            .kv_heads = spec.kv_heads,
            .head_dim = spec.head_dim,
            .k_order = order_};
  }
  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }
  void run(const Attention::Spec&, const KvLayout&, const Attention::Args&, ExecutionContext&) const override {}

 private:
  std::string name_;
  KernelPriority priority_;
  bool prefill_;
  bool decode_;
  KvOrder order_;
};

class AttentionPairTest : public ::testing::Test {
 protected:
  void add(std::string name, KernelPriority priority, bool prefill, bool decode, KvOrder order) {
    registry_.add<Attention>(std::make_unique<NamedBackend>(std::move(name), priority, prefill, decode, order));
  }
  [[nodiscard]] AttentionPair choose(std::string_view forced = {}) const {
    return choose_attention(registry_, {.q_heads = 4, .kv_heads = 2, .head_dim = 64}, cpu_device_info(), forced);
  }
  static std::string reason(const Choice<Attention>& choice, std::string_view kernel) {
    const auto found = std::ranges::find(choice.refusals, kernel, &Refusal::kernel);
    return found == choice.refusals.end() ? "(no refusal)" : found->reason;
  }

  KernelRegistry registry_;
};

TEST_F(AttentionPairTest, TheBestTwoServeWhereTheyAgree) {
  add("fast_prefill", KernelPriority::architecture, true, false, KvOrder::token_major);
  add("fast_decode", KernelPriority::architecture, false, true, KvOrder::token_major);
  add("any", KernelPriority::portable, true, true, KvOrder::token_major);
  const AttentionPair pair = choose();
  EXPECT_EQ(pair.prefill.kernel->name(), "fast_prefill");
  EXPECT_EQ(pair.decode.kernel->name(), "fast_decode");
  EXPECT_EQ(pair.layout.block_tokens, 64) << "the decode kernel's";
  EXPECT_EQ(reason(pair.prefill, "any"), "fast_prefill is preferred");
  EXPECT_EQ(reason(pair.prefill, "fast_decode"), "for the other phase");
}

TEST_F(AttentionPairTest, AKernelThatAgreesWithNobodyIsRefusedWithTheReason) {
  add("fast_decode", KernelPriority::architecture, false, true, KvOrder::dim_major);
  add("flash", KernelPriority::family, true, false, KvOrder::token_major);
  add("paged", KernelPriority::specialised, false, true, KvOrder::token_major);
  const AttentionPair pair = choose();
  EXPECT_EQ(pair.prefill.kernel->name(), "flash");
  EXPECT_EQ(pair.decode.kernel->name(), "paged");
  EXPECT_EQ(reason(pair.decode, "fast_decode"), "wants another layout of the cache than flash");
}

TEST_F(AttentionPairTest, ASlowerPrefillIsTakenForAMuchFasterDecode) {
  add("fast_decode", KernelPriority::architecture, false, true, KvOrder::dim_major);
  add("own_prefill", KernelPriority::portable, true, false, KvOrder::dim_major);
  add("flash", KernelPriority::family, true, false, KvOrder::token_major);
  add("any", KernelPriority::last_resort, true, true, KvOrder::token_major);
  const AttentionPair pair = choose();
  EXPECT_EQ(pair.prefill.kernel->name(), "own_prefill");
  EXPECT_EQ(reason(pair.prefill, "flash"), "wants another layout of the cache than fast_decode");
  EXPECT_EQ(reason(pair.decode, "any"), "wants another layout of the cache than own_prefill");
}

TEST_F(AttentionPairTest, WhereNoTwoAgreeTheErrorNamesBothLayouts) {
  add("flash", KernelPriority::family, true, false, KvOrder::token_major);
  add("fast_decode", KernelPriority::architecture, false, true, KvOrder::dim_major);
  const std::string text = testing::error_text([&] { static_cast<void>(choose()); });
  EXPECT_THAT(text, HasSubstr("no two attention kernels"));
  EXPECT_THAT(text, HasSubstr("flash of prefill wants F16, 2 KV heads of 64, token-major K"));
  EXPECT_THAT(text, HasSubstr("fast_decode of decode wants F16, 2 KV heads of 64, dimension-major K"));
}

TEST_F(AttentionPairTest, AForcedKernelServesThePhasesItCan) {
  add("flash", KernelPriority::family, true, false, KvOrder::token_major);
  add("paged", KernelPriority::specialised, false, true, KvOrder::token_major);
  add("composed", KernelPriority::portable, true, true, KvOrder::token_major);
  EXPECT_EQ(choose("flash").decode.kernel->name(), "paged");
  EXPECT_EQ(choose("paged").prefill.kernel->name(), "flash");
  EXPECT_EQ(choose("composed").decode.kernel->name(), "composed");
  EXPECT_THAT(testing::error_text([&] { static_cast<void>(choose("nobody")); }), HasSubstr("there is none named 'nobody'"));
}

}  // namespace
}  // namespace rocmforge
