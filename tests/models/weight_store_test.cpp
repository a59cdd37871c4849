#include "weights/weight_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "models/error_text.h"
#include "models/model_file.h"

namespace rocmforge::testing {
namespace {

TEST(WeightStore, ViewsReadTheFileItself) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  const WeightStore store(open.file);
  const GgufTensor& tensor = open.file.tensor("blk.0.attn_q.weight");
  EXPECT_EQ(store.view(tensor), tensor.tensor.data);
  EXPECT_EQ(store.owned_bytes(), 0u);
}

TEST(WeightStore, CopiesAreAlignedZeroedCountedAndApart) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  WeightStore store(open.file);
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
  EXPECT_EQ(store.owned_bytes(), 64 + 128 + (std::size_t{100} << 20) + 64);
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
    WeightStore store(open.file);
    const GgufTensor& tensor = open.file.tensor("output_norm.weight");
    const float* floats = store.floats(tensor);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), floats)) << name(dtype);
    EXPECT_EQ(floats == tensor.tensor.data, dtype == DType::f32);
  }
  model.convert("output_norm.weight", DType::q8_0);
  const OpenModel open(model);
  EXPECT_EQ(error_text([&] { WeightStore(open.file).floats(open.file.tensor("output_norm.weight")); }),
            "tiny.gguf: tensor 'output_norm.weight' is Q8_0, a vector must be F32, F16 or BF16");
}

TEST(WeightStore, AnAddressThatCannotBeReadIsRefused) {
  const OpenModel open(ModelFile::golden("llama-gqa4"));
  GgufTensor tensor = open.file.tensor("output_norm.weight");
  tensor.tensor.data = static_cast<const std::byte*>(tensor.tensor.data) + 2;
  tensor.file_offset = 98;
  EXPECT_EQ(error_text([&] { static_cast<void>(WeightStore(open.file).view(tensor)); }),
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
    WeightStore store(file);
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
    for (int i = 0; i < tensors; ++i) {  // what was let go can still be read
      EXPECT_EQ(static_cast<int>(*file.tensor("weight." + std::to_string(i)).tensor.as<std::byte>()), i + 1);
    }
  }
  std::filesystem::remove(path);
}

TEST(HostMemory, IsZeroedMovedAndRefusedByName) {
  HostMemory memory(1000);
  EXPECT_EQ(memory.size_bytes(), 1000u);
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + 1000, [](std::byte b) { return b == std::byte{0}; }));
  std::byte* data = memory.data();
  HostMemory moved = std::move(memory);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(HostMemory().data(), nullptr);
  EXPECT_EQ(error_text([] { HostMemory(std::size_t{1} << 62); }).substr(0, 39), "no memory for 4611686018427387904 bytes");
}

}  // namespace
}  // namespace rocmforge::testing
