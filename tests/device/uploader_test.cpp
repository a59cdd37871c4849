#include "device/uploader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "error_of.h"
#include "fake_driver.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::ElementsAre;

constexpr std::size_t part = 1 << 16;

/// On a fake GPU that copies only when the host waits: a buffer that is filled too early shows as wrong bytes.
class UploaderOnAGpu : public testing::Test {
 protected:
  UploaderOnAGpu() {
    folder_.write("gfx1100/a.hsaco",
                  "\x7f"
                  "ELF code");
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
    memory_ = device_->allocate(size_bytes, "a test");
    log_->late_copies = true;
    log_->calls.clear();
    for (std::size_t i = 0; i < size_bytes; ++i) {
      bytes_[i] = static_cast<std::byte>(i * 2654435761U >> 13);
    }
  }

  [[nodiscard]] bool arrived(std::size_t count) const {
    return std::equal(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(count), memory_.data());
  }

  static constexpr std::size_t size_bytes = 40 * part;
  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
  DeviceBuffer memory_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_bytes);
};

TEST_F(UploaderOnAGpu, takes_two_buffers_in_turn_and_waits_for_the_event_of_each) {
  Uploader uploader(*device_, part);
  uploader.copy(memory_.data(), bytes_.data(), 3 * part + 5, nullptr);
  EXPECT_THAT(log_->copied_bytes, ElementsAre(part, part, part, 5));
  EXPECT_THAT(log_->calls,
              ElementsAre("allocate_pinned", "create_event", "allocate_pinned", "create_event",  //
                          "copy_to_device", "record", "copy_to_device", "record",                //
                          "synchronize", "copy_to_device", "record", "synchronize", "copy_to_device", "record"));
  EXPECT_FALSE(arrived(3 * part + 5)) << "the last two are on their way";
  uploader.finish();
  EXPECT_TRUE(arrived(3 * part + 5));
  EXPECT_EQ(log_->pinned.size(), 0);
  EXPECT_EQ(log_->unpinned_copies, 0);
}

TEST_F(UploaderOnAGpu, many_uploads_of_ragged_sizes_share_the_buffers) {
  Uploader uploader(*device_, part);
  ThreadPool pool(2);
  std::size_t done = 0;
  for (const std::size_t count : {std::size_t{1}, std::size_t{255}, part - 1, part, part + 1, std::size_t{7}, 2 * part,
                                  5 * part - 3, std::size_t{0}, 20 * part + 77}) {
    std::vector<std::byte> source(bytes_.begin() + static_cast<std::ptrdiff_t>(done),
                                  bytes_.begin() + static_cast<std::ptrdiff_t>(done + count));
    uploader.copy(memory_.data() + done, source.data(), count, &pool);
    std::ranges::fill(source, std::byte{0xEE});  // the caller may use it again
    done += count;
  }
  uploader.finish();
  EXPECT_TRUE(arrived(done));
  EXPECT_LE(log_->most_pinned_bytes, 2 * part);
  EXPECT_EQ(log_->unpinned_copies, 0);
}

TEST_F(UploaderOnAGpu, small_uploads_take_small_buffers) {
  Uploader uploader(*device_);
  uploader.copy(memory_.data(), bytes_.data(), 100, nullptr);
  EXPECT_EQ(log_->most_pinned_bytes, 2 * 128);
  uploader.copy(memory_.data(), bytes_.data(), 5000, nullptr);
  EXPECT_EQ(log_->most_pinned_bytes, 2 * 8192) << "the old ones are freed first";
  EXPECT_EQ(Uploader::largest_part_bytes, std::size_t{32} << 20);
}

/// Pieces of several threads, and the request to read the next part ahead, over pages of a file.
TEST_F(UploaderOnAGpu, no_page_of_a_file_reaches_an_asynchronous_copy) {
  const std::filesystem::path path = folder_.path() / "weights";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  const MappedFile file(path);
  ThreadPool pool(3);
  device_->upload(memory_.data(), file.bytes().data(), size_bytes, &pool);
  device_->finish_uploads();
  EXPECT_TRUE(arrived(size_bytes));
  EXPECT_EQ(log_->unpinned_copies, 0);
  EXPECT_TRUE(log_->pinned.empty());
}

/// Every call of the runtime fails in turn. The error arrives, nothing leaks, and the next upload is right.
TEST_F(UploaderOnAGpu, a_failing_call_at_any_place_is_reported_and_leaves_nothing) {
  constexpr std::size_t calls = 14;  // of the first test
  for (std::size_t failing = 1; failing <= calls + 1; ++failing) {
    Uploader uploader(*device_, part);
    log_->calls.clear();
    log_->fail_at = failing;
    EXPECT_THAT(error_of([&] {
                  uploader.copy(memory_.data(), bytes_.data(), 3 * part + 5, nullptr);
                  uploader.finish();
                }),
                testing::EndsWith("fake: refused"))
        << "call " << failing;
    EXPECT_TRUE(log_->pinned.empty()) << "call " << failing;
    EXPECT_TRUE(log_->events.empty()) << "call " << failing;
    log_->fail_at = 0;
    std::ranges::fill(std::span(memory_.data(), size_bytes), std::byte{0});
    uploader.copy(memory_.data(), bytes_.data(), 9 * part, nullptr);
    uploader.finish();
    EXPECT_TRUE(arrived(9 * part)) << "call " << failing;
  }
}

TEST_F(UploaderOnAGpu, says_how_much_pinned_memory_is_missing) {
  log_->fail_on = "allocate_pinned";
  EXPECT_EQ(error_of([&] { device_->upload(memory_.data(), bytes_.data(), 100'000); }),
            "cannot allocate 131072 bytes of pinned host memory: fake: refused");
}

}  // namespace
}  // namespace rocmforge
