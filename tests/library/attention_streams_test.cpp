// Attention calls on streams of the caller, tested without a GPU: which kernels may overlap, and which calls wait for
// others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention_library.h"
#include "device/fake_driver.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

class AttentionStreams : public testing::Test {
 protected:
  AttentionStreams() {
    folder_.write("gfx1100/attention_decode.hsaco",
                  "\x7f"
                  "ELF code");
    auto device = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
    own_stream_ = device->stream().handle().value;
    library_ = std::make_unique<AttentionLibrary>(std::move(device));
    log_->waited.clear();
  }

  /// One query row of one sequence behind 99 keys, in two blocks of a cache.
  void decode(bool on_device, void* stream, bool own_stream = false) {
    const std::int32_t query_offsets[] = {0, 1};
    const std::int32_t kv_lengths[] = {100};
    const std::int32_t block_tables[] = {0, 1};
    rocmforge_paged_attention call{};
    call.num_sequences = 1;
    call.num_tokens = 1;
    call.q_heads = 8;
    call.kv_heads = 2;
    call.head_dim = 128;
    call.block_tokens = 64;
    call.num_blocks = 2;
    call.max_blocks = 2;
    call.query_offsets = query_offsets;
    call.kv_lengths = kv_lengths;
    call.block_tables = block_tables;
    call.q = tensor_.data();
    call.cache = tensor_.data();
    call.out = out_.data();
    rocmforge_attention_options options{};
    options.dtype = ROCMFORGE_F16;
    options.causal = 1;
    options.on_device = on_device ? 1 : 0;
    options.stream = stream;
    options.own_stream = own_stream ? 1 : 0;
    options.backend = "amd_decode";
    library_->run(call, options);
  }

  [[nodiscard]] bool overlaps() const { return log_->shapes.back().dependent; }

  static constexpr std::size_t cache_halves = std::size_t{2} * 2 * 2 * 64 * 128;
  std::vector<std::uint16_t> tensor_ = std::vector<std::uint16_t>(cache_halves);
  std::vector<std::uint16_t> out_ = std::vector<std::uint16_t>(8 * 128);
  int callers_[2]{};
  void* const caller_ = &callers_[0];
  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  void* own_stream_ = nullptr;
  std::unique_ptr<AttentionLibrary> library_;
};

TEST_F(AttentionStreams, AKernelBehindOneOfTheCallerDoesNotOverlap) {
  decode(true, caller_);
  EXPECT_FALSE(overlaps());
  decode(true, nullptr);
  EXPECT_FALSE(overlaps());
  decode(true, nullptr, true);
  EXPECT_TRUE(overlaps()) << "on the context's own stream nothing of the caller runs";
}

TEST_F(AttentionStreams, ACallOnTheOwnStreamWaitsForAnUnfinishedOneOfTheCaller) {
  decode(true, caller_);
  log_->waited.clear();
  decode(true, nullptr, true);
  EXPECT_THAT(log_->waited, testing::Contains(caller_)) << "both use the same workspace and counters";
  log_->waited.clear();
  decode(true, nullptr, true);
  EXPECT_THAT(log_->waited, testing::IsEmpty()) << "one stream keeps its own order";
}

TEST_F(AttentionStreams, ACallWithHostTensorsWaitsForAnUnfinishedOneOfTheCaller) {
  decode(true, caller_);
  decode(true, caller_);
  log_->waited.clear();
  decode(false, nullptr);
  ASSERT_THAT(log_->waited, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(log_->waited[0], caller_);
}

TEST_F(AttentionStreams, ACallOfTheCallerWaitsForAnUnfinishedOneOnTheOwnStream) {
  decode(true, nullptr, true);
  log_->waited.clear();
  decode(true, caller_);
  EXPECT_THAT(log_->waited, testing::Contains(own_stream_));
}

}  // namespace
}  // namespace rocmforge
