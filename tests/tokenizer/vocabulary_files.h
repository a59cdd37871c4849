#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "base/error.h"
#include "engine/load_tokenizer.h"
#include "paths.h"

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

/// The tokenizer of one of the vocabularies beside the golden files: gpt-2, deepseek-coder, llama-spm, phi-3, bert-bge, unigram.
inline std::shared_ptr<const Tokenizer> load_golden(const std::string& name) {
  return load_tokenizer(GgufFile(golden(name + ".gguf")));
}

/// GPT-2's vocabulary under another pre-tokenizer.
inline std::shared_ptr<const Tokenizer> gpt2_with(const std::string& pre) {
  Vocabulary vocabulary = load_golden("gpt-2")->vocabulary();
  vocabulary.pre = pre;
  return Tokenizer::create(std::move(vocabulary));
}

}  // namespace rocmforge::test
