// Tokens of images: a step computes all tokens of one or none, and prefixes are told apart by what the images hold.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/scheduler_bench.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr std::int32_t placeholder = 7;

TokenSpan span_of(std::int32_t first, std::int32_t count, std::uint32_t content = 1) {
  TokenSpan span{.first = first, .count = count};
  span.content.fill(content);
  return span;
}

Request with_images(Tokens prompt, std::vector<TokenSpan> spans, std::int32_t max_tokens = 1) {
  Request request;
  request.prompt = std::move(prompt);
  for (const TokenSpan& span : spans) {
    std::fill_n(request.prompt.begin() + span.first, span.count, placeholder);
  }
  request.spans = std::move(spans);
  request.max_tokens = max_tokens;
  return request;
}

TEST(TokenSpans, SayWhereASequenceMayBeCut) {
  const std::vector<TokenSpan> spans{span_of(2, 3), span_of(5, 2), span_of(9, 1)};
  const auto before = [&](std::int32_t position) { return cut_before(spans, position); };
  const auto after = [&](std::int32_t position) { return cut_after(spans, position); };
  std::vector<std::int32_t> cuts;
  for (std::int32_t position = 0; position <= 11; ++position) {
    cuts.push_back(before(position));
  }
  EXPECT_THAT(cuts, ElementsAre(0, 1, 2, 2, 2, 5, 5, 7, 8, 9, 10, 11));
  cuts.clear();
  for (std::int32_t position = 0; position <= 10; ++position) {
    cuts.push_back(after(position));
  }
  EXPECT_THAT(cuts, ElementsAre(1, 2, 5, 5, 5, 7, 7, 8, 9, 10, 11));
}

/// A shift of the context moves where adapters begin; of two marks at one place the later tells of both.
TEST(AdapterMarks, MoveWithTheTokens) {
  Bench bench({.max_batch_tokens = 10, .max_sequences = 1, .context_length = 64}, 16);
  Request request;
  request.prompt = counting(0, 20);
  request.adapters = {{4, 1.0f}, {5, 1.0f, 6}, {6, 1.0f, 12}};
  request.adapter_marks = {span_of(6, 1, 1), span_of(12, 1, 2)};
  Sequence sequence(1, request, bench.memory);
  EXPECT_EQ(sequence.prefix_salt, prefix_salt_of("", std::vector<AdapterScale>{{4, 1.0f}}));
  EXPECT_EQ(prefix_salt_of("", std::vector<AdapterScale>{{5, 1.0f, 6}}), "") << "the start is the model's alone";
  const auto places = [&] {
    std::vector<std::int32_t> all;
    for (const AdapterScale& adapter : *sequence.request.adapters) {
      all.push_back(adapter.from);
    }
    for (const TokenSpan& mark : sequence.cache.spans) {
      all.push_back(mark.first);
    }
    return all;
  };
  EXPECT_THAT(places(), ElementsAre(0, 6, 12, 6, 12));
  sequence.drop(4, 5);
  EXPECT_THAT(places(), ElementsAre(0, 4, 7, 4, 7));
  EXPECT_EQ(sequence.tokens[4], 9);
  EXPECT_EQ(sequence.dropped_tokens, 5);
  sequence.drop(4, 5);
  EXPECT_THAT(places(), ElementsAre(0, 4, 4, 4));
  EXPECT_EQ(sequence.cache.spans[0].content[0], 2u);
}

TEST(TokenSpans, AreNeverCutByAChunk) {
  Bench bench({.max_batch_tokens = 10, .max_sequences = 1, .context_length = 64}, 16);
  ASSERT_EQ(bench.submit(1, with_images(counting(0, 30), {span_of(4, 7), span_of(11, 9)}, 1)).message, "");
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 4)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 7))) << "the next span does not fit beside this one";
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 9)));
  EXPECT_FALSE(bench.scheduler->has_work());
}

/// A limit of prompt tokens beside decodes, and short prompts that come again and again, do not keep an image waiting.
TEST(TokenSpans, ALongSpanIsComputedBesideDecodesAndShortPrompts) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 4, .context_length = 64, .max_prefill_tokens = 4}, 64);
  bench.submit(1, counting(100, 3), 60);
  bench.step();
  ASSERT_EQ(bench.submit(2, with_images(counting(0, 20), {span_of(1, 13)}, 1)).message, "");
  RequestId next = 3;
  int steps = 0;
  for (; bench.unfinished.contains(2) && steps < 20; ++steps) {
    bench.submit(next++, counting(200, 2), 1);
    bench.step();
  }
  EXPECT_LE(steps, 5);
}

TEST(TokenSpans, ShortPromptsLeaveRoomForTheSpanOfAnEarlierOne) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 4, .context_length = 64}, 64);
  ASSERT_EQ(bench.submit(1, with_images(counting(0, 20), {span_of(0, 13)}, 1)).message, "");
  bench.submit(2, counting(100, 8), 1);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 16)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 4), Pair(2, 8)));
}

TEST(TokenSpans, APrefixIsToldApartByWhatItsImagesHold) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 1, .context_length = 64}, 64, 4, true);
  const auto hits = [&](RequestId id, std::uint32_t content, std::int32_t first = 5) {
    EXPECT_EQ(bench.submit(id, with_images(counting(0, 24), {span_of(first, 9, content)})).message, "");
    bench.run();
    return bench.finished.at(id).prefix_hits;
  };
  EXPECT_EQ(hits(1, 1), 0);
  EXPECT_EQ(hits(2, 1), 20) << "all whole blocks before the last token";
  EXPECT_EQ(hits(3, 2), 4) << "the blocks before the image";
  EXPECT_EQ(hits(4, 2), 20);
  EXPECT_EQ(hits(5, 1), 20) << "both are kept";
  EXPECT_EQ(hits(6, 1, 6), 4) << "the same image at another place";
  // The same tokens without an image.
  Request text = with_images(counting(0, 24), {span_of(5, 9)});
  text.spans.clear();
  ASSERT_EQ(bench.submit(7, std::move(text)).message, "");
  bench.run();
  EXPECT_EQ(bench.finished.at(7).prefix_hits, 4);
}

TEST(TokenSpans, AKnownPrefixDoesNotEndInsideOfASpan) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 1, .context_length = 64}, 64, 4, true);
  ASSERT_EQ(bench.submit(1, with_images(counting(0, 20), {span_of(6, 9)})).message, "");
  bench.run();
  // Its tokens part ways behind the second block of the span, which is the third of all.
  Request other = with_images(counting(0, 30), {span_of(6, 9), span_of(15, 3, 9)});
  ASSERT_EQ(bench.submit(2, std::move(other)).message, "");
  bench.run();
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 4);
}

TEST(TokenSpans, StatesAreKeptOutsideOfSpans) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 64}, 64, 4, true, 12);
  ASSERT_EQ(bench.submit(1, with_images(counting(0, 20), {span_of(6, 13)})).message, "");
  bench.run();
  ASSERT_EQ(bench.submit(2, with_images(counting(0, 20), {span_of(6, 13)})).message, "");
  bench.run();
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 4) << "the state behind the last whole block would be inside of the span";
}

TEST(TokenSpans, ASequenceWithAWindowHasBlocksForItsSpan) {
  const std::int32_t blocks = window_blocks(8, 4, 100, 1, 40);
  Bench bench({.max_batch_tokens = 40, .max_sequences = 1, .context_length = 200}, 100, 4, true, 0, {{8, blocks}});
  ASSERT_EQ(bench.submit(1, with_images(counting(0, 120), {span_of(9, 40), span_of(50, 37)}, 20)).message, "");
  bench.run();
  EXPECT_EQ(bench.finished.at(1).finish, FinishReason::length);
}

TEST(TokenSpans, WrongOnesAreRefusedInOneLine) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 4, .context_length = 64}, 64);
  const auto refusal = [&](const Request& request) { return bench.scheduler->refusal(request).message; };
  EXPECT_EQ(refusal(with_images(counting(0, 30), {span_of(3, 14)})), "an image has 14 tokens, a step has room for 13");
  EXPECT_EQ(refusal(with_images(counting(0, 30), {span_of(3, 13)})), "");
  const std::string order = "images ascend, and a token of text is behind the last one";
  Request at_end = with_images(counting(0, 10), {span_of(3, 7)});
  EXPECT_EQ(refusal(at_end), "an image has tokens 3 to 9 of 10: " + order);
  Request overlapping = with_images(counting(0, 30), {span_of(3, 7)});
  overlapping.spans.push_back(span_of(9, 2));
  EXPECT_EQ(refusal(overlapping), "an image has tokens 9 to 10 of 30: " + order);
  Request empty = with_images(counting(0, 30), {span_of(3, 0)});
  EXPECT_EQ(refusal(empty), "an image has tokens 3 to 2 of 30: " + order);
  Request shifted = with_images(counting(0, 30), {span_of(3, 7)});
  shifted.context_policy = ContextPolicy::shift;
  EXPECT_EQ(refusal(shifted), "a prompt with images can't be shifted, nor have log probabilities or an embedding");
}

/// Random prompts with images on a cache that is far too small, with preemptions and windows: no chunk ends inside of a
/// span, every request ends, and nothing is lost.
TEST(TokenSpans, HoldInAnyMixOfRequests) {
  for (const bool windowed : {false, true}) {
    const std::vector<SequenceCache::Window> windows =
        windowed ? std::vector<SequenceCache::Window>{{8, 24}} : std::vector<SequenceCache::Window>{};
    Bench bench({.max_batch_tokens = 24, .max_sequences = 5, .context_length = 60, .max_prefill_tokens = 6}, 40, 4, true, 0,
                windows);
    std::mt19937 random(5);
    const auto below = [&](int count) { return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(count)); };
    RequestId next = 1;
    for (int event = 0; event < 4000; ++event) {
      if (below(3) == 0 && bench.scheduler->num_waiting() < 8) {
        const std::int32_t length = 2 + below(50);
        std::vector<TokenSpan> spans;
        for (std::int32_t at = below(12); at < length - 1;) {
          const std::int32_t count = std::min(1 + below(20), length - 1 - at);
          spans.push_back(span_of(at, count, static_cast<std::uint32_t>(below(2))));
          at += count + below(12);
        }
        ASSERT_EQ(bench.submit(next++, with_images(counting(below(2), length), spans, 1 + below(15))).message, "");
      }
      if (!bench.scheduler->has_work()) {
        continue;
      }
      const auto parts = bench.step();
      ASSERT_FALSE(parts.empty());
      for (const auto& [id, sequence] : bench.unfinished) {
        const std::int32_t end = sequence->cache.computed_tokens;
        ASSERT_EQ(cut_before(sequence->request.spans, end), end) << "request " << id;
      }
    }
    bench.run();
    EXPECT_EQ(bench.finished.size(), next - 1);
    EXPECT_GT(bench.scheduler->num_preemptions(), 0);
    EXPECT_GT(bench.scheduler->prefix_hits(), 0);
    EXPECT_EQ(bench.blocks_available(), 40);
  }
}

}  // namespace
}  // namespace rocmforge
