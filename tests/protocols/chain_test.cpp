// Calls one after another in one launch (matmul/amd/matvec_chain.h, tile/arrival.h): work-groups of a call wait for a
// counter of the call before, and read what any earlier call has stored: a norm of one work-group reads the product before it
// and the stream that the norm before wrote. Work-groups start in the order of their numbers as soon as there is room, and keep their place
// until they end. Launches follow each other on one stream and share their counters. Stores reach other work-groups at any
// time, but before a fence of the same work-group ends.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "protocols/protocol.h"

namespace rocmforge::chain_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::Walk;

constexpr int launches = 2;

struct Version {
  bool waits = true;          ///< for the call before
  bool norm_waits = true;     ///< a call of one work-group does, too
  bool fences = true;         ///< before a work-group counts
  bool norm_fences = true;    ///< that of such a call does, too
  bool zeroes_before = true;  ///< the last of a call zeroes the counter of the call before
  bool zeroes_own = true;     ///< and the last of the last call its own
  bool last_zeroes = true;    ///< otherwise the first of a call does
  bool starts_in_order = true;
};

/// Work-groups of each call, and how many run at the same time.
struct Work {
  std::vector<int> groups;
  int room;
};

class Chain {
 public:
  Chain(Walk& walk, const Version& version, const Work& work) : walk_(walk), version_(version), work_(work) {
    const int all = std::accumulate(work.groups.begin(), work.groups.end(), 0);
    counters_.resize(work.groups.size());
    for (const int count : work.groups) {
      outputs_.push_back(walk.buffers("output", count));
    }
    for (int launch = 0; launch < launches; ++launch) {
      int number = 0;
      for (std::size_t call = 0; call < work.groups.size(); ++call) {
        for (int group = 0; group < work.groups[call]; ++group) {
          run({launch, call, group, version.starts_in_order ? number : all - 1 - number, all});
          ++number;
        }
      }
    }
    walk.at_end([this](Faults& faults) {
      for (const int counter : counters_) {
        if (counter != 0) {
          faults.insert("a counter is left over");
        }
      }
    });
  }

 private:
  struct Place {
    int launch;
    std::size_t call;
    int group;
    int number;  ///< in the order in which the device starts them
    int all;     ///< of the launch
  };

  void run(const Place& place) {
    const int launch = place.launch;
    const std::size_t call = place.call;
    Actor& actor = walk_.actor("group");
    // The launch before has ended, and it is this group's turn and place.
    actor.wait_until([this, launch, number = place.number, all = place.all] {
      const bool ready = launch == 0 || (ended_[launch - 1] == all && unseen_ == 0);
      return ready && started_[launch] == number && started_[launch] - ended_[launch] < work_.room;
    });
    actor.act([this, launch] { ++started_[launch]; });
    const int content = launch;
    const bool is_norm = work_.groups[call] == 1;
    if (call > 0 && version_.waits && (version_.norm_waits || !is_norm)) {
      actor.wait_until([this, call] { return counters_[call - 1] == work_.groups[call - 1]; });
    }
    for (std::size_t earlier = 0; earlier < call; ++earlier) {
      actor.read_all(outputs_[earlier], content);
    }
    store(actor, *outputs_[call][static_cast<std::size_t>(place.group)], content,
          version_.fences && (version_.norm_fences || !is_norm));
    actor.act([this, call] { arrive(call); });
    actor.act([this, launch] { ++ended_[launch]; });
  }

  void store(Actor& actor, Buffer& output, int content, bool fence) {
    auto late = std::make_shared<bool>(true);
    actor.act([this, &output, content, late] {
      ++unseen_;
      walk_.begin_copy(output, [this, &output, content, late] {
        output.end_write(content);
        *late = false;
        --unseen_;
      });
    });
    if (fence) {
      actor.wait_until([late] { return !*late; });
    }
  }

  void arrive(std::size_t call) {
    const int before = counters_[call]++;
    if (before != (version_.last_zeroes ? work_.groups[call] - 1 : 0)) {
      return;
    }
    if (call > 0 && version_.zeroes_before) {
      counters_[call - 1] = 0;
    }
    if (call + 1 == work_.groups.size() && version_.zeroes_own) {
      counters_[call] = 0;
    }
  }

  Walk& walk_;
  const Version version_;
  const Work work_;
  std::vector<std::vector<Buffer*>> outputs_;
  std::vector<int> counters_;
  std::map<int, int> started_, ended_;
  int unseen_ = 0;
};

/// Two to six calls of equal and of different sizes, with room for all work-groups, for some, and for one. The last two are
/// layers with norms behind attention's output and down.
const std::vector<Work> works = {{{1, 1}, 8},       {{3, 3}, 6},       {{2, 5, 1}, 16}, {{4, 4, 4, 4}, 8},
                                 {{4, 2, 4, 3}, 3}, {{3, 1, 2, 5}, 1}, {{1, 6}, 2},
                                 {{2, 3, 4, 2, 3}, 5}, {{2, 1, 3, 2, 1, 3}, 16}, {{3, 1, 2, 3, 1, 2}, 3}};

Faults faults_of(const Version& version) {
  return protocol::explore_all(150, works, [&](Walk& walk, const Work& work) { walk.make<Chain>(version, work); });
}

TEST(ChainProtocol, HasNoFault) { EXPECT_EQ(protocol::text_of(faults_of({})), "no fault"); }

TEST(ChainProtocol, NeedsTheWaitTheFenceTheZerosAndTheOrder) {
  EXPECT_FALSE(faults_of({.waits = false}).empty());
  EXPECT_FALSE(faults_of({.norm_waits = false}).empty());
  EXPECT_FALSE(faults_of({.fences = false}).empty());
  EXPECT_FALSE(faults_of({.norm_fences = false}).empty());
  EXPECT_FALSE(faults_of({.zeroes_before = false}).empty());
  EXPECT_FALSE(faults_of({.zeroes_own = false}).empty());
  EXPECT_FALSE(faults_of({.last_zeroes = false}).empty());
  EXPECT_FALSE(faults_of({.starts_in_order = false}).empty());
}

}  // namespace
}  // namespace rocmforge::chain_test
