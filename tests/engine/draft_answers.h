#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
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

/// The golden model with layers that change little: a token follows from the one before it. `small`: parts of the names of
/// the tensors that scale what layers add.
inline void make_nearly_plain(TensorEditor& editor, std::initializer_list<std::string_view> small, float kept) {
  for (const GgufTensor& tensor : editor.tensors()) {
    const auto is = [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; };
    if (std::ranges::any_of(small, is)) {
      std::for_each_n(editor.floats(tensor.name), tensor.tensor.shape.elems(), [kept](float& value) { value *= kept; });
    }
  }
}

/// Drafts of a file that is often right change no token: with few and with many of them, after prefix hits and preemptions.
inline void expect_same_texts(const std::string& model, const std::string& draft) {
  EngineOptions alone = on_cpu({.max_batch_tokens = 128, .max_sequences = 1, .prefix_cache = false});
  alone.drafts = no_drafts();
  const auto plain = load_model(model, alone);
  EXPECT_EQ(plain->model().mtp_blocks(), 0);
  const std::vector<Tokens> expected = answers(*plain);

  for (const std::int32_t most : {1, 3, 8}) {
    for (const bool tight : {false, true}) {
      EngineOptions options = on_cpu({.max_batch_tokens = tight ? 40 : 128,
                                      .max_sequences = 4,
                                      .kv_tokens = tight ? 160 : 1024,
                                      .prefix_cache = !tight});
      options.drafts = {.most = most, .model = draft, .adapts = false};
      const auto drafted = load_model(model, options);
      EXPECT_EQ(drafted->model().mtp_blocks(), 1);
      EXPECT_EQ(answers(*drafted), expected) << most << " drafts";
      const EngineStatus status = drafted->status();
      EXPECT_GT(status.accepted_tokens, 40) << most << " drafts";
      EXPECT_GT(status.drafted_tokens, status.accepted_tokens);
      EXPECT_EQ(answers(*drafted), expected) << "after a prefix hit";
      EXPECT_TRUE(tight || drafted->status().prefix_hits > 0);
    }
  }
}

/// The same where ranks share each layer, or two devices have some of the layers each.
inline void expect_same_texts_on_two(const std::string& model, const std::string& draft) {
  for (const bool layers : {false, true}) {
    EngineOptions options = on_cpu({.max_batch_tokens = 128, .max_sequences = 4, .kv_tokens = 1024});
    if (layers) {
      options.device = "cpu,cpu";
      options.placement.host_beside_cpu = true;
      options.split = DeviceSplit::layer;
    } else {
      options.model.ranks = 2;
    }
    options.drafts = no_drafts();
    const std::vector<Tokens> expected = answers(*load_model(model, options));
    for (const std::int32_t most : {1, 3, 8}) {
      options.drafts = {.most = most, .model = draft, .adapts = false};
      const auto drafted = load_model(model, options);
      EXPECT_EQ(drafted->model().ranks(), 2);
      EXPECT_EQ(answers(*drafted), expected) << (layers ? "layers" : "ranks") << ", " << most << " drafts";
      EXPECT_GT(drafted->status().accepted_tokens, 40) << most;
    }
  }
}

/// Of random weights, whose drafts are wrong: depths go to zero.
inline void expect_wrong_drafts_to_end(const std::string& model, const std::string& draft) {
  EngineOptions options = on_cpu({.max_batch_tokens = 128, .max_sequences = 4, .kv_tokens = 1024});
  options.drafts = {.model = draft};
  const auto drafted = load_model(model, options);
  options.drafts = no_drafts();
  const auto plain = load_model(model, options);
  EXPECT_EQ(answers(*drafted), answers(*plain));
  const EngineStatus status = drafted->status();
  EXPECT_GT(status.drafted_tokens, 8);
  EXPECT_LT(status.drafted_tokens, plain->status().steps * 4 / 2);
}

}  // namespace rocmforge::draft_answers
