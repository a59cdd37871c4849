#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/fake_driver.h"
#include "kernels/register_all.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "paths.h"
#include "temporary_folder.h"

// Every step runs on the device alone: its calls of the driver are counted. Without a GPU the driver is a fake with host
// memory, whose kernels do nothing.
namespace rocmforge::testing {
namespace {

class GpuStep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_under_test().wanted != "cpu") {
      if (gpu_under_test().device == nullptr) {
        GTEST_SKIP() << gpu_under_test().problem;
      }
      device_ = gpu_under_test().device.get();
    } else {
      const std::filesystem::path kernels = test::source_path("src/kernels");
      for (const auto& entry : std::filesystem::recursive_directory_iterator(kernels)) {
        if (entry.path().extension() == ".hip") {
          folder_.write("gfx1100/" + entry.path().stem().string() + ".hsaco",
                        "\x7f"
                        "ELF code");
        }
      }
      fake_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
      device_ = fake_.get();
    }
  }

  [[nodiscard]] std::unique_ptr<Runner> load(const ModelOptions& options) {
    return std::make_unique<Runner>(file_, *device_, options);
  }
  [[nodiscard]] std::unique_ptr<Runner> load() {
    ModelOptions options;
    options.max_sequences = 8;
    options.context_length = 96;
    return load(options);
  }

  /// The driver's operations during `work`.
  template <class Work>
  DriverCounters count(Work&& work) {
    const DriverCounters before = device_->driver().counters();
    work();
    return device_->driver().counters() - before;
  }
  DriverCounters count_draw(Runner& runner, const std::vector<Piece>& pieces) {
    return count([&] { EXPECT_EQ(runner.draw(pieces).size(), pieces.size()); });
  }

  /// One token of each sequence at `position`, in blocks of its own.
  static std::vector<Piece> decode(std::int32_t sequences, std::int32_t position) {
    std::vector<Piece> pieces;
    for (std::int32_t s = 0; s < sequences; ++s) {
      pieces.push_back({{3 + s}, position, {2 * s, 2 * s + 1}});
    }
    return pieces;
  }

  /// Bytes of the arrays of a step, each rounded up to 16.
  static std::int64_t input_bytes(std::int64_t tokens, std::int64_t sequences, std::int64_t blocks, std::int64_t rows) {
    const auto rounded = [](std::int64_t bytes) { return (bytes + 15) / 16 * 16; };
    return rounded(rows * static_cast<std::int64_t>(sizeof(SampleTokens::Row))) + 3 * rounded(tokens * 4) +
           rounded((sequences + 1) * 4) + rounded(sequences * 4) + rounded(sequences * blocks * 4) + rounded(rows * 4);
  }

  /// Checks all counters except launches: one copy in, one out, one wait, nothing else.
  static void expect_all_on_device(const DriverCounters& step, std::int64_t bytes_in, std::int64_t rows) {
    EXPECT_EQ(step.copies_to_device, 1);
    EXPECT_EQ(step.bytes_to_device, bytes_in);
    EXPECT_EQ(step.copies_to_host, 1);
    EXPECT_EQ(step.bytes_to_host, 4 * rows);
    EXPECT_EQ(step.synchronizations, 1);
    EXPECT_EQ(step.allocations, 0);
    EXPECT_EQ(step.copies_on_device, 0);
  }

  GgufFile file_{golden_path("qwen3")};
  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> fake_;
  Device* device_ = nullptr;
};

TEST_F(GpuStep, ADecodeStepIsOneCopyInOneGraphOneCopyOutAndOneWait) {
  const auto runner = load();
  for (std::int32_t position = 0; position < 2; ++position) {
    count_draw(*runner, decode(1, position));
  }
  for (std::int32_t position = 2; position < 5; ++position) {
    const DriverCounters step = count_draw(*runner, decode(1, position));
    expect_all_on_device(step, input_bytes(1, 1, 96 / Runner::block_tokens, 1), 1);
    EXPECT_EQ(step.graph_launches, 1);
    EXPECT_EQ(step.launches, 0);
    EXPECT_EQ(step.fills, 0);
  }
}

TEST_F(GpuStep, ADecodeStepOfAModelWithStateIsTheSame) {
  for (const char* name :
       {"lfm2", "lfm2-conv", "mamba", "jamba", "mamba2", "falcon-h1", "granitehybrid", "nemotron_h", "nemotron_h_moe"}) {
    const GgufFile file{golden_path(name)};
    ModelOptions options;
    options.max_sequences = 8;
    options.context_length = 96;
    Runner runner(file, *device_, options);
    for (std::int32_t position = 0; position < 2; ++position) {
      count_draw(runner, decode(2, position));
    }
    for (std::int32_t position = 2; position < 5; ++position) {
      const DriverCounters step = count_draw(runner, decode(2, position));
      const std::int64_t slots = 2 * static_cast<std::int64_t>(sizeof(StateSlots));
      expect_all_on_device(step, input_bytes(2, 2, 96 / Runner::block_tokens, 2) + slots, 2);
      EXPECT_EQ(step.graph_launches, 1) << name;
      EXPECT_EQ(step.launches, 0) << name;
      EXPECT_EQ(step.fills, 0) << name;
    }
  }
}

TEST_F(GpuStep, APrefillIsTheSameWithItsLaunches) {
  const auto runner = load();
  const Piece prompt{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, 0, {4, 2}};
  for (int repetition = 0; repetition < 3; ++repetition) {
    const DriverCounters step = count_draw(*runner, {prompt});
    expect_all_on_device(step, input_bytes(17, 1, 2, 1), 1);
    EXPECT_EQ(step.graph_launches, 0);
    EXPECT_GT(step.launches, 0);
  }
}

TEST_F(GpuStep, AChunkThatDrawsNothingIsNotWaitedFor) {
  const auto runner = load();
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> tokens{1, 2, 3};
  const std::vector<std::int32_t> block{0};
  plan.add_sequence(tokens, 0, block, false);
  plan.finish();
  const DriverCounters step = count([&] { runner->model().forward(plan, runner->memory()); });
  EXPECT_EQ(step.copies_to_device, 1);
  EXPECT_EQ(step.copies_to_host, 0);
  EXPECT_EQ(step.synchronizations, 0);
  runner->model().wait();
}

TEST_F(GpuStep, SequencesArePaddedToAPowerOfTwoAndShareAGraph) {
  const auto runner = load();
  count_draw(*runner, decode(3, 0));
  count_draw(*runner, decode(4, 1));
  for (const std::int32_t sequences : {3, 4}) {
    const DriverCounters step = count_draw(*runner, decode(sequences, 2));
    expect_all_on_device(step, input_bytes(4, 4, 96 / Runner::block_tokens, 4), sequences);
    EXPECT_EQ(step.graph_launches, 1);
    EXPECT_EQ(step.launches, 0);
  }
  const DriverCounters other = count_draw(*runner, decode(5, 3));
  EXPECT_GT(other.launches, 0) << "five are padded to eight, which is recorded when it comes again";
  EXPECT_EQ(other.graph_launches, 0);
}

TEST_F(GpuStep, WithoutGraphsEveryKernelIsLaunched) {
  ModelOptions options;
  options.max_sequences = 8;
  options.graphs = false;
  const auto runner = load(options);
  for (std::int32_t position = 0; position < 4; ++position) {
    const DriverCounters step = count_draw(*runner, decode(3, position));
    expect_all_on_device(step, input_bytes(3, 3, 2, 3), 3);
    EXPECT_EQ(step.graph_launches, 0);
    EXPECT_GT(step.launches, 0);
  }
}

/// The golden model with matrices of Q8_0.
ModelFile quantised_model() {
  ModelFile model = ModelFile::golden("qwen3");
  for (const ModelFile::Weight& weight : model.weights) {
    if (weight.shape.rank() == 2) {
      model.convert(weight.name, DType::q8_0);
    }
  }
  return model;
}

/// On RDNA the products from attention's output to the next layer's Q, K and V, or to the output, are one launch.
TEST_F(GpuStep, ProductsThatFollowEachOtherAreOneLaunchOnRdna) {
  if (fake_ == nullptr) {
    GTEST_SKIP() << "which kernels are launched is known of the driver of host memory alone";
  }
  const OpenModel open(quantised_model());
  const auto kernels_of = [&](bool merge) {
    ModelOptions options;
    options.max_sequences = 8;
    options.graphs = false;
    options.merge_launches = merge;
    Runner runner(open.file, *device_, options);
    count_draw(runner, decode(1, 0));
    log_->kernels.clear();
    count_draw(runner, decode(1, 1));
    return log_->kernels;
  };
  const std::vector<std::string> single = kernels_of(false);
  const auto products = std::ranges::count(single, "matvec_packed_1");
  const auto layers = (products - 1) / 4;
  EXPECT_EQ(products, 4 * layers + 1);
  EXPECT_GT(layers, 1);
  const std::vector<std::string> merged = kernels_of(true);
  EXPECT_EQ(std::ranges::count(merged, "matvec_chain"), layers);
  EXPECT_EQ(std::ranges::count(merged, "matvec_packed_1"), 1) << "Q, K and V of the first layer";
  EXPECT_EQ(std::ssize(merged), std::ssize(single) - 3 * layers);
}

/// Steps of one token, of quantised matrices: launches are merged where the device has such kernels.
TEST_F(GpuStep, MergedLaunchesGiveTheSameBits) {
  if (fake_ != nullptr) {
    GTEST_SKIP() << "kernels do nothing on a driver of host memory";
  }
  const OpenModel open(quantised_model());
  const auto logits_of = [&](bool merge) {
    ModelOptions options;
    options.max_sequences = 8;
    options.merge_launches = merge;
    Runner runner(open.file, *device_, options);
    std::vector<float> all;
    for (std::int32_t position = 0; position < 4; ++position) {  // the last two are replayed
      const std::vector<float> logits = runner.step(decode(1, position));
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  EXPECT_EQ(logits_of(true), logits_of(false));
}

TEST_F(GpuStep, AnotherCacheIsNotServedByGraphsOfTheFirst) {
  const auto runner = load();
  for (std::int32_t position = 0; position < 3; ++position) {
    count_draw(*runner, decode(1, position));
  }
  SequenceMemory other(*device_, runner->memory().groups(), {.blocks = {4}});
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> one{1};
  plan.add_sequence(one, 0, one, true);
  plan.sample_rows.resize(1);
  plan.finish();
  const DriverCounters step = count([&] {
    runner->model().forward(plan, other);
    EXPECT_EQ(runner->model().sampled().size(), 1u);
  });
  EXPECT_EQ(step.graph_launches, 0);
  EXPECT_GT(step.launches, 0);
}

/// Prefill, decode and both at once, of models with all formats, heads and kernels: nothing that is launched is refused.
TEST_F(GpuStep, EveryModelRunsEveryKindOfStepWithEveryAttentionKernel) {
  KernelRegistry registry;
  register_all_kernels(registry);
  std::vector<std::string> kernels{""};
  for (const auto& kernel : registry.all<Attention>()) {
    if (kernel->device() == device_->info().kind) {
      kernels.emplace_back(kernel->name());
    }
  }
  ASSERT_GE(kernels.size(), 4u);
  std::vector<std::string> paths{test::source_path("models/forge-demo.gguf")};
  for (const std::string& name : golden_names()) {
    paths.push_back(golden_path(name));
  }
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) {
      continue;
    }
    const GgufFile file{path};
    for (const std::string& kernel : kernels) {
      SCOPED_TRACE(path + " " + kernel);
      ModelOptions options;
      options.attention = kernel;
      const DeviceInfo& info = device_->info();
      std::unique_ptr<Model> planned;
      try {
        planned = Model::plan(file, registry, info, 1, options);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(kernel + ": ")) << "a kernel that can't serve says why";
        continue;
      }
      Runner runner(file, *device_, options);
      const std::vector<std::int32_t> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
      EXPECT_EQ(runner.draw({{prompt, 0, {0, 1}}}).size(), 1u);
      EXPECT_EQ(runner.draw({{{19}, 18, {0, 1}}, {prompt, 0, {2, 3}}, {{7}, 0, {4}}}).size(), 3u);
      EXPECT_EQ(runner.draw({{{20}, 19, {0, 1}}, {{19}, 18, {2, 3}}, {{8}, 1, {4}}}).size(), 3u);
      EXPECT_EQ(runner.draw({{prompt, 20, {0, 1, 5}}, {prompt, 19, {2, 3, 6}}}).size(), 2u);
    }
  }
}

/// Each operation of a step belongs to one kind, and runs when its kind is timed.
TEST_F(GpuStep, KindsOfOperationsAreTimedApart) {
  ModelOptions options;
  options.max_sequences = 8;
  options.graphs = false;  // steps with graphs are padded
  const auto runner = load(options);
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> token{3};
  for (const std::int32_t block : {0, 1}) {
    const std::vector<std::int32_t> blocks{block};
    plan.add_sequence(token, 0, blocks, true);
  }
  plan.sample_rows.resize(2);
  plan.finish();
  const auto forward = count([&] { runner->model().forward(plan, runner->memory()); });
  std::vector<OperationTime> times;
  const auto timed = count([&] { times = runner->model().time_operations(plan, runner->memory()); });
  EXPECT_EQ(timed.launches, 3 * forward.launches) << "a step as it is, all kinds one by one, all at once";
  ASSERT_GT(times.size(), 5u);
  EXPECT_EQ(times.front().kind, EmbeddingRows::name);
  EXPECT_EQ(times.back().kind, "");
}

TEST_F(GpuStep, LogitsComeToTheHostOnlyWhenAskedFor) {
  const auto runner = load();
  const std::vector<float> logits = runner->step(decode(2, 0));
  EXPECT_EQ(logits.size(), 2 * static_cast<std::size_t>(runner->model().config().vocab));
  const DriverCounters copy = count([&] { EXPECT_EQ(runner->model().logits().size(), logits.size()); });
  EXPECT_EQ(copy.copies_to_host, 1);
  EXPECT_EQ(copy.bytes_to_host, static_cast<std::int64_t>(logits.size() * sizeof(float)));
  EXPECT_EQ(copy.synchronizations, 1);
}

TEST_F(GpuStep, GraphsDrawTheTokensOfPlainSteps) {
  if (fake_ != nullptr) {
    GTEST_SKIP() << "kernels do nothing on a driver of host memory";
  }
  const auto generate = [&](bool graphs) {
    ModelOptions options;
    options.max_sequences = 8;
    options.graphs = graphs;
    const auto runner = load(options);
    std::vector<std::vector<std::int32_t>> drawn;
    std::vector<Piece> pieces = decode(3, 0);
    for (std::int32_t position = 0; position < 24; ++position) {
      drawn.push_back(runner->draw(pieces));
      for (std::size_t s = 0; s < pieces.size(); ++s) {
        pieces[s].tokens = {drawn.back()[s]};
        pieces[s].first_position = position + 1;
      }
    }
    return drawn;
  };
  EXPECT_EQ(generate(true), generate(false));
}

/// The next step starts before the host knows the tokens that the last one drew. The tokens are the same as in single steps.
TEST_F(GpuStep, AStepTakesTheTokensThatTheOneBeforeDrew) {
  const auto generate = [&](bool ahead) {
    const auto runner = load();
    std::vector<std::vector<std::int32_t>> drawn;
    std::vector<Piece> pieces = decode(3, 0);
    for (std::int32_t position = 0; position < 24; ++position) {
      if (!ahead) {
        drawn.push_back(runner->draw(pieces));
      } else {
        const DriverCounters step = count([&] { runner->start_draw(pieces); });
        EXPECT_EQ(step.synchronizations, 0);
        if (position > 0) {
          const auto tokens = runner->model().previous_sampled();
          drawn.emplace_back(tokens.begin(), tokens.end());
        }
      }
      for (std::size_t s = 0; s < pieces.size(); ++s) {
        pieces[s].tokens = {ahead ? EmbeddingRows::drawn_token(static_cast<std::int32_t>(s)) : drawn.back()[s]};
        pieces[s].first_position = position + 1;
      }
    }
    if (ahead) {
      const auto tokens = runner->model().sampled();
      drawn.emplace_back(tokens.begin(), tokens.end());
    }
    return drawn;
  };
  const auto drawn = generate(true);
  EXPECT_EQ(drawn.size(), 24u);
  if (fake_ == nullptr) {
    EXPECT_EQ(drawn, generate(false));
  }
}

/// Kernels that start before their predecessors have ended must not read incomplete data. Many repetitions, because a race
/// is rare.
TEST_F(GpuStep, OverlappingKernelsGiveTheSameBits) {
  if (fake_ != nullptr) {
    GTEST_SKIP() << "kernels do nothing on a driver of host memory";
  }
  const auto logits_of = [&](bool overlap, int repetitions) {
    ModelOptions options;
    options.max_sequences = 8;
    options.overlap = overlap;
    const auto runner = load(options);
    const std::vector<std::int32_t> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    std::vector<std::vector<float>> all;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      std::vector<float> logits = runner->step({{prompt, 0, {0, 1}}, {{7}, 0, {2}}});
      const std::vector<float> decoded = runner->step({{{18}, 17, {0, 1}}, {{8}, 1, {2}}, {{5}, 0, {3}}});
      logits.insert(logits.end(), decoded.begin(), decoded.end());
      all.push_back(std::move(logits));
    }
    return all;
  };
  const std::vector<float> expected = logits_of(false, 1)[0];
  for (const std::vector<float>& logits : logits_of(true, 200)) {
    ASSERT_EQ(logits, expected);
  }
}

/// Weights are on the device before the first step, and nothing is left there afterwards.
TEST_F(GpuStep, MemoryIsCountedBeforeItIsTaken) {
  if (fake_ == nullptr) {
    GTEST_SKIP() << "other programs use the memory of a real GPU";
  }
  const auto held = [&] {
    std::size_t bytes = 0;
    for (const auto& [address, size] : log_->memory) {
      bytes += size;
    }
    return bytes;
  };
  const std::size_t before = held();
  {
    const auto runner = load();
    EXPECT_EQ(held() - before,
              runner->model().packed_bytes() + runner->model().workspace_bytes() + runner->memory().page_bytes());
    KernelRegistry registry;
    register_all_kernels(registry);
    ModelOptions options;
    options.max_sequences = 8;
    options.context_length = 96;
    const auto planned = Model::plan(file_, registry, device_->info(), 1, options);
    EXPECT_EQ(planned->packed_bytes(), runner->model().packed_bytes());
    EXPECT_EQ(planned->workspace_bytes(), runner->model().workspace_bytes());
  }
  EXPECT_EQ(held(), before);
}

/// A model whose layers lie on two fake GPUs.
class GpuStages : public GpuStep {
 protected:
  void SetUp() override {
    if (gpu_under_test().wanted != "cpu") {
      GTEST_SKIP() << "DevicePipelineTest has two GPUs";
    }
    GpuStep::SetUp();
    second_ =
        std::make_unique<Device>(std::make_unique<FakeDriver>(second_log_), KernelLibrary::from_folder(folder_.path()));
  }
  [[nodiscard]] std::unique_ptr<Runner> load_on_two(std::optional<StepLink::Route> route = {}) {
    ModelOptions options;
    options.max_sequences = 8;
    options.context_length = 96;
    options.stage_ends = {1, ModelConfig::from_gguf(file_).layers};
    return std::make_unique<Runner>(file_, std::vector{device_, second_.get()}, options, route);
  }
  struct Counts {
    DriverCounters first, second;
  };
  template <class Work>
  Counts count_both(Work&& work) {
    const DriverCounters before = second_->driver().counters();
    const DriverCounters first = count(work);
    return {first, second_->driver().counters() - before};
  }
  static void forward_part(Runner& runner, std::int32_t first) {
    BatchPlan plan;
    plan.clear();
    plan.add_sequence(std::vector<std::int32_t>{1, 2, 3}, first, std::vector<std::int32_t>{0, 1}, false);
    plan.finish();
    runner.model().forward(plan, runner.memory());
  }

  std::shared_ptr<FakeDriver::Log> second_log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> second_;
};

TEST_F(GpuStages, ADecodeStepIsAGraphOnEach) {
  const auto runner = load_on_two();
  for (std::int32_t position = 0; position < 2; ++position) {
    runner->draw(decode(1, position));
  }
  for (std::int32_t position = 2; position < 5; ++position) {
    const auto [first, second] = count_both([&] { runner->draw(decode(1, position)); });
    for (const DriverCounters& each : {first, second}) {
      EXPECT_EQ(each.graph_launches, 1);
      EXPECT_EQ(each.launches, 0);
      EXPECT_EQ(each.copies_to_device, 1);
      EXPECT_EQ(each.allocations, 0);
    }
    EXPECT_EQ(first.copies_on_device, 1) << "rows to the second";
    EXPECT_EQ(second.copies_on_device, 2) << "rows from the first, drawn tokens to it";
    EXPECT_EQ(first.synchronizations, 0);
    EXPECT_EQ(second.synchronizations, 1);
    EXPECT_EQ(second.copies_to_host, 1);
  }
}

TEST_F(GpuStages, AStepAheadWaitsForNothingAndGetsTheTokensOnTheDevice) {
  const auto runner = load_on_two();
  std::vector<Piece> pieces = decode(3, 0);
  for (std::int32_t position = 0; position < 6; ++position) {
    const auto [first, second] = count_both([&] { runner->start_draw(pieces); });
    EXPECT_EQ(first.synchronizations + second.synchronizations, 0);
    EXPECT_EQ(first.copies_on_device, position == 0 ? 1 : 2);
    EXPECT_EQ(second.copies_on_device, 2);
    for (std::size_t s = 0; s < pieces.size(); ++s) {
      pieces[s].tokens = {EmbeddingRows::drawn_token(static_cast<std::int32_t>(s))};
      pieces[s].first_position = position + 1;
    }
  }
  runner->model().wait();
}

/// So the first one computes a part while the second one computes the part before it.
TEST_F(GpuStages, PartsOfAPromptAreNotWaitedFor) {
  for (const auto route : {StepLink::Route::peer, StepLink::Route::host}) {
    const auto runner = load_on_two(route);
    for (std::int32_t part = 0; part < 6; ++part) {
      const auto [first, second] = count_both([&] { forward_part(*runner, 3 * part); });
      EXPECT_EQ(first.synchronizations + second.synchronizations, 0);
      const bool peer = route == StepLink::Route::peer;
      EXPECT_EQ(first.copies_on_device, peer ? 1 : 0);
      EXPECT_EQ(second.copies_on_device, peer ? 1 : 0);
      EXPECT_EQ(first.copies_to_host, peer ? 0 : 1);
      EXPECT_EQ(second.copies_to_device, peer ? 1 : 2) << "arrays, and rows from the host";
      EXPECT_GT(first.launches, 0);
      EXPECT_GT(second.launches, 0);
    }
    runner->model().wait();
  }
}

TEST_F(GpuStages, MemoryIsCountedOnEach) {
  const std::size_t before[2] = {device_->allocated_bytes(), second_->allocated_bytes()};
  const auto runner = load_on_two();
  const std::vector<RankBytes> counted = runner->model().rank_bytes();
  ASSERT_EQ(counted.size(), 2u);
  std::size_t pages = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Device& device = rank == 0 ? *device_ : *second_;
    std::size_t own = 0;
    for (std::int32_t group = 0; group < runner->memory().num_groups(); ++group) {
      own += runner->memory().of_rank(rank).pages(group).bytes();
    }
    EXPECT_EQ(device.allocated_bytes() - before[rank], counted[rank].weights + counted[rank].workspace + own);
    pages += own;
  }
  EXPECT_EQ(runner->memory().page_bytes(), pages);
}

}  // namespace
}  // namespace rocmforge::testing
