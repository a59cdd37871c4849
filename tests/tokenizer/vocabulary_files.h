#pragma once

#include <lzma.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include "base/error.h"
#include "engine/load_tokenizer.h"
#include "paths.h"
#include "temporary_folder.h"

namespace rocmforge::test {

inline std::filesystem::path golden(const std::string& file) {
  return std::filesystem::path(test::test_data("golden/tokenizer")) / file;
}

inline std::string read_golden(const std::string& file) {
  std::ifstream stream(golden(file), std::ios::binary);
  check(stream.good(), "missing " + golden(file).string());
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// What an .xz file of at most 4 MiB holds.
inline std::string read_golden_xz(const std::string& file) {
  const std::string packed = read_golden(file);
  std::string content(std::size_t{4} << 20, '\0');
  std::uint64_t memory_limit = std::numeric_limits<std::uint64_t>::max();
  std::size_t read = 0;
  std::size_t written = 0;
  const lzma_ret result =
      lzma_stream_buffer_decode(&memory_limit, 0, nullptr, reinterpret_cast<const std::uint8_t*>(packed.data()), &read, packed.size(),
                                reinterpret_cast<std::uint8_t*>(content.data()), &written, content.size());
  check(result == LZMA_OK && read == packed.size(), golden(file).string() + " is no .xz file of at most 4 MiB");
  content.resize(written);
  return content;
}

/// The tokenizer of one of the vocabularies beside the golden files: gpt-2, deepseek-coder, llama-spm, phi-3, bert-bge, unigram.
/// Their GGUF files are packed, to a fifth of their size.
inline std::shared_ptr<const Tokenizer> load_golden(const std::string& name) {
  const TemporaryFolder folder;
  return load_tokenizer(GgufFile(folder.write(name + ".gguf", read_golden_xz(name + ".gguf.xz"))));
}

/// GPT-2's vocabulary under another pre-tokenizer.
inline std::shared_ptr<const Tokenizer> gpt2_with(const std::string& pre) {
  Vocabulary vocabulary = load_golden("gpt-2")->vocabulary();
  vocabulary.pre = pre;
  return Tokenizer::create(std::move(vocabulary));
}

}  // namespace rocmforge::test
