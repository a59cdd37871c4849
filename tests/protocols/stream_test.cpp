// matmul_stream of matmul_tiles.h: the shares of work-groups, and the adding up of tiles that several of them share. All
// work-groups of a launch run together. Rings and stages are those of tiles_test.cpp.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::NamedBarrier;
using protocol::Walk;

constexpr int warps = warps_of_consumer;

struct Call {
  int tiles;
  int records;
  int unit_records;
  int groups;
  int token_tiles = 1;
};

MatmulTilesArgs args_of(const Call& call) {
  MatmulTilesArgs args{};
  args.row_tiles = call.tiles;
  args.token_tiles = call.token_tiles;
  args.records = call.records;
  args.unit_records = call.unit_records;
  return args;
}

/// Fewer and more tiles than work-groups, whole ones, parts of one, a last unit that is short.
const std::vector<Call> calls = {{1, 1, 1, 1},  {1, 8, 1, 3},   {1, 7, 2, 4},  {3, 4, 1, 2}, {3, 4, 4, 2},   {5, 3, 1, 4},
                                 {2, 9, 2, 10}, {16, 28, 1, 7}, {2, 16, 4, 3}, {4, 4, 2, 8}, {3, 4, 1, 2, 2}};

TEST(StreamSpans, ShareEveryRecordOnce) {
  for (const Call& call : calls) {
    const MatmulTilesArgs args = args_of(call);
    std::map<std::pair<int, int>, int> seen;
    std::map<int, std::vector<int>> groups_of_tile;
    std::map<int, int> tile_of_place;
    for (int group = 0; group < call.groups; ++group) {
      StreamSpans spans(args, group, call.groups);
      EXPECT_TRUE(spans.any());
      while (spans.any()) {
        const StreamSpan span = spans.next(args);
        EXPECT_LT(span.first_record, span.end_record);
        EXPECT_EQ(span.whole, span.first_record == 0 && span.end_record == call.records);
        for (int record = span.first_record; record < span.end_record; ++record) {
          ++seen[{span.tile, record}];
        }
        groups_of_tile[span.tile].push_back(group);
        if (!span.whole) {
          const int place = StreamSpans(args, group, call.groups).place(group, span.tile);
          EXPECT_TRUE(tile_of_place.emplace(place, span.tile).second) << "two tiles in place " << place;
          EXPECT_EQ(place / 2, group);
        }
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(call.tiles * call.records));
    for (const auto& [record, count] : seen) {
      EXPECT_EQ(count, 1);
    }
    const StreamSpans spans(args, 0, call.groups);
    for (const auto& [tile, groups] : groups_of_tile) {
      EXPECT_EQ(spans.first_group(tile), groups.front());
      EXPECT_EQ(spans.last_group(tile), groups.back());
    }
  }
}

struct Version {
  bool gated = false;
  bool meets_before = true;  ///< all of a consumer have stored before it counts
  bool meets_after = true;   ///< the answer is read behind a barrier
  bool zeroes_counters = true;
  int places = 2;  ///< of a work-group
};

/// Two consumers of each work-group, which with a gate are a pair.
class Launch {
 public:
  Launch(Walk& walk, const Version& version, const Call& call) : version_(version), call_(call), args_(args_of(call)) {
    for (int place = 0; place < call.token_tiles * 2 * call.groups * consumers; ++place) {
      partials_.push_back(walk.buffers("sums", warps));
    }
    for (int group = 0; group < call.groups; ++group) {
      pairs_.push_back(&walk.named_barrier(2 * warps));
      for (int consumer = 0; consumer < consumers; ++consumer) {
        answers_.push_back(&walk.buffer("complete"));
        own_.push_back(&walk.named_barrier(warps));
        for (int warp = 0; warp < warps; ++warp) {
          consume(walk.actor("consumer"), group, consumer, warp);
        }
      }
    }
    walk.at_end([this](Faults& faults) {
      for (int tile = 0; tile < call_.tiles * call_.token_tiles; ++tile) {
        for (int consumer = 0; consumer < consumers; ++consumer) {
          if (stored_[{tile, consumer}] != warps) {
            faults.insert("a tile is stored by " + std::to_string(stored_[{tile, consumer}]) + " warps");
          }
        }
      }
      for (const auto& [counter, count] : arrivals_) {
        if (count != 0) {
          faults.insert("a counter is left");
        }
      }
    });
  }

 private:
  static constexpr int consumers = 2;

  std::vector<Buffer*>& partials(int place, int consumer) {
    return partials_[static_cast<std::size_t>((place / 2 * 2 + place % version_.places) * consumers + consumer)];
  }

  void store(Actor& warp, int tile, int consumer) {
    warp.act([this, tile, consumer] { ++stored_[{tile, consumer}]; });
  }

  void join(Actor& actor, int group, int tile, int consumer, int warp) {
    const int leader = version_.gated ? 0 : consumer;
    const auto at = static_cast<std::size_t>(group * consumers + leader);
    NamedBarrier& barrier = version_.gated ? *pairs_[static_cast<std::size_t>(group)] : *own_[at];
    const StreamSpans spans(args_, group, call_.groups);
    const int row_tile = tile / call_.token_tiles;
    const int places = tile % call_.token_tiles * 2 * call_.groups;
    const int first = spans.first_group(row_tile);
    const int last = spans.last_group(row_tile);
    actor.write(*partials(places + spans.place(group, row_tile), consumer)[static_cast<std::size_t>(warp)], tile);
    if (version_.meets_before) {
      actor.sync(barrier);
    }
    if (consumer == leader && warp == 0) {
      actor.act([this, tile, leader, at, count = last - first] {
        int& arrivals = arrivals_[{tile, leader}];
        complete_[{at, tile}] = arrivals++ == count;
        if (complete_[{at, tile}] && version_.zeroes_counters) {
          arrivals = 0;
        }
      });
      actor.write(*answers_[at], tile);
    }
    if (version_.meets_after) {
      actor.sync(barrier);
    }
    actor.read(*answers_[at], tile);
    actor.then([this, at, tile, row_tile, places, consumer, warp, first, last](Actor& then) {
      if (!complete_[{at, tile}]) {
        return;
      }
      for (int group_of = first; group_of <= last; ++group_of) {
        const int place = places + StreamSpans(args_, group_of, call_.groups).place(group_of, row_tile);
        then.read(*partials(place, consumer)[static_cast<std::size_t>(warp)], tile);
      }
      store(then, tile, consumer);
    });
  }

  void consume(Actor& actor, int group, int consumer, int warp) {
    for (StreamSpans spans(args_, group, call_.groups); spans.any();) {
      const StreamSpan span = spans.next(args_);
      for (int token_tile = 0; token_tile < call_.token_tiles; ++token_tile) {
        const int tile = span.tile * call_.token_tiles + token_tile;
        if (span.whole) {
          store(actor, tile, consumer);
        } else {
          join(actor, group, tile, consumer, warp);
        }
      }
    }
  }

  const Version version_;
  const Call call_;
  const MatmulTilesArgs args_;
  std::vector<std::vector<Buffer*>> partials_;
  std::vector<Buffer*> answers_;
  std::vector<NamedBarrier*> pairs_, own_;
  std::map<std::pair<int, int>, int> arrivals_, stored_;
  std::map<std::pair<std::size_t, int>, bool> complete_;
};

Faults faults_of(const Version& version, int walks) {
  return protocol::explore_all(walks, calls, [&](Walk& walk, const Call& call) { walk.make<Launch>(version, call); });
}

TEST(StreamProtocol, HasNoFault) {
  for (const bool gated : {false, true}) {
    EXPECT_EQ(protocol::text_of(faults_of({.gated = gated}, 60)), "no fault") << gated;
  }
}

TEST(StreamProtocol, NeedsEachPart) {
  EXPECT_FALSE(faults_of({.meets_before = false}, 60).empty());
  EXPECT_FALSE(faults_of({.gated = true, .meets_before = false}, 60).empty());
  EXPECT_FALSE(faults_of({.meets_after = false}, 60).empty());
  EXPECT_FALSE(faults_of({.zeroes_counters = false}, 10).empty());
  EXPECT_FALSE(faults_of({.places = 1}, 60).empty());
}

}  // namespace
}  // namespace rocmforge::hopper
