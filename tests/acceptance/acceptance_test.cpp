// Checks the demo model's skills, to catch a kernel, format or engine that makes answers worse. ROCMFORGE_FULL=1 asks all
// questions; ROCMFORGE_ACCEPTANCE_MODEL=FILE asks another file (another format of the model); ROCMFORGE_TEST_DEVICE=cuda
// asks on that device.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "engine/engine.h"
#include "greedy_comparison.h"
#include "paths.h"
#include "test_device.h"

namespace rocmforge {
namespace {

constexpr std::size_t fast_questions_per_skill = 15;
constexpr std::size_t questions_without_limit = 1 << 20;
constexpr double required_share = 0.95;

struct Question {
  std::string skill;
  nlohmann::ordered_json messages;
  std::string expect;
  std::string check;
};

struct Score {
  int right = 0;
  int asked = 0;
};

std::string model_path() {
  const std::string chosen = test::environment("ROCMFORGE_ACCEPTANCE_MODEL");
  return chosen.empty() ? test::source_path("models/forge-demo.gguf") : chosen;
}

std::vector<Question> read_questions(std::size_t per_skill) {
  std::ifstream stream(test::test_data("acceptance/demo_questions.json"));
  const auto document = nlohmann::ordered_json::parse(stream);
  std::map<std::string, std::size_t> taken;
  std::vector<Question> questions;
  for (const auto& entry : document.at("questions")) {
    Question question{entry.at("skill"), {}, entry.at("expect"), entry.at("check")};
    if (++taken[question.skill] > per_skill) {
      continue;
    }
    question.messages = entry.at("messages");
    questions.push_back(std::move(question));
  }
  return questions;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool is_right(const Question& question, const std::string& reply) {
  if (question.check == "equals") {
    return trimmed(reply) == question.expect;
  }
  if (question.check == "contains") {
    return reply.find(question.expect) != std::string::npos;
  }
  if (question.check == "json") {
    const auto value = nlohmann::json::parse(reply, nullptr, false);
    return !value.is_discarded() && value == nlohmann::json::parse(question.expect);
  }
  ADD_FAILURE() << "unknown check '" << question.check << "'";
  return false;
}

std::vector<std::int32_t> prompt_of(const Engine& engine, const ChatTemplates& templates, const Question& question) {
  ChatRequest request;
  request.messages = question.messages;
  return encode_chat(*engine.tokenizer(), templates.choose(request).prompt(request).segments);
}

/// Asks every question greedily, several in one batch.
std::map<RequestId, std::string> answer_all(Engine& engine, const std::vector<Question>& questions,
                                            std::map<RequestId, const Question*>& asked) {
  const auto templates = ChatTemplates::of_model(*engine.tokenizer());
  EXPECT_TRUE(templates.has_value()) << "the demo model has a chat template";
  for (const Question& question : questions) {
    Request request;
    request.prompt = prompt_of(engine, templates.value(), question);
    request.sampling.temperature = 0.0f;
    request.max_tokens = 160;
    asked[engine.submit(std::move(request))] = &question;
  }
  std::map<RequestId, std::string> replies;
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      EXPECT_NE(output.finish, FinishReason::error) << output.text;
      replies[output.id] += output.text;
    }
  }
  return replies;
}

TEST(Acceptance, DemoModelKnowsItsSkills) {
  const std::string path = model_path();
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is absent";
  }
  const bool full = test::environment("ROCMFORGE_FULL") == "1";
  const auto questions = read_questions(full ? questions_without_limit : fast_questions_per_skill);
  ASSERT_FALSE(questions.empty());
  EngineOptions options;
  options.max_sequences = 8;
  options.kv_tokens = 8 * 2048;
  test::TestDevice opened = test::open_test_device();
  if (opened.device == nullptr) {
    GTEST_SKIP() << opened.problem;
  }
  const auto engine = load_model(path, options, std::move(opened.device));
  std::map<RequestId, const Question*> asked;
  const auto replies = answer_all(*engine, questions, asked);

  std::map<std::string, Score> scores;
  for (const auto& [id, question] : asked) {
    const std::string& reply = replies.at(id);
    Score& score = scores[question->skill];
    ++score.asked;
    if (is_right(*question, reply)) {
      ++score.right;
    } else {
      std::cout << fmt::format("{}: '{}' expected '{}', answered '{}'\n", question->skill,
                               question->messages.back()["content"].get<std::string>(), question->expect, trimmed(reply));
    }
  }
  std::cout << fmt::format("{:<12} {:>6} {:>6} {:>7}\n", "skill", "right", "asked", "share");
  for (const auto& [skill, score] : scores) {
    const double share = static_cast<double>(score.right) / score.asked;
    std::cout << fmt::format("{:<12} {:>6} {:>6} {:>6.1f} %\n", skill, score.right, score.asked, 100.0 * share);
    EXPECT_GE(share, required_share) << skill;
  }
}

/// Whether all formats of the file have products exact enough to compare. For other formats each kernel rounds activations
/// in its own way.
bool is_exact(const GgufFile& file) {
  return std::ranges::all_of(file.tensors(), [](const GgufTensor& tensor) {
    const DType type = tensor.tensor.dtype;
    return type == DType::f32 || type == DType::f16;
  });
}

std::vector<std::int32_t> answer(Engine& engine, const std::vector<std::int32_t>& prompt) {
  Request request;
  request.prompt = prompt;
  request.sampling.temperature = 0.0f;
  request.max_tokens = 64;
  engine.submit(std::move(request));
  std::vector<std::int32_t> tokens;
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    }
  }
  return tokens;
}

TEST(Acceptance, AGpuGivesTheGreedyTokensOfTheCpu) {
  const std::string path = model_path();
  test::TestDevice opened = test::open_test_device();
  if (opened.device == nullptr || !opened.device->is_gpu()) {
    GTEST_SKIP() << (opened.device == nullptr ? opened.problem : "ROCMFORGE_TEST_DEVICE names no GPU");
  }
  if (!std::filesystem::exists(path) || !is_exact(GgufFile(path))) {
    GTEST_SKIP() << path << " is absent or not in F32 or F16 (ROCMFORGE_ACCEPTANCE_MODEL names one)";
  }
  EngineOptions options;
  options.prefix_cache = false;
  const auto gpu = load_model(path, options, std::move(opened.device));
  options.device = "cpu";
  const auto cpu = load_model(path, options);
  const auto templates = ChatTemplates::of_model(*cpu->tokenizer());
  ASSERT_TRUE(templates.has_value());
  constexpr std::size_t prompts = 50;
  auto questions = read_questions(questions_without_limit);
  ASSERT_GE(questions.size(), prompts);
  for (std::size_t i = 0; i < prompts; ++i) {
    const Question& question = questions[i * questions.size() / prompts];
    SCOPED_TRACE(question.messages.back()["content"].get<std::string>());
    const auto prompt = prompt_of(*cpu, *templates, question);
    EXPECT_TRUE(
        test::equal_but_for_ties(*cpu, prompt, answer(*cpu, prompt), answer(*gpu, prompt), options.max_batch_tokens));
  }
}

}  // namespace
}  // namespace rocmforge
