// Ranks on several GPUs exchange parts in rounds (rows/portable/ranks.hip, docs/kernels/rank_exchange.md). A round is a
// launch on each rank's stream. Each warp writes its elements to every other rank, together with the number of the round,
// and waits for theirs. Rounds of one parity share their places; a round may have fewer elements than the one before, or go
// to rank 0 alone. Stores to another GPU arrive at any time.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "protocols/protocol.h"

namespace rocmforge::rank_exchange_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::Walk;

constexpr int warps = 2;
constexpr int numbers = 8;          ///< of rounds, before they begin anew (2^32)
constexpr int rounds_of_marks = 4;  ///< 2^20

struct Round {
  int elements = warps;  ///< warp w moves element w
  bool to_first = false;
};

struct Version {
  int parities = 2;
  bool marks_with_data = true;   ///< one store has both
  bool answers = true;           ///< a rank that has nothing for another one tells that it has come
  bool waits_for_launch = true;  ///< a launch waits for the end of the one before it
  bool marks_anew = true;        ///< places that were not written for long
  bool slices = false;           ///< what each rank has added of all parts goes to the others in the same round
};

class Exchange {
 public:
  Exchange(Walk& walk, const Version& version, int ranks, const std::vector<Round>& rounds)
      : walk_(walk), version_(version), ranks_(ranks), rounds_(rounds) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int warp = 0; warp < warps; ++warp) {
        run(walk.actor("warp"), rank, warp);
      }
    }
  }

 private:
  struct Place {
    Buffer* data;
    int mark = 0;
  };
  Place& place(int of, int from, int round, int element) {
    Place& found = places_[{of, from, round % version_.parities, element}];
    if (found.data == nullptr) {
      found.data = &walk_.buffer("place");
    }
    return found;
  }
  /// Whether `from` writes this element to `to` in a round.
  [[nodiscard]] bool sends(const Round& round, int to, int element) const {
    const bool receives = !round.to_first || to == 0;
    return receives ? element < round.elements : element == 0 && version_.answers;
  }

  void put(Actor& warp, Place& there, int round) {
    warp.act([this, &there, round] {
      walk_.begin_copy(*there.data, [this, &there, round] {
        there.data->end_write(round);
        if (version_.marks_with_data) {
          there.mark = round % numbers;
        }
      });
      if (!version_.marks_with_data) {
        there.mark = round % numbers;
      }
    });
  }

  void run(Actor& warp, int rank, int own) {
    for (int number = 1; number <= static_cast<int>(rounds_.size()); ++number) {
      const Round& round = rounds_[static_cast<std::size_t>(number - 1)];
      if (version_.waits_for_launch) {
        warp.wait_until([this, rank, number] { return number == 1 || ended_[{rank, number - 1}] == warps; });
      }
      for (int to = 0; to < ranks_; ++to) {
        if (to != rank && sends(round, to, own)) {
          put(warp, place(to, rank, number, own), number);
        }
      }
      for (int from = 0; from < ranks_; ++from) {
        if (from != rank && sends(round, rank, own)) {
          Place& here = place(rank, from, number, own);
          warp.wait_until([&here, number] { return here.mark == number % numbers; }).read(*here.data, number);
        }
      }
      if (version_.slices && !round.to_first && own < round.elements) {
        tell_sums(warp, rank, own, number);
      }
      warp.act([this, rank, number] { ++taken_[{rank, number}]; });
      warp.wait_until([this, rank, number] { return taken_[{rank, number}] == warps; });  // __syncthreads()
      if (version_.marks_anew && number % rounds_of_marks < 2) {
        mark_anew(warp, rank, own, number);
      }
      warp.act([this, rank, number] { ++ended_[{rank, number}]; });
    }
  }

  /// Sums lie behind the places of the parts.
  void tell_sums(Actor& warp, int rank, int own, int number) {
    for (int to = 0; to < ranks_; ++to) {
      if (to != rank) {
        put(warp, place(to, rank, number, warps + own), number);
      }
    }
    for (int from = 0; from < ranks_; ++from) {
      if (from != rank) {
        Place& here = place(rank, from, number, warps + own);
        warp.wait_until([&here, number] { return here.mark == number % numbers; }).read(*here.data, number);
      }
    }
  }

  void mark_anew(Actor& warp, int rank, int own, int number) {
    for (int from = 0; from < ranks_; ++from) {
      for (int element = own; from != rank && element < (version_.slices ? 2 : 1) * warps; element += warps) {
        Place& here = place(rank, from, number, element);
        warp.write(*here.data, number).act([&here, number] { here.mark = number % numbers; });
      }
    }
  }

  Walk& walk_;
  const Version version_;
  const int ranks_;
  const std::vector<Round> rounds_;
  std::map<std::tuple<int, int, int, int>, Place> places_;
  std::map<std::pair<int, int>, int> taken_, ended_;
};

/// Full rounds; rounds to rank 0 alone; and a place that is not written from one use of a number to the next.
const std::vector<std::vector<Round>> works = {
    std::vector<Round>(7),
    std::vector<Round>(7, {.to_first = true}),
    {{}, {1}, {2, true}, {1, true}, {}, {1}},
    {{}, {}, {1}, {1}, {1}, {1}, {1}, {1}, {}, {}},
};

Faults faults_of(const Version& version) {
  Faults all;
  for (const int ranks : {2, 3}) {
    all.merge(protocol::explore_all(150, works,
                                    [&](Walk& walk, const auto& rounds) { walk.make<Exchange>(version, ranks, rounds); }));
  }
  return all;
}

TEST(RankExchangeProtocol, HasNoFault) { EXPECT_EQ(protocol::text_of(faults_of({})), "no fault"); }

TEST(RankExchangeProtocol, SumsOfSlicesHaveNoFault) {
  EXPECT_EQ(protocol::text_of(faults_of({.slices = true})), "no fault");
  EXPECT_FALSE(faults_of({.parities = 1, .slices = true}).empty());
  EXPECT_FALSE(faults_of({.marks_with_data = false, .slices = true}).empty());
  EXPECT_FALSE(faults_of({.waits_for_launch = false, .slices = true}).empty());
}

TEST(RankExchangeProtocol, NeedsTwoPlacesMarksAnswersAndTheOrderOfLaunches) {
  EXPECT_FALSE(faults_of({.parities = 1}).empty());
  EXPECT_FALSE(faults_of({.marks_with_data = false}).empty());
  EXPECT_FALSE(faults_of({.answers = false}).empty());
  EXPECT_FALSE(faults_of({.waits_for_launch = false}).empty());
  EXPECT_FALSE(faults_of({.marks_anew = false}).empty());
}

}  // namespace
}  // namespace rocmforge::rank_exchange_test
