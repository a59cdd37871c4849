#include "models/step/step_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/plan/attention_pair.h"

namespace rocmforge {
namespace {

using ::testing::ElementsAre;

/// Records its calls.
class RecordingBackend final : public AttentionBackend {
 public:
  RecordingBackend(std::string kernel_name, std::vector<std::string>& calls)
      : name_(std::move(kernel_name)), calls_(calls) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const Attention::Spec&, const DeviceInfo&) const override { return Support::yes(); }
  [[nodiscard]] KvLayout layout(const Attention::Spec&) const override { return {}; }
  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec&, const AttentionLimits&) const override { return 0; }
  [[nodiscard]] bool takes(const Attention::Spec& spec, const RopeAppend::Spec& append) const override {
    return spec.has_single_rows() && append.append;
  }
  void run(const Attention::Spec& spec, const KvLayout&, const Attention::Args& args, ExecutionContext&) const override {
    const char* rows = args.rows == Attention::Rows::all      ? "all"
                       : args.rows == Attention::Rows::single ? "single"
                                                              : "several";
    calls_.push_back(name_ +
                     (spec.has_single_rows() ? " decode "
                      : spec.most_rows > 1   ? " few "
                      : spec.spans           ? " spans "
                                             : " prefill ") +
                     rows + " state " + std::to_string(static_cast<int*>(args.state)[0]));
  }

 private:
  std::string name_;
  std::vector<std::string>& calls_;
};

class StepAttentionTest : public ::testing::Test {
 protected:
  std::vector<std::string> run(const AttentionBackend& prefill, const AttentionBackend& decode, bool single, bool several) {
    calls_.clear();
    int states[2] = {0, 1};
    ExecutionContext context;
    Step step;
    step.any_single = single;
    step.any_several = several;
    step.context = &context;
    step.buffers.attention_states[0] = &states[0];
    step.buffers.attention_states[1] = &states[1];
    const Attention::Spec spec{.q_heads = 1, .kv_heads = 1, .head_dim = 64};
    step.batch.visible_end = visible_end_;
    step.most_rows = most_rows_;
    StepAttention attention(spec, single_row_spec(spec), prefill, decode);
    if (spans_ != nullptr) {
      attention.set_spans(*spans_);
    }
    if (few_ != nullptr) {
      attention.set_few(4, *few_);
    }
    attention.run({}, step);
    return calls_;
  }

  const std::int32_t* visible_end_ = nullptr;
  std::int32_t most_rows_ = 0;
  const AttentionBackend* spans_ = nullptr;
  const AttentionBackend* few_ = nullptr;

  std::vector<std::string> calls_;
  RecordingBackend flash_{"flash", calls_};
  RecordingBackend paged_{"paged", calls_};
};

TEST_F(StepAttentionTest, EachKindOfSequenceGoesToItsKernel) {
  EXPECT_THAT(run(flash_, paged_, true, false), ElementsAre("paged decode all state 1"));
  EXPECT_THAT(run(flash_, paged_, false, true), ElementsAre("flash prefill all state 0"));
  EXPECT_THAT(run(flash_, paged_, true, true), ElementsAre("paged decode single state 1", "flash prefill several state 0"));
}

TEST_F(StepAttentionTest, OneKernelForBothTakesAllSequencesAtOnce) {
  EXPECT_THAT(run(flash_, flash_, true, false), ElementsAre("flash decode all state 1"));
  EXPECT_THAT(run(flash_, flash_, false, true), ElementsAre("flash prefill all state 0"));
  EXPECT_THAT(run(flash_, flash_, true, true), ElementsAre("flash prefill all state 0"));
}

TEST_F(StepAttentionTest, StepsWithSpansHaveAKernelOfTheirOwn) {
  const std::int32_t ends[] = {1};
  const RecordingBackend rows("rows", calls_);
  spans_ = &rows;
  EXPECT_THAT(run(flash_, paged_, true, true), ElementsAre("paged decode single state 1", "flash prefill several state 0"));
  visible_end_ = ends;
  EXPECT_THAT(run(flash_, paged_, true, false), ElementsAre("paged decode all state 1"));
  EXPECT_THAT(run(flash_, paged_, false, true), ElementsAre("rows spans all state 0"));
  EXPECT_THAT(run(flash_, paged_, true, true), ElementsAre("paged decode single state 1", "rows spans several state 0"));
  spans_ = &paged_;
  EXPECT_THAT(run(flash_, paged_, true, true), ElementsAre("paged spans all state 0"));
  spans_ = nullptr;
  EXPECT_THROW(run(flash_, paged_, true, true), LogicError) << "nobody is planned for it";
}

TEST_F(StepAttentionTest, StepsOfFewRowsHaveAKernelForAllSequences) {
  const RecordingBackend rows("rows", calls_);
  few_ = &rows;
  EXPECT_THAT(run(flash_, paged_, true, true), ElementsAre("paged decode single state 1", "flash prefill several state 0"));
  most_rows_ = 4;
  EXPECT_THAT(run(flash_, paged_, true, false), ElementsAre("rows few all state 1"));
  most_rows_ = 8;
  EXPECT_THROW(run(flash_, paged_, true, false), LogicError) << "nobody is planned for it";
}

TEST_F(StepAttentionTest, AnAppendIsPartOfStepsOfSingleRowsAlone) {
  const Attention::Spec spec{.q_heads = 1, .kv_heads = 1, .head_dim = 64};
  const StepAttention attention(spec, single_row_spec(spec), flash_, paged_);
  RopeAppend::Spec append;
  Step step;
  step.any_single = true;
  EXPECT_TRUE(attention.takes(append, step));
  step.any_several = true;
  EXPECT_FALSE(attention.takes(append, step));
  step.any_several = false;
  step.most_rows = 2;
  EXPECT_FALSE(attention.takes(append, step));
  step.most_rows = 0;
  step.batch.position_axes = 3;
  EXPECT_FALSE(attention.takes(append, step));
  step.batch.position_axes = 1;
  append.append = false;
  EXPECT_FALSE(attention.takes(append, step)) << "the backend does not take this one";
}

}  // namespace
}  // namespace rocmforge
