#include "weights/weight_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "device/fake_driver.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "temporary_folder.h"

namespace rocmforge::testing {
namespace {

TEST(WeightStore, ViewsReadTheFileItself) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  Device device;
  WeightStore store(open.file, device);
  const GgufTensor& tensor = open.file.tensor("blk.0.attn_q.weight");
  EXPECT_EQ(store.view(tensor), tensor.tensor.data);
  EXPECT_EQ(store.owned_bytes(), 0u);
}

TEST(WeightStore, CopiesAreAlignedZeroedCountedAndApart) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  Device device;
  WeightStore store(open.file, device);
  const GgufTensor& tensor = open.file.tensor("blk.0.attn_q.weight");
  std::vector<const std::uint8_t*> copies;
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{100} << 20, std::size_t{64}}) {
    const void* copy = store.repack(tensor, size, [&](const void* rows, void* packed) {
      EXPECT_EQ(rows, tensor.tensor.data);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packed) % 64, 0u);
      EXPECT_EQ(*static_cast<std::uint8_t*>(packed), 0);
      std::memset(packed, static_cast<int>(copies.size()) + 1, std::min<std::size_t>(size, 4096));
    });
    copies.push_back(static_cast<const std::uint8_t*>(copy));
  }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    EXPECT_EQ(*copies[i], i + 1);
  }
  EXPECT_EQ(store.owned_bytes(), 256 + 256 + (std::size_t{100} << 20) + 256);
}

TEST(WeightStore, VectorsAreFloats) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  const std::vector<float> values = dequantized(model.weight("output_norm.weight"));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    ModelFile changed = model;
    if (dtype != DType::f32) {
      changed.convert("output_norm.weight", dtype);
    }
    const std::vector<float> expected = dequantized(changed.weight("output_norm.weight"));
    const OpenModel open(changed);
    Device device;
    WeightStore store(open.file, device);
    const GgufTensor& tensor = open.file.tensor("output_norm.weight");
    const float* floats = store.floats(tensor);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), floats)) << name(dtype);
    EXPECT_EQ(floats == tensor.tensor.data, dtype == DType::f32);
  }
  model.convert("output_norm.weight", DType::q8_0);
  const OpenModel open(model);
  Device device;
  EXPECT_EQ(error_text([&] { WeightStore(open.file, device).floats(open.file.tensor("output_norm.weight")); }),
            "tiny.gguf: tensor 'output_norm.weight' is Q8_0, a vector must be F32, F16 or BF16");
}

TEST(WeightStore, AnAddressThatCannotBeReadIsRefused) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  GgufTensor tensor = open.file.tensor("output_norm.weight");
  tensor.tensor.data = static_cast<const std::byte*>(tensor.tensor.data) + 2;
  tensor.file_offset = 98;
  Device device;
  EXPECT_EQ(error_text([&] { static_cast<void>(WeightStore(open.file, device).view(tensor)); }),
            "tiny.gguf: tensor 'output_norm.weight' lies at offset 98, F32 needs a multiple of 4");
}

/// Pages of this process that belong to mapped files.
std::int64_t resident_file_pages() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  std::int64_t shared = 0;
  statm >> total >> resident >> shared;
  return shared;
}

TEST(WeightStore, FileAndCopiesNeverAddUp) {
  ModelFile model;
  constexpr int tensors = 8;
  constexpr std::int64_t rows = 1024;
  constexpr std::int64_t cols = 1024;  // 4 MiB each
  for (int i = 0; i < tensors; ++i) {
    model.weights.push_back({"weight." + std::to_string(i), {rows, cols}, DType::f32, {}});
    model.weights.back().data.resize(std::size_t{rows} * cols * sizeof(float), static_cast<std::byte>(i + 1));
  }
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / ("weight_store_" + std::to_string(getpid()) + ".gguf");
  {
    const std::vector<std::byte> bytes = model.bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  {
    const GgufFile file{path};
    Device device;
    WeightStore store(file, device);
    const std::int64_t before = resident_file_pages();
    std::int64_t most = 0;
    for (int i = 0; i < tensors; ++i) {
      const GgufTensor& tensor = file.tensor("weight." + std::to_string(i));
      store.repack(tensor, tensor.tensor.bytes(), [&](const void* from, void* to) {
        std::memcpy(to, from, tensor.tensor.bytes());
        most = std::max(most, resident_file_pages() - before);
      });
    }
    const std::int64_t one_tensor = rows * cols * 4 / sysconf(_SC_PAGESIZE);
    EXPECT_LE(most, 2 * one_tensor);
    for (int i = 0; i < tensors; ++i) {  // released pages can still be read
      EXPECT_EQ(static_cast<int>(*file.tensor("weight." + std::to_string(i)).tensor.as<std::byte>()), i + 1);
    }
  }
  std::filesystem::remove(path);
}

/// A GPU made of host memory: every weight is a copy, made once.
class WeightStoreOnAGpu : public ::testing::Test {
 protected:
  WeightStoreOnAGpu() {
    folder_.write("gfx1100/any.hsaco",
                  "\x7f"
                  "ELF code");
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
  }
  [[nodiscard]] bool on_device(const void* address, std::size_t size_bytes) const {
    return std::ranges::any_of(log_->memory, [&](const auto& block) {
      const auto* begin = static_cast<const std::byte*>(block.first);
      const auto* at = static_cast<const std::byte*>(address);
      return at >= begin && at + size_bytes <= begin + block.second;
    });
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
};

TEST_F(WeightStoreOnAGpu, EveryKindOfWeightIsCopiedOnceAndRight) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.convert("blk.0.attn_norm.weight", DType::bf16);
  const OpenModel open(model);
  WeightStore store(open.file, *device_);
  const GgufTensor& matrix = open.file.tensor("blk.0.attn_q.weight");
  const GgufTensor& vector = open.file.tensor("output_norm.weight");
  const GgufTensor& short_vector = open.file.tensor("blk.0.attn_norm.weight");
  const std::vector<float> numbers{1.0f, 2.5f, -3.0f};
  store.reserve(WeightStore::copy_bytes(matrix.tensor.bytes()) + WeightStore::copy_bytes(100) +
                2 * WeightStore::copy_bytes(64 * sizeof(float)) + WeightStore::copy_bytes(12));
  const std::int64_t allocations = device_->driver().counters().allocations;

  const void* rows = store.view(matrix);
  EXPECT_NE(rows, matrix.tensor.data);
  EXPECT_TRUE(on_device(rows, matrix.tensor.bytes()));
  EXPECT_EQ(std::memcmp(rows, matrix.tensor.data, matrix.tensor.bytes()), 0);
  const std::int64_t copies = device_->driver().counters().copies_to_device;
  EXPECT_EQ(store.view(matrix), rows) << "a tensor that two kernels read is one copy";
  EXPECT_EQ(device_->driver().counters().copies_to_device, copies);

  const void* packed = store.repack(matrix, 100, [&](const void* from, void* to) {
    EXPECT_EQ(from, matrix.tensor.data);
    EXPECT_FALSE(on_device(to, 100)) << "packing is the host's work";
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(to) % 64, 0u);
    EXPECT_EQ(static_cast<char*>(to)[99], 0);
    std::memset(to, 7, 50);
  });
  EXPECT_TRUE(on_device(packed, 100));
  EXPECT_EQ(static_cast<const char*>(packed)[49], 7);
  EXPECT_EQ(static_cast<const char*>(packed)[50], 0);

  const float* floats = store.floats(vector);
  EXPECT_TRUE(on_device(floats, 64 * sizeof(float)));
  EXPECT_EQ(std::memcmp(floats, vector.tensor.data, 64 * sizeof(float)), 0);
  const std::vector<float> expected = dequantized(model.weight("blk.0.attn_norm.weight"));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), store.floats(short_vector)));
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), store.floats(numbers)));
  EXPECT_EQ(store.floats(numbers), store.floats(numbers));
  EXPECT_EQ(device_->driver().counters().allocations, allocations) << "what was reserved suffices";
  store.finish();
  EXPECT_EQ(log_->unpinned_copies, 0) << "pages of the file reached an asynchronous copy";
  EXPECT_TRUE(log_->pinned.empty()) << "loading is over";
}

TEST_F(WeightStoreOnAGpu, WhatDoesNotFitIsRefusedBeforeAnythingIsCopied) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  WeightStore store(open.file, *device_);
  log_->free_bytes = 1000;
  EXPECT_THAT(
      error_text([&] { store.reserve(std::size_t{3} << 30); }),
      ::testing::AllOf(::testing::HasSubstr("3.00 GiB for the weights"), ::testing::HasSubstr("are free on Fake GPU")));
  EXPECT_EQ(device_->driver().counters().copies_to_device, 0);
}

}  // namespace
}  // namespace rocmforge::testing
