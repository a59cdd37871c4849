// Few slots of each expert on Hopper (experts_few.h): a ring of weights for each warp, tiles of slots that are loaded ahead,
// a tile's activations, the sums of an item. And the sorting of the slots by one work-group (experts_sort.h).

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/experts/hopper/experts_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::experts_few_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::in_ring;
using protocol::Mbarrier;
using protocol::NamedBarrier;
using protocol::phase_of;
using protocol::Walk;

struct Version {
  int ring;
  int held_tiles = few_held_tiles;
  bool sums_ready = true;            ///< the barrier before sums are read
  bool sums_read = true;             ///< the one before the next item
  bool loads_ahead_of_none = false;  ///< a share without items loads a tile
  bool refills_early = false;        ///< a unit's place is filled before the unit is multiplied
};

/// A share of the items: items [begin, end), `groups` of rows of a tile, `units` of a row, and the warps that have rows in a
/// tile's last group.
struct Share {
  int units;
  int groups;
  int begin;
  int end;
  int last_warps = few_warps;
};

class Few {
 public:
  Few(Walk& walk, const Version& version, const Share& share)
      : version_(version),
        share_(share),
        tiles_(walk.buffers("tile of slots", version.held_tiles)),
        x_(walk.buffer("activations")),
        x_full_(walk.mbarrier("activations", few_x_arrivals)),
        sums_(walk.buffers("sums", few_warps)),
        everyone_(walk.named_barrier(few_warps)),
        faults_(walk.faults()) {
    for (int own = 0; own < few_warps; ++own) {
      full_.push_back(walk.mbarriers("unit", version.ring, few_unit_arrivals));
      ring_.push_back(walk.buffers("unit", version.ring));
    }
    for (int own = 0; own < few_warps; ++own) {
      run(walk.actor("warp"), own);
    }
  }

 private:
  [[nodiscard]] bool has(int own, int item) const {
    return own < (item % share_.groups == share_.groups - 1 ? share_.last_warps : few_warps);
  }
  [[nodiscard]] int units_of(int own) const {
    int units = 0;
    for (int item = share_.begin; item < share_.end; ++item) {
      units += has(own, item) ? share_.units : 0;
    }
    return units;
  }

  /// The warp's next unit, if it has one.
  void fetch(Actor& warp, int own, int unit) const {
    if (unit < units_of(own)) {
      const auto w = static_cast<std::size_t>(own);
      Mbarrier& full = in_ring(full_[w], unit);
      warp.act([&full] { full.expect(1); }).copy(in_ring(ring_[w], unit), unit, full).arrive(full);
    }
  }

  void load_tile(Actor& warp, int tile) const {
    if (tile > (share_.end - 1) / share_.groups) {
      return;
    }
    if (tile * share_.groups >= share_.end) {  // the list may hold tiles of an earlier step
      warp.act([this] { faults_.insert("a tile is loaded that is not in the list"); });
    }
    warp.write(in_ring(tiles_, tile), tile);
  }

  void multiply(Actor& warp, int own, int tile, int item, int& used) const {
    const auto w = static_cast<std::size_t>(own);
    for (int i = 0; i < share_.units; ++i, ++used) {
      warp.wait(in_ring(full_[w], used), phase_of(full_[w], used)).begin_read(x_, tile);
      warp.begin_read(in_ring(ring_[w], used), used);
      if (version_.refills_early) {
        fetch(warp, own, used + version_.ring);
      }
      warp.end_read(in_ring(ring_[w], used), used).end_read(x_, tile);
      if (!version_.refills_early) {
        fetch(warp, own, used + version_.ring);
      }
    }
    warp.write(in_ring(sums_, own), item);
  }

  void run(Actor& warp, int own) const {
    for (int unit = 0; unit < version_.ring; ++unit) {
      fetch(warp, own, unit);
    }
    if (own < few_held_tiles && (share_.begin < share_.end || version_.loads_ahead_of_none)) {
      load_tile(warp, share_.begin / share_.groups + own);
    }
    warp.sync(everyone_);
    int held = -1;
    int number = 0;
    int used = 0;
    for (int item = share_.begin; item < share_.end; ++item) {
      const int tile = item / share_.groups;
      warp.read(in_ring(tiles_, tile), tile);
      if (tile != held) {
        if (own == 0) {
          warp.expect_and_arrive(x_full_).copy(x_, tile, x_full_);
        } else if (own == 1 && held >= 0) {
          load_tile(warp, tile + 1);
        }
        warp.wait(x_full_, number++);
        held = tile;
      }
      if (has(own, item)) {
        multiply(warp, own, tile, item, used);
      }
      finish(warp, tile, item);
    }
  }

  void finish(Actor& warp, int tile, int item) const {
    if (version_.sums_ready) {
      warp.sync(everyone_);
    }
    for (int of = 0; of < few_warps; ++of) {
      if (has(of, item)) {
        warp.read(in_ring(sums_, of), item);
      }
    }
    warp.read(in_ring(tiles_, tile), tile);  // where its outputs go
    if (version_.sums_read) {
      warp.sync(everyone_);
    }
  }

  const Version version_;
  const Share share_;
  const std::vector<Buffer*> tiles_;
  Buffer& x_;
  Mbarrier& x_full_;
  const std::vector<Buffer*> sums_;
  NamedBarrier& everyone_;
  Faults& faults_;
  std::vector<std::vector<Mbarrier*>> full_;
  std::vector<std::vector<Buffer*>> ring_;
};

/// None, short, long and mixed shares.
std::vector<Share> shares() {
  std::vector<Share> result;
  for (const int units : {1, 2, 7}) {
    for (const int groups : {1, 2, 5}) {
      for (const auto& [begin, end] : {std::pair{0, 0}, {0, 1}, {2, 3}, {3, 3}, {1, 9}, {5, 13}}) {
        for (const int last : {few_warps, 1}) {
          result.push_back({units, groups, begin, end, last});
        }
      }
    }
  }
  return result;
}

Faults faults_of(const Version& version, const std::vector<Share>& of, int walks) {
  return protocol::explore_all(walks, of, [&](Walk& walk, const Share& share) { walk.make<Few>(version, share); });
}

TEST(ExpertsFewProtocol, HasNoFault) {
  for (const int ring : {1, 2, 3, most_few_ring}) {
    EXPECT_EQ(protocol::text_of(faults_of({.ring = ring}, shares(), 3)), "no fault") << "ring of " << ring;
  }
}

TEST(ExpertsFewProtocol, NeedsEachBarrierAndTile) {
  const std::vector<Share> some = {{3, 1, 0, 9}, {2, 2, 1, 9}};
  EXPECT_FALSE(faults_of({.ring = 2, .sums_ready = false}, some, 60).empty());
  EXPECT_FALSE(faults_of({.ring = 2, .sums_read = false}, some, 60).empty());
  EXPECT_FALSE(faults_of({.ring = 2, .held_tiles = few_held_tiles - 1}, some, 60).empty());
  EXPECT_FALSE(faults_of({.ring = 2, .refills_early = true}, some, 60).empty());
}

TEST(ExpertsFewProtocol, AShareWithoutItemsLoadsNoTile) {
  EXPECT_FALSE(faults_of({.ring = 2, .loads_ahead_of_none = true}, {{2, 5, 0, 0}}, 1).empty());
}

// --- sorting

/// Warps count the slots of each expert, sum up their runs of experts, and put the slots in order; a barrier lies between.
/// `missing`: the barrier that is left out, or -1.
class Sort {
 public:
  Sort(Walk& walk, int missing) : everyone_(walk.named_barrier(warps)), missing_(missing) {
    const auto zeros = walk.buffers("zeros", warps);
    const auto counts = walk.buffers("counts", warps);
    const auto of_warps = walk.buffers("of_warps", warps);
    const auto next = walk.buffers("next", warps);
    for (int own = 0; own < warps; ++own) {  // each warp has the experts of one buffer, and slots of all experts
      Actor& warp = walk.actor("warp");
      warp.write(in_ring(zeros, own), 1);
      sync(warp, 0);
      warp.read_all(zeros, 1).write(in_ring(counts, own), 1);
      sync(warp, 1);
      warp.read_all(counts, 1).write(in_ring(of_warps, own), 1);
      sync(warp, 2);
      warp.read_all({of_warps.begin(), of_warps.begin() + own}, 1).write(in_ring(next, own), 1);
      sync(warp, 3);
      warp.read_all(next, 1);
    }
  }

 private:
  static constexpr int warps = few_convert_threads / 32;
  void sync(Actor& warp, int number) const {
    if (number != missing_) {
      warp.sync(everyone_);
    }
  }
  NamedBarrier& everyone_;
  const int missing_;
};

TEST(ExpertsSortProtocol, NeedsEachBarrier) {
  const auto faults = [](int missing) { return protocol::explore(60, [&](Walk& walk) { walk.make<Sort>(missing); }); };
  EXPECT_EQ(protocol::text_of(faults(-1)), "no fault");
  for (int missing = 0; missing < 4; ++missing) {
    EXPECT_FALSE(faults(missing).empty()) << missing;
  }
}

}  // namespace
}  // namespace rocmforge::hopper::experts_few_test
