#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "weights/gguf_file.h"

/// Answers with drafts and without, for tests of blocks that draft.
namespace rocmforge::draft_answers {

using Tokens = std::vector<std::int32_t>;

/// The floats of a file's tensors, to be changed.
class TensorEditor {
 public:
  explicit TensorEditor(const std::string& path) : file_(path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return file_.tensors(); }
  float* floats(std::string_view name) {
    const auto found = std::ranges::find(file_.tensors(), name, &GgufTensor::name);
    return found == file_.tensors().end() ? nullptr : reinterpret_cast<float*>(bytes_.data() + found->file_offset);
  }
  void save_as(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes_; }

 private:
  GgufFile file_;
  std::string bytes_;
};

/// A request of its own for each index: some greedy, some with a seed, some with log probabilities.
inline Request numbered(unsigned index, std::int32_t vocab) {
  Request request;
  for (unsigned i = 0; i < 3 + index * 11 % 50; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>((i * i + index % 3 * 13 + 7) % static_cast<unsigned>(vocab)));
  }
  request.max_tokens = 40;
  request.ignore_eos = true;
  request.sampling.temperature = index % 3 == 2 ? 0.7f : 0.0f;
  request.sampling.seed = index;
  request.logprobs = index % 4 == 1 ? 2 : -1;
  return request;
}

inline EngineOptions on_cpu(EngineOptions options) {
  options.device = "cpu";
  options.threads = 1;
  options.context_length = 128;
  options.model.kv_dtype = DType::f32;
  return options;
}

/// The answers to the first `count` of them.
inline std::vector<Tokens> answers(Engine& engine, unsigned count = 8) {
  std::map<RequestId, Tokens> results;
  for (unsigned i = 0; i < count; ++i) {
    results[engine.submit(numbered(i, engine.model().config().vocab))];
  }
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      EXPECT_NE(output.finish, FinishReason::error) << output.text;
      Tokens& tokens = results[output.id];
      tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    }
  }
  std::vector<Tokens> all;
  for (auto& [id, tokens] : results) {
    all.push_back(std::move(tokens));
  }
  return all;
}

inline DraftOptions no_drafts() { return {.mtp = MtpUse::off}; }

}  // namespace rocmforge::draft_answers
