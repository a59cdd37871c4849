#include "models/step/step_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/fake_driver.h"
#include "device/temporary_folder.h"

namespace rocmforge {
namespace {

class StepGraphsTest : public testing::Test {
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

}  // namespace
}  // namespace rocmforge
