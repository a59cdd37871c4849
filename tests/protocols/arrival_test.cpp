// The last work-group to arrive adds up what the others left (tile/arrival.h: paged, latent, rows of the router, AMD's
// decode; arrives_last() of Hopper's decode, which adds the number of its pieces). Launches follow each other on one stream.
// Stores reach other work-groups at any time, but before a fence of the same thread ends.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "protocols/protocol.h"

namespace rocmforge::arrival_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::NamedBarrier;
using protocol::Walk;

constexpr int warps = 2;
constexpr int launches = 3;

struct Version {
  bool fences = true;         ///< before a work-group counts
  bool waits_for_all = true;  ///< the barrier before one thread counts
  bool zeroes_counter = true;
  bool waits_for_count = true;  ///< the barrier behind the count
};

/// `shares`: pieces of each work-group.
class Arrival {
 public:
  Arrival(Walk& walk, const Version& version, const std::vector<int>& shares)
      : walk_(walk), version_(version), shares_(shares), pieces_(std::accumulate(shares.begin(), shares.end(), 0)) {
    for (int piece = 0; piece < pieces_; ++piece) {
      parts_.push_back(walk.buffers("part", warps));
    }
    const int groups = static_cast<int>(shares.size());
    for (int launch = 0; launch < launches; ++launch) {
      for (int group = 0; group < groups; ++group) {
        NamedBarrier& barrier = walk.named_barrier(warps);
        flags_.push_back(&walk.buffer("flag"));
        for (int own = 0; own < warps; ++own) {
          run(walk.actor("warp"), launch, group, own, barrier, *flags_.back());
        }
      }
    }
    walk.at_end([this](Faults& faults) {
      for (int launch = 0; launch < launches; ++launch) {
        if (outputs_[launch] != 1) {
          faults.insert("an output is written never or twice");
        }
      }
      if (counter_ != 0) {
        faults.insert("a counter is left over");
      }
    });
  }

 private:
  void store_pieces(Actor& warp, int launch, int group, int own) {
    const int first = std::accumulate(shares_.begin(), shares_.begin() + group, 0);
    auto unseen = std::make_shared<int>(0);
    for (int piece = first; piece < first + shares_[static_cast<std::size_t>(group)]; ++piece) {
      Buffer& part = *parts_[static_cast<std::size_t>(piece)][static_cast<std::size_t>(own)];
      warp.act([this, &part, launch, unseen] {
        ++*unseen;
        ++unseen_of_[launch];
        walk_.begin_copy(part, [this, &part, launch, unseen] {
          part.end_write(launch);
          --*unseen;
          --unseen_of_[launch];
        });
      });
    }
    if (version_.fences) {
      warp.wait_until([unseen] { return *unseen == 0; });
    }
  }

  void run(Actor& warp, int launch, int group, int own, NamedBarrier& barrier, Buffer& flag) {
    const int all = static_cast<int>(shares_.size()) * warps;
    warp.wait_until(
        [this, launch, all] { return launch == 0 || (ended_[launch - 1] == all && unseen_of_[launch - 1] == 0); });
    store_pieces(warp, launch, group, own);
    if (version_.waits_for_all) {
      warp.sync(barrier);
    }
    auto& last = last_[{launch, group}];
    if (own == 0) {
      const int share = shares_[static_cast<std::size_t>(group)];
      warp.act([this, &last, share] {
        counter_ += share;
        last = share > 0 && counter_ == pieces_;
        counter_ = last && version_.zeroes_counter ? 0 : counter_;
      });
      warp.write(flag, 1);
    }
    if (version_.waits_for_count) {
      warp.sync(barrier);
    }
    warp.read(flag, 1).then([this, launch, own, &last](Actor& then) {
      if (last) {
        for (const auto& part : parts_) {
          then.read_all(part, launch);
        }
        if (own == 0) {
          then.act([this, launch] { ++outputs_[launch]; });
        }
      }
    });
    warp.act([this, launch] { ++ended_[launch]; });
  }

  Walk& walk_;
  const Version version_;
  const std::vector<int> shares_;
  const int pieces_;
  std::vector<std::vector<Buffer*>> parts_;
  std::vector<Buffer*> flags_;
  std::map<std::pair<int, int>, bool> last_;
  std::map<int, int> outputs_, ended_, unseen_of_;
  int counter_ = 0;
};

/// A piece each, or pieces of different numbers, also none.
const std::vector<std::vector<int>> works = {{1}, {1, 1}, {1, 1, 1, 1, 1}, {3, 1}, {2, 0, 5}, {1, 4, 4, 2}};

Faults faults_of(const Version& version) {
  return protocol::explore_all(150, works, [&](Walk& walk, const auto& shares) { walk.make<Arrival>(version, shares); });
}

TEST(ArrivalProtocol, HasNoFault) { EXPECT_EQ(protocol::text_of(faults_of({})), "no fault"); }

TEST(ArrivalProtocol, NeedsTheFenceTheBarriersAndTheZero) {
  EXPECT_FALSE(faults_of({.fences = false}).empty());
  EXPECT_FALSE(faults_of({.waits_for_all = false}).empty());
  EXPECT_FALSE(faults_of({.zeroes_counter = false}).empty());
  EXPECT_FALSE(faults_of({.waits_for_count = false}).empty());
}

}  // namespace
}  // namespace rocmforge::arrival_test
