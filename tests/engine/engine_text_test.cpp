#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/engine.h"
#include "engine/fake_model.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;
using ::testing::ElementsAre;

const Tokens prompt = byte_ids("Q:");

struct TextAnswer {
  std::vector<std::string> pieces;
  std::string text;
  Tokens tokens;
  FinishReason finish = FinishReason::none;
};

Request ignoring_end(Request request) {
  request.ignore_eos = true;
  return request;
}

/// The answer of a model that gives `script` token by token, then the end token.
TextAnswer answer(Request request, const Tokens& script, bool with_tokenizer = true) {
  const FakeEngine fake = make_fake_engine({.kv_tokens = 256}, with_tokenizer);
  const std::size_t start = request.prompt.size();
  fake.model->follow([&script, start](const Tokens& visible) {
    const std::size_t at = visible.size() - start;
    return at < script.size() ? script[at] : end_token;
  });
  fake.engine->submit(std::move(request));
  TextAnswer result;
  while (fake.engine->has_work()) {
    for (const StepOutput& output : fake.engine->step()) {
      result.pieces.push_back(output.text);
      result.text += output.text;
      result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
      result.finish = output.finish;
    }
  }
  return result;
}

TEST(EngineText, EndTokenEndsTheAnswerAndIsNotPartOfItsText) {
  const TextAnswer result = answer(make_request(prompt), byte_ids("yes"));
  EXPECT_EQ(result.text, "yes");
  EXPECT_EQ(result.tokens.back(), end_token);
  EXPECT_EQ(result.tokens.size(), 4u);
  EXPECT_EQ(result.finish, FinishReason::stop);
}

TEST(EngineText, EndTokenCanBeIgnored) {
  const TextAnswer result = answer(ignoring_end(make_request(prompt, 10)), byte_ids("yes"));
  EXPECT_EQ(result.text, "yes");
  EXPECT_EQ(result.tokens.size(), 10u);
  EXPECT_EQ(result.finish, FinishReason::length);
}

TEST(EngineText, MaxTokensEndsTheAnswer) {
  const TextAnswer result = answer(make_request(prompt, 2), byte_ids("yes"));
  EXPECT_EQ(result.text, "ye");
  EXPECT_EQ(result.finish, FinishReason::length);
}

TEST(EngineText, StopStringAcrossTokensIsHeldBackAndDropped) {
  const TextAnswer result = answer(make_request(prompt, -1, {"END", "\n\n"}), byte_ids("an ENDLESS tale"));
  EXPECT_THAT(result.pieces, ElementsAre("a", "n", " ", "", "", ""));
  EXPECT_EQ(result.finish, FinishReason::stop);
}

TEST(EngineText, FalseStartOfAStopStringIsShownAfterAll) {
  const TextAnswer result = answer(make_request(prompt, -1, {"END"}), byte_ids("EN E"));
  EXPECT_THAT(result.pieces, ElementsAre("", "", "EN ", "", "E"));
  EXPECT_EQ(result.finish, FinishReason::stop) << "by the end token";
}

TEST(EngineText, StopStringWinsOverMaxTokensInTheSameStep) {
  const TextAnswer result = answer(make_request(prompt, 3, {"bc"}), byte_ids("abcd"));
  EXPECT_EQ(result.text, "a");
  EXPECT_EQ(result.finish, FinishReason::stop);
}

TEST(EngineText, HeldTextIsShownWhenTheAnswerEndsOtherwise) {
  EXPECT_EQ(answer(make_request(prompt, 3, {"bcd"}), byte_ids("abcd")).text, "abc");
}

TEST(EngineText, CharactersAreNeverCut) {
  const TextAnswer result = answer(make_request(prompt), byte_ids("h\u00e9\U0001f642!"));
  EXPECT_THAT(result.pieces, ElementsAre("h", "", "\u00e9", "", "", "", "\U0001f642", "!", ""));
}

TEST(EngineText, HalfACharacterAtTheEndBecomesTheReplacementCharacter) {
  const TextAnswer result = answer(make_request(prompt, 3), byte_ids("a\U0001f642"));
  EXPECT_EQ(result.text, "a\ufffd");
}

TEST(EngineText, StopStringOfSeveralByteCharacters) {
  const TextAnswer result = answer(make_request(prompt, -1, {"\u00e9\U0001f642"}), byte_ids("x\u00e9\u00e9\U0001f642y"));
  EXPECT_EQ(result.text, "x\u00e9");
}

TEST(EngineText, FirstSpaceBelongsToTheAnswerUnlessItBeginsTheText) {
  EXPECT_EQ(answer(make_request(prompt), {word_token, word_token}).text, " hi hi");
  EXPECT_EQ(answer(make_request({bos_token}), {word_token, word_token}).text, "hi hi");
}

TEST(EngineText, WithoutATokenizerIdsFlowAndTextStaysEmpty) {
  const TextAnswer result = answer(make_request(prompt, 5, {"e"}), byte_ids("yes"), false);
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.tokens.size(), 5u);
  EXPECT_EQ(result.finish, FinishReason::length);
}

TEST(EngineText, StopTokensEndTheAnswerAndShowNoText) {
  Request request = make_request(prompt);
  request.stop_tokens = byte_ids("c");
  request.ignore_eos = true;
  const TextAnswer result = answer(request, byte_ids("abcde"));
  EXPECT_EQ(result.text, "ab");
  EXPECT_EQ(result.finish, FinishReason::stop);
}

TEST(EngineText, NothingEndsTheAnswerBeforeItsLeastNumberOfTokens) {
  Request request = make_request(prompt, 8, {"b"});
  request.sampling.min_tokens = 3;
  const TextAnswer result = answer(request, byte_ids("abcab"));
  EXPECT_EQ(result.text, "abca");
  EXPECT_EQ(result.finish, FinishReason::stop);
}

TEST(EngineText, CancelGivesTheHeldText) {
  const FakeEngine fake = make_fake_engine({.kv_tokens = 256});
  fake.model->follow([](const Tokens&) { return byte_ids("E")[0]; });
  const RequestId id = fake.engine->submit(make_request(prompt, -1, {"END"}));
  EXPECT_EQ(fake.engine->step().at(0).text, "");
  fake.engine->cancel(id);
  const std::vector<StepOutput> outputs = fake.engine->step();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].text, "E");
  EXPECT_EQ(outputs[0].finish, FinishReason::cancelled);
  EXPECT_TRUE(outputs[0].tokens.empty());
}

}  // namespace
}  // namespace rocmforge
