#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "paths.h"

namespace rocmforge {

/// All golden models.
inline std::vector<std::string> golden_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data("golden/models"))) {
    if (entry.path().extension() == ".gguf") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A golden model ("mtp/glm4moe" is in a folder) as a file without a tokenizer, with the key for that, which the golden
/// files lack.
inline std::string golden_model_file(const std::string& model) {
  std::ifstream in(test::test_data("golden/models/") + model + ".gguf", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto number = [](auto value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto entry = [&](std::string_view key, std::string_view value) {
    constexpr std::uint32_t string_type = 8;
    return number(std::uint64_t{key.size()}) + std::string(key) + number(string_type) + number(std::uint64_t{value.size()}) +
           std::string(value);
  };
  // Multiples of the alignment leave the data where the tensors expect it.
  const std::string added = entry("tokenizer.ggml.model", "no_vocab") + entry("general.description", "a fixture");
  EXPECT_EQ(added.size() % 32, 0u);
  constexpr std::size_t count_offset = 16;  // magic, version, number of tensors, number of keys
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + count_offset, sizeof count);
  count += 2;
  std::memcpy(bytes.data() + count_offset, &count, sizeof count);
  bytes.insert(count_offset + sizeof count, added);
  std::string name = model;
  std::replace(name.begin(), name.end(), '/', '_');
  const std::string path = ::testing::TempDir() + "engine_" + std::to_string(::getpid()) + "_" + name + ".gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace rocmforge
