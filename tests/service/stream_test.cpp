#include "service/stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "service/embedding.h"
#include "service/service_testing.h"

namespace rocmforge {
namespace {

/// A model of one test.
class StreamTest : public testing::Test {
 protected:
  ModelInstance& model(const std::string& text) { return *models_.add(scripted_engine(saying(text)), named("m")); }

 private:
  Models models_;
};

/// "reasoning:why|content:so"; pieces of one kind are joined.
std::string shown(const std::vector<AnswerDelta>& deltas) {
  std::string out;
  AnswerDelta::Kind last = AnswerDelta::Kind::arguments;
  for (const AnswerDelta& delta : deltas) {
    if (delta.kind != last) {
      out += std::string(out.empty() ? "" : "|") + (delta.kind == AnswerDelta::Kind::reasoning ? "reasoning:" : "content:");
    }
    last = delta.kind;
    out += delta.text;
  }
  return out;
}

TEST_F(StreamTest, GivesTheTextAndItsParts) {
  ModelInstance& instance = model("<think>why</think>so");
  AnswerMessage message(Turn{}, "", 0);
  std::string text;
  std::vector<AnswerDelta> deltas;
  int polls = 0;
  const AnswerEnd end = wait_for_answer(instance.loop(), prompt_request(),
                                        {.text =
                                             [&](std::string_view piece) {
                                               text += piece;
                                               return true;
                                             },
                                         .delta =
                                             [&](const AnswerDelta& delta) {
                                               deltas.push_back(delta);
                                               return true;
                                             },
                                         .poll =
                                             [&] {
                                               ++polls;
                                               return true;
                                             }},
                                        &message);
  EXPECT_EQ(text, "<think>why</think>so");
  EXPECT_EQ(end.text, text);
  EXPECT_EQ(end.last.finish, FinishReason::stop);
  EXPECT_EQ(end.stats.prompt_tokens, 2);
  EXPECT_EQ(shown(deltas), "reasoning:why|content:so");
  EXPECT_EQ(message.reasoning(), "why");
  EXPECT_EQ(message.content(), "so");
  EXPECT_GT(message.reasoning_tokens(), 0);
  EXPECT_GT(polls, 10);
}

TEST_F(StreamTest, CallsHaveIds) {
  ModelInstance& instance = model(R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)");
  Turn turn;
  turn.format.has_tools = true;
  turn.format.style = ToolCallStyle::hermes;
  turn.format.tool_names = {"f"};
  AnswerMessage message(turn, "", 5);
  static_cast<void>(wait_for_answer(instance.loop(), prompt_request(), {}, &message));
  ASSERT_EQ(message.whole_calls().size(), 1u);
  EXPECT_EQ(message.whole_calls().front().name, "f");
  EXPECT_EQ(message.whole_calls().front().id, tool_call_id(5));
}

TEST_F(StreamTest, NothingComesAfterAnEventThatReturnedFalse) {
  ModelInstance& instance = model(std::string(100, 'x'));
  int pieces = 0;
  const AnswerEnd end =
      wait_for_answer(instance.loop(), prompt_request(), {.text = [&](std::string_view) { return ++pieces < 3; }});
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(end.text, "xxx");
  EXPECT_EQ(end.last.finish, FinishReason::cancelled);
}

TEST_F(StreamTest, APollThatReturnsFalseCancels) {
  ModelInstance& instance = model(std::string(200, 'x'));
  int polls = 0;
  std::string text;
  const AnswerEnd end = wait_for_answer(instance.loop(), prompt_request(),
                                        {.text =
                                             [&](std::string_view piece) {
                                               text += piece;
                                               return true;
                                             },
                                         .poll = [&] { return ++polls < 2; }});
  EXPECT_EQ(end.text, text);  // with what came after the poll
  EXPECT_NE(end.last.finish, FinishReason::none);
}

TEST_F(StreamTest, WhatAnEventThrowsEndsTheAnswer) {
  ModelInstance& instance = model(std::string(100, 'x'));
  EXPECT_THROW(static_cast<void>(wait_for_answer(instance.loop(), prompt_request(),
                                                 {.text = [](std::string_view) -> bool { throw Error("enough"); }})),
               Error);
  EXPECT_EQ(wait_for_answer(instance.loop(), prompt_request(1)).text, "x");
}

TEST_F(StreamTest, ARequestThatNeverFitsIsAnError) {
  ModelInstance& instance = model("x");
  Request request = prompt_request();
  request.prompt.assign(300, byte_ids("a").front());
  EXPECT_THROW(static_cast<void>(wait_for_answer(instance.loop(), request)), Error);
}

TEST_F(StreamTest, EndsComeInTheOrderOfTheRequests) {
  ModelInstance& instance = model("x");
  std::vector<Request> requests;
  for (const char* text : {"one", "a longer second one", "3"}) {
    requests.push_back(embedding_request(embedded_ids(byte_ids(text), instance.facts()), Pooling::last));
  }
  const std::vector<StepOutput> ends = wait_for_ends(instance.loop(), requests);
  ASSERT_EQ(ends.size(), 3u);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i].embedding, FakeModel::hidden_after(requests[i].prompt));
  }
}

}  // namespace
}  // namespace rocmforge
