#include "models/step/step_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/fake_driver.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

class StepGraphsTest : public ::testing::Test {
 protected:
  StepGraphsTest() {
    folder_.write("gfx1100/a.hsaco",
                  "\x7f"
                  "ELF code");
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
  }

  /// Runs a step twice: it is recorded at the second run.
  static void run(StepGraphs& graphs, std::int32_t max_blocks) {
    for (int repetition = 0; repetition < 2; ++repetition) {
      graphs.run({.sequences = 1, .max_blocks = max_blocks}, [] {});
    }
  }
  /// Whether each destruction of a graph comes after a wait that follows the last replay.
  [[nodiscard]] bool waited_before_each_end() const {
    bool running = false;
    for (const std::string& call : log_->calls) {
      running = call == "replay" || (running && call != "synchronize");
      if (call == "destroy_graph" && running) {
        return false;
      }
    }
    return true;
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
};

TEST_F(StepGraphsTest, AreBoundedAndTheOnesInUseAreKept) {
  StepGraphs graphs(device_->stream());
  for (std::int32_t blocks = 1; blocks <= 1000; ++blocks) {
    run(graphs, blocks);
    run(graphs, 1);
    ASSERT_LE(log_->graphs.size(), StepGraphs::most_shapes);
  }
  EXPECT_EQ(log_->graphs.size(), StepGraphs::most_shapes);
  EXPECT_EQ(std::ranges::count(log_->calls, "begin_capture"), 1000) << "the one in use is recorded once";
  EXPECT_TRUE(waited_before_each_end());
}

TEST_F(StepGraphsTest, AreDestroyedAfterAWait) {
  {
    StepGraphs graphs(device_->stream());
    run(graphs, 1);
    graphs.clear();
    EXPECT_TRUE(log_->graphs.empty());
    run(graphs, 2);
  }
  EXPECT_TRUE(log_->graphs.empty());
  EXPECT_TRUE(waited_before_each_end());
}

TEST_F(StepGraphsTest, AreDestroyedEvenWhenTheDeviceIsGone) {
  {
    StepGraphs graphs(device_->stream());
    run(graphs, 1);
    log_->fail_on = "synchronize";
  }
  EXPECT_TRUE(log_->graphs.empty());
}

class CutStepTest : public StepGraphsTest {
 protected:
  CutStepTest() {
    context_.stream = &device_->stream();
    step_.context = &context_;
    const auto launch = [this](const Step&) { ++launches_; };
    const auto on_host = [this](const Step&) {
      ++host_runs_;
      if (fails_) {
        throw Error("the host's part failed");
      }
    };
    operations_ = {{"a", launch}, {"b", launch}, {.kind = "c", .run = on_host, .on_host = true}, {"d", launch}};
  }

  void run_cut(StepGraphs& graphs, std::int32_t sequences = 1) {
    graphs.run_cut({.sequences = sequences}, [this](const RunOperations& run) { run(operations_, step_); });
  }
  [[nodiscard]] std::ptrdiff_t calls(const std::string& name) const { return std::ranges::count(log_->calls, name); }

  ExecutionContext context_;
  Step step_;
  Operations operations_;
  int launches_ = 0;
  int host_runs_ = 0;
  bool fails_ = false;
};

TEST_F(CutStepTest, ReplaysAGraphBeforeAndBehindWhatTheHostDoes) {
  StepGraphs graphs(device_->stream());
  run_cut(graphs);
  EXPECT_EQ(launches_, 3);
  EXPECT_EQ(calls("begin_capture"), 0) << "the first step is not recorded";
  run_cut(graphs);
  EXPECT_EQ(launches_, 6);
  EXPECT_EQ(calls("begin_capture"), 2);
  EXPECT_EQ(calls("replay"), 2);
  for (int step = 0; step < 5; ++step) {
    run_cut(graphs);
  }
  EXPECT_EQ(launches_, 6) << "recorded launches are not repeated";
  EXPECT_EQ(host_runs_, 7) << "the host works in each step";
  EXPECT_EQ(calls("begin_capture"), 2);
  EXPECT_EQ(calls("replay"), 12);
  run_cut(graphs, 2);
  EXPECT_EQ(launches_, 9) << "another shape has graphs of its own";
}

TEST_F(CutStepTest, AStepThatFailsWhileItIsRecordedIsRecordedAgain) {
  StepGraphs graphs(device_->stream());
  run_cut(graphs);
  fails_ = true;
  EXPECT_THROW(run_cut(graphs), Error);
  EXPECT_TRUE(log_->graphs.empty()) << "half a step is not kept";
  fails_ = false;
  run_cut(graphs);
  run_cut(graphs);
  EXPECT_EQ(calls("begin_capture"), calls("end_capture"));
  EXPECT_EQ(log_->graphs.size(), 2u);
  EXPECT_EQ(host_runs_, 4);
}

}  // namespace
}  // namespace rocmforge
