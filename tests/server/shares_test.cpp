// The parts that limit each client to its share: shares, workers, JSON in pieces.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/fake_model.h"
#include "server/api/api_error.h"
#include "server/api/json_pieces.h"
#include "server/api/token_logprobs_json.h"
#include "service/fair_shares.h"
#include "service/loop.h"
#include "service/request_memory.h"
#include "service/workers.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FairShares, AClientHasItsShareBesideOthersAndMoreAlone) {
  FairShares places(80, 50);
  EXPECT_EQ(places.most_alone(), 70);
  EXPECT_FALSE(places.take("a", 71));
  EXPECT_TRUE(places.take("a", 70));
  EXPECT_FALSE(places.take("a", 1));
  EXPECT_TRUE(places.take("b", 5)) << "of what nobody can have alone";
  EXPECT_FALSE(places.take("b", 1)) << "the rest is for those who have less";
  places.give_back("a", 40);
  EXPECT_EQ(places.most_of("b"), 40);
  EXPECT_TRUE(places.take("b", 35));
  EXPECT_FALSE(places.take("b", 1)) << "its share, beside a's";
  EXPECT_FALSE(places.take("a", 6)) << "no more than is open";
  EXPECT_TRUE(places.take("a", 5));
  places.give_back("b", 40);
  EXPECT_TRUE(places.take("a", 35)) << "alone again";
  EXPECT_EQ(places.used(), 70);
}

TEST(FairShares, SeveralWhoTakeAllTheyMayLeaveSomeToWhoHasLittle) {
  FairShares places(1600, 50);
  EXPECT_EQ(places.open(), 1500);
  for (const std::string client : {"a", "b", "c", "d"}) {
    for (int i = 0; i < 1600; i += 4) {
      places.take(client, 4);
    }
  }
  EXPECT_LE(places.used(), 1500 + 4 * 12) << "each has taken of the last part what is little";
  EXPECT_FALSE(places.take("e", 13));
  EXPECT_TRUE(places.take("e", 12)) << "little is an eighth of the last hundred";
  EXPECT_FALSE(places.take("e", 1));
  places.give_back("e", 12);
  EXPECT_TRUE(places.take("f", 12));
}

TEST(FairShares, AllOfItIsForEverybodyAtAShareOf100) {
  FairShares places(3, 100);
  EXPECT_TRUE(places.take("a", 2));
  EXPECT_TRUE(places.take("b", 1));
  EXPECT_FALSE(places.take("c", 1));
}

TEST(FairShares, HugeCapacitiesAndAmountsDoNotOverflow) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  FairShares bytes(most, 50);
  EXPECT_TRUE(bytes.take("a", 1));
  EXPECT_FALSE(bytes.take("a", most));
  EXPECT_FALSE(bytes.take("b", most));
}

TEST(FairShares, AClientHasOneNumberAsLongAsItHasSome) {
  FairShares places(10, 100);
  EXPECT_EQ(places.number_of("a"), 0u);
  places.take("a", 1);
  places.take("b", 1);
  EXPECT_NE(places.number_of("a"), places.number_of("b"));
  EXPECT_NE(places.number_of("a"), 0u);
}

TEST(Claim, GivesBackWhatItHas) {
  const auto shares = std::make_shared<FairShares>(100, 100);
  {
    Claim claim(shares, "a");
    EXPECT_TRUE(claim.grow(60));
    EXPECT_FALSE(claim.grow(50));
    EXPECT_EQ(claim.amount(), 60);
    EXPECT_TRUE(claim.set(100));
    EXPECT_TRUE(claim.set(10));
    EXPECT_EQ(shares->used(), 10);
  }
  EXPECT_EQ(shares->used(), 0);
}

constexpr std::int64_t mib = std::int64_t{1} << 20;

TEST(RequestMemory, LargeRequestsOfAnyNumberOfClientsLeaveRoomForSmallOnes) {
  const auto memory = std::make_shared<RequestMemory>(512 * mib, 50);
  std::vector<std::unique_ptr<MemoryClaim>> large;
  for (int i = 0; i < 64; ++i) {  // each takes as much memory as it gets, in steps, like a document that is read
    large.push_back(std::make_unique<MemoryClaim>(memory, "attacker " + std::to_string(i % 16)));
    for (int step = 0; step < 8192 && large.back()->grow(64 << 10); ++step) {
    }
  }
  MemoryClaim same(memory, "attacker 0");
  MemoryClaim other(memory, "other");
  for (MemoryClaim* small : {&same, &other}) {
    EXPECT_TRUE(small->set(RequestMemory::small_bytes)) << "whoever asks";
  }
  EXPECT_FALSE(same.set(100 * mib)) << "large ones find nothing";
  EXPECT_EQ(same.amount(), RequestMemory::small_bytes) << "and keep what they have";
  large.clear();
  same.reset();
  other.reset();
  EXPECT_EQ(memory->used(), 0);
}

TEST(RequestMemory, ALargeRequestThatBecomesSmallLeavesItsPlaceToOthers) {
  const auto memory = std::make_shared<RequestMemory>(16 * mib, 100);
  MemoryClaim claim(memory, "a");
  EXPECT_TRUE(claim.set(15 * mib)) << "all but the part for small ones";
  EXPECT_TRUE(claim.set(1000));
  MemoryClaim other(memory, "b");
  EXPECT_TRUE(other.set(15 * mib)) << "the first is among the small ones again";
  EXPECT_FALSE(other.grow(1));
  EXPECT_EQ(memory->used(), 15 * mib + 1000);
  EXPECT_TRUE(claim.grow(1));
  MemoryClaim third(memory, "c");
  EXPECT_TRUE(third.set(RequestMemory::small_bytes));
  EXPECT_FALSE(third.grow(1)) << "it would be large";
}

TEST(RequestMemory, SmallRequestsBeyondTheirPartTakeOfTheOther) {
  const auto memory = std::make_shared<RequestMemory>(16 * mib, 100);
  std::vector<std::unique_ptr<MemoryClaim>> claims;
  for (int i = 0; i < 64; ++i) {
    claims.push_back(std::make_unique<MemoryClaim>(memory, "a"));
    EXPECT_TRUE(claims.back()->set(RequestMemory::small_bytes)) << i;
  }
  EXPECT_EQ(memory->used(), memory->capacity());
  MemoryClaim more(memory, "a");
  EXPECT_FALSE(more.set(1));
}

TEST(WorkBudget, APartSpendsTheWholesUnitsToo) {
  WorkBudget whole(100, "reading");
  WorkBudget part(80, "compiling", &whole);
  part.spend(60);
  EXPECT_EQ(whole.spent(), 60u);
  EXPECT_THROW(part.spend(30), Error);
  EXPECT_EQ(whole.spent(), 60u) << "the part's own limit came first";
  WorkBudget other(80, "compiling", &whole);
  EXPECT_THROW(other.spend(50), Error);
  EXPECT_EQ(whole.spent(), 100u);
}

TEST(WorkBudget, AnAttemptIsPostponedAndBeginsAgain) {
  WorkBudget budget(100, "reading");
  budget.begin(10);
  EXPECT_THROW(budget.spend(11), Postponed);
  EXPECT_TRUE(budget.is_postponed());
  EXPECT_THROW(budget.spend(1), Postponed) << "nothing of it goes on";
  budget.begin(100);
  EXPECT_FALSE(budget.is_postponed());
  budget.spend(100);
  try {
    budget.spend(1);
    ADD_FAILURE() << "all is spent";
  } catch (const Postponed&) {
    ADD_FAILURE() << "all of it was no attempt";
  } catch (const Error&) {
    EXPECT_FALSE(budget.is_postponed());
  }
  budget.begin(10);
  budget.stop();
  EXPECT_THROW(budget.spend(1), Interrupted);
  EXPECT_FALSE(budget.is_postponed());
}

/// Tasks that wait until they are released or interrupted.
class WorkersTest : public testing::Test {
 protected:
  ReadingTask waiting(const std::string& client, bool is_long) {
    return {.client = client,
            .is_long = is_long,
            .run =
                [this] {
                  std::unique_lock lock(mutex_);
                  ++begun_;
                  changed_.notify_all();
                  changed_.wait(lock, [this] { return let_go_; });
                },
            .interrupt = [this](Interruption) { let_go(); }};
  }
  /// Whether a task of this kind begins at all.
  bool runs(Workers& workers, const std::string& client, bool is_long) {
    auto ran = std::make_shared<std::promise<void>>();
    auto future = ran->get_future();
    workers.post(
        {.client = client, .is_long = is_long, .run = [ran] { ran->set_value(); }, .interrupt = [](Interruption) {}});
    return future.wait_for(seconds(20)) == std::future_status::ready;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, seconds(20), [&] { return begun_ >= count; }));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  bool let_go_ = false;
};

TEST_F(WorkersTest, OneClientsManyLeaveRoomForOthers) {
  Workers workers;
  for (std::size_t i = 0; i < 8 * Workers::short_threads; ++i) {
    workers.post(waiting("a", i % 2 == 0));
  }
  wait_for(2 * Workers::most_of_client);
  EXPECT_TRUE(runs(workers, "b", false));
  EXPECT_TRUE(runs(workers, "b", true));
  let_go();
}

TEST_F(WorkersTest, ShortOnesRunBesideAnyNumberOfLongOnes) {
  Workers workers;
  for (std::size_t i = 0; i < 8 * Workers::long_threads; ++i) {
    workers.post(waiting("client " + std::to_string(i), true));
  }
  wait_for(Workers::long_threads);
  EXPECT_TRUE(runs(workers, "another", false));
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(begun_, static_cast<int>(Workers::long_threads));
  }
  let_go();
}

/// Reading that takes long begins again as another task, which can happen while the server stops.
TEST_F(WorkersTest, ATaskThatIsPostedAtTheEndIsInterruptedToo) {
  Workers workers;
  std::promise<Interruption> again;
  ReadingTask first = waiting("a", false);
  first.run = [&, wait = first.run] {
    wait();  // until stop() interrupts it
    workers.post(
        {.client = "a", .is_long = true, .run = [] {}, .interrupt = [&](Interruption reason) { again.set_value(reason); }});
  };
  workers.post(std::move(first));
  wait_for(1);
  workers.stop();
  std::future<Interruption> reason = again.get_future();
  ASSERT_EQ(reason.wait_for(seconds(0)), std::future_status::ready);
  EXPECT_EQ(reason.get(), Interruption::shutdown);
}

TEST_F(WorkersTest, TasksAreInterruptedAtTheirTimeAndAtTheEnd) {
  std::promise<Interruption> timed;
  std::atomic<bool> is_timed = false;
  {
    Workers workers;
    ReadingTask late = waiting("a", false);
    late.deadline = std::chrono::steady_clock::now() + milliseconds(20);
    late.interrupt = [&](Interruption reason) {  // called again at the end if the task has not woken by then
      if (!is_timed.exchange(true)) {
        timed.set_value(reason);
      }
      let_go();
    };
    workers.post(std::move(late));
    EXPECT_EQ(timed.get_future().get(), Interruption::time);
    {
      const std::lock_guard lock(mutex_);
      let_go_ = false;
    }
    for (int i = 0; i < 20; ++i) {
      workers.post(waiting("a", true));
    }
  }
  EXPECT_EQ(begun_, 21) << "each has run, none was waited for";
}

std::string text_of(TextPieces pieces) {
  std::string text;
  while (pieces(text)) {
  }
  return text;
}

TEST(JsonPieces, GiveTheTextOfTheWhole) {
  const Json object = {{"a", 1}, {"list", nullptr}, {"b", "x"}};
  EXPECT_EQ(text_of(with_member(object, "list", list_in_pieces(3, [](std::size_t i) { return std::to_string(i); }))),
            R"({"a":1,"list":[0,1,2],"b":"x"})");
  EXPECT_EQ(text_of(with_member(object, "list", list_of_pieces(0, nullptr))), R"({"a":1,"list":[],"b":"x"})");
  EXPECT_EQ(text_of(with_member(object, "none", nullptr)), to_text(object));
  EXPECT_EQ(text_of(with_member({{"list", nullptr}}, "list", list_in_pieces(0, nullptr))), R"({"list":[]})");
  EXPECT_EQ(text_of(list_of_pieces(2, [](std::size_t) { return string_in_pieces("y"); })), R"(["y","y"])");
}

TEST(JsonPieces, ALongStringIsNeverCutInACharacter) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += "\u20ac\n";
  }
  int pieces = 0;
  std::string made;
  const TextPieces string = string_in_pieces(text);
  while (string(made)) {
    ++pieces;
  }
  EXPECT_GT(pieces, 4);
  EXPECT_EQ(Json::parse(made), Json(text));
  const std::string broken(40'000, '\x80');
  EXPECT_TRUE(Json::accept(text_of(string_in_pieces(broken))));
}

TEST(JsonPieces, LogprobsAreTheSameInBothWays) {
  const auto tokenizer = byte_tokenizer();
  std::vector<TokenLogprobs> tokens = {{byte_ids("a").front(), std::nanf(""), {}}};
  for (const char c : std::string("b\xe2\x82\xac\"")) {
    const std::int32_t id = byte_ids(std::string(1, c)).front();
    tokens.push_back({id, -0.5f, {{id, -0.5f}, {word_token, -1.5f}}});
  }
  std::size_t offset = 0;
  EXPECT_EQ(text_of(completion_logprobs_in_pieces(tokens, tokenizer)),
            to_text(completion_logprobs(tokens, *tokenizer, offset)));
  EXPECT_EQ(text_of(chat_logprobs_in_pieces(tokens, tokenizer)), to_text(chat_logprobs(tokens, *tokenizer)));
}

TEST(ParseBody, SpendsWorkAndCountsMemoryAsItReads) {
  std::string body = "{\"a\": [0";
  for (int i = 0; i < 100'000; ++i) {
    body += ",{}";
  }
  body += "]}";
  std::int64_t held = 0;
  WorkBudget enough(10'000'000, "reading");
  static_cast<void>(parse_body(body, {.budget = &enough, .hold = [&](std::int64_t bytes) { held += bytes; }}));
  EXPECT_GE(enough.spent(), 100'000u);
  EXPECT_GE(held, 100'000 * static_cast<std::int64_t>(sizeof(Json)));
  WorkBudget little(1'000, "reading");
  EXPECT_THROW(parse_body(body, {.budget = &little}), Error);
  EXPECT_LE(little.spent(), 1'000u);
  int asked = 0;
  const auto refuse = [&](std::int64_t) {
    ++asked;
    throw ApiError(503, "no memory");
  };
  EXPECT_THROW(parse_body(body, {.hold = refuse}), ApiError);
  EXPECT_EQ(asked, 1) << "the rest is not read";
}

TEST(Tokenizer, SpendsWorkForEachPartOfATextAndCanBeStopped) {
  const auto tokenizer = byte_tokenizer();
  const std::string words = [] {
    std::string text;
    for (int i = 0; i < 20'000; ++i) {
      text += "some words ";
    }
    return text;
  }();
  const std::string one_word(words.size(), 'a');
  for (const std::string& text : {words, one_word}) {
    WorkBudget enough(100 * text.size(), "encoding");
    const auto ids = tokenizer->encode(text, {}, &enough);
    EXPECT_EQ(ids, tokenizer->encode(text, {}));
    EXPECT_GE(enough.spent(), text.size());
    WorkBudget less(enough.spent() / 2, "encoding");
    EXPECT_THROW(static_cast<void>(tokenizer->encode(text, {}, &less)), Error);
    WorkBudget stopped(100 * text.size(), "encoding");
    stopped.stop();
    EXPECT_THROW(static_cast<void>(tokenizer->encode(text, {}, &stopped)), Interrupted);
  }
}

/// Fails at its first output, or reports its last one.
class Listener : public OutputListener {
 public:
  explicit Listener(bool fails) : fails_(fails) {}
  void on_output(Delivery delivery) override {
    if (fails_) {
      throw std::bad_alloc();
    }
    if (delivery.output.finish != FinishReason::none) {
      ended.set_value(delivery.output.finish);
    }
  }
  void on_failure() noexcept override { failures.fetch_add(1); }

  std::promise<FinishReason> ended;
  std::atomic<int> failures{0};

 private:
  bool fails_;
};

TEST(EngineLoop, AListenerWithoutMemoryFailsAlone) {
  ServiceMetrics metrics;
  const auto poor = std::make_shared<Listener>(true);
  const auto other = std::make_shared<Listener>(false);
  {
    EngineLoop loop(make_fake_engine({.kv_tokens = 256}).engine, metrics, 8);
    EXPECT_NE(loop.submit({make_request(byte_ids("a"), 4)}, 1, poor), 0u);
    EXPECT_NE(loop.submit({make_request(byte_ids("b"), 4)}, 1, other), 0u);
    const auto ended = other->ended.get_future();
    ASSERT_EQ(ended.wait_for(seconds(20)), std::future_status::ready);
  }
  EXPECT_GE(poor->failures, 1);
  EXPECT_EQ(other->failures, 0);
}

}  // namespace
}  // namespace rocmforge
