// Hopper's latent decode (latent_decode.cu): a ring of stages of keys that all warps fill and read, scores that lie over q,
// and weights. Its second launch, which adds up the parts of the pieces (latent_merge.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/attention/hopper/latent_decode_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::latent_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::in_ring;
using protocol::Mbarrier;
using protocol::NamedBarrier;
using protocol::phase_of;
using protocol::Walk;

constexpr int warps = latent_decode_warps;
constexpr int of_tile = latent_stages_of_tile;
constexpr int of_stage = latent_warps_of_stage;  ///< parts of a stage: the rows that a warp copies

/// What a version of the kernel leaves out; the default is the kernel.
struct Version {
  bool zeros = true;     ///< the barrier behind the zeros after the last key
  bool scores = true;    ///< the one behind scores
  bool weights = true;   ///< the one behind weights
  bool refill = true;    ///< the one before stages are filled again
  int refill_ahead = 0;  ///< so many stages too many are filled again
};

/// A work-group's piece of the keys.
struct Piece {
  int parts;    ///< rows, in those of a warp
  bool newest;  ///< the last part is of this step
  bool alone;   ///< a short piece may be copied before q
};

class Decode {
 public:
  Decode(Walk& walk, const Version& version, const Piece& piece)
      : version_(version),
        piece_(piece),
        stages_((piece.parts + of_stage - 1) / of_stage),
        full_(walk.mbarriers("stage", latent_stages, latent_stage_arrivals)),
        q_(walk.buffer("q and scores")),
        weights_(walk.buffer("weights")),
        scores_(walk.buffers("scores", warps)),
        everyone_(walk.named_barrier(warps)) {
    for (int stage = 0; stage < latent_stages; ++stage) {
      rows_.push_back(walk.buffers("rows of a stage", of_stage));
    }
    for (int own = 0; own < warps; ++own) {
      run(walk.actor("warp"), own);
    }
  }

 private:
  [[nodiscard]] bool is_short() const { return piece_.alone && stages_ <= 2 * of_tile; }
  [[nodiscard]] Buffer& place(int part) const {
    return *rows_[static_cast<std::size_t>(part / of_stage % latent_stages)][static_cast<std::size_t>(part % of_stage)];
  }

  void copy(Actor& warp, int own, int stage, bool with_newest, bool with_old) const {
    const int part = stage * of_stage + own % of_stage;
    const bool newest = piece_.newest && part == piece_.parts - 1;
    if (part < piece_.parts && (newest ? with_newest : with_old)) {
      warp.copy(place(part), part, in_ring(full_, stage));
    }
  }
  void fetch(Actor& warp, int own, int first, int limit, bool with_newest) const {
    const int stage = first + own / of_stage;
    if (stage >= std::min(limit, stages_)) {
      return;
    }
    if (own % of_stage == 0) {
      warp.expect_and_arrive(in_ring(full_, stage), std::min(of_stage, piece_.parts - stage * of_stage));
    }
    copy(warp, own, stage, with_newest, true);
  }

  void fill(Actor& warp, int own) const {
    fetch(warp, own, 0, latent_stages, false);
    if (is_short()) {
      fetch(warp, own, of_tile, latent_stages, false);
    }
    for (int i = 0; i < 2; ++i) {  // the predecessor has ended
      if (const int stage = i * of_tile + own / of_stage; stage < stages_ && (i == 0 || is_short())) {
        copy(warp, own, stage, true, false);
      }
    }
    for (int i = 1; i < latent_fills; ++i) {
      if (i > 1 || !is_short()) {
        fetch(warp, own, i * of_tile, latent_stages, true);
      }
    }
  }

  void read_rows(Actor& warp, int tile) const {
    for (int part = tile * of_tile * of_stage; part < (tile + 1) * of_tile * of_stage; ++part) {
      warp.read(place(part), part < piece_.parts ? part : -2);
    }
  }
  void sync(Actor& warp, bool there) const {
    if (there) {
      warp.sync(everyone_);
    }
  }

  void run(Actor& warp, int own) const {
    fill(warp, own);
    if (own == 0) {
      warp.write(q_, 0);
    }
    warp.sync(everyone_).read(q_, 0).sync(everyone_);
    for (int tile = 0; tile * of_tile < stages_; ++tile) {
      for (int stage = tile * of_tile; stage < std::min((tile + 1) * of_tile, stages_); ++stage) {
        warp.wait(in_ring(full_, stage), phase_of(full_, stage));
      }
      if (const int last = (tile + 1) * of_tile * of_stage; piece_.parts < last) {
        for (int part = piece_.parts + own; part < last; part += warps) {
          warp.write(place(part), -2);
        }
        sync(warp, version_.zeros);
      }
      read_rows(warp, tile);
      warp.write(in_ring(scores_, own), tile);
      sync(warp, version_.scores);
      if (own < latent_tile_heads(576) / 2) {  // half a warp a head
        for (int i = 0; i < warps; ++i) {
          warp.read(in_ring(scores_, i), tile);
        }
      }
      if (own == 0) {
        warp.write(weights_, tile);
      }
      sync(warp, version_.weights);
      warp.read(weights_, tile);
      read_rows(warp, tile);
      if (const int next = tile * of_tile + latent_stages; next < stages_) {
        sync(warp, version_.refill);
        fetch(warp, own, next, stages_, true);
        if (version_.refill_ahead > 0) {
          fetch(warp, own, next + of_tile, stages_, true);
        }
      }
    }
  }

  const Version version_;
  const Piece piece_;
  const int stages_;
  const std::vector<Mbarrier*> full_;
  Buffer& q_;
  Buffer& weights_;
  const std::vector<Buffer*> scores_;
  NamedBarrier& everyone_;
  std::vector<std::vector<Buffer*>> rows_;
};

/// From a part of a stage to many tiles.
std::vector<Piece> pieces() {
  std::vector<Piece> result;
  for (const int parts : {1, 7, 8, 9, 16, 17, 32, 33, 40, 41, 48, 57, 88, 104}) {
    for (const bool newest : {false, true}) {
      for (const bool alone : {false, true}) {
        result.push_back({parts, newest, alone});
      }
    }
  }
  return result;
}

Faults faults_of(const Version& version, const std::vector<Piece>& works, int walks) {
  return protocol::explore_all(walks, works, [&](Walk& walk, const Piece& piece) { walk.make<Decode>(version, piece); });
}

TEST(LatentProtocol, HasNoFault) { EXPECT_EQ(protocol::text_of(faults_of({}, pieces(), 8)), "no fault"); }

TEST(LatentProtocol, NeedsEachBarrier) {
  const std::vector<Piece> works = {{33, true, false}, {81, true, false}, {88, false, true}};
  EXPECT_FALSE(faults_of({.zeros = false}, works, 60).empty());
  EXPECT_FALSE(faults_of({.scores = false}, works, 60).empty());
  EXPECT_FALSE(faults_of({.weights = false}, works, 60).empty());
  EXPECT_FALSE(faults_of({.refill = false}, works, 60).empty());
  EXPECT_FALSE(faults_of({.refill_ahead = 1}, works, 60).empty());
}

TEST(LatentProtocol, PiecesCoverEachKeyOnce) {
  for (std::int32_t keys = 1; keys < 40'000; keys += keys < 3000 ? 1 : 61) {
    const LatentCut cut = latent_cut(keys);
    ASSERT_LE(cut.pieces, most_pieces_of_a_sequence);
    ASSERT_EQ(cut.begin(0, keys), 0);
    for (std::int32_t piece = 0; piece < cut.pieces; ++piece) {
      ASSERT_LT(cut.begin(piece, keys), cut.begin(piece + 1, keys)) << keys;
    }
    ASSERT_EQ(cut.begin(cut.pieces, keys), keys);
  }
}

/// The second launch: one warp finds the factors of the pieces, each warp adds up every n-th piece, one adds up the warps.
class Merge {
 public:
  Merge(Walk& walk, bool factors_barrier, bool sums_barrier) {
    constexpr int merge_warps = latent_merge_threads / 32;
    const auto sums = walk.buffers("sums", merge_warps);
    Buffer& factors = walk.buffer("factors");
    NamedBarrier& everyone = walk.named_barrier(merge_warps);
    for (int own = 0; own < merge_warps; ++own) {
      Actor& warp = walk.actor("warp");
      if (own == 0) {
        warp.write(factors, 1);
      }
      if (factors_barrier) {
        warp.sync(everyone);
      }
      warp.read(factors, 1).write(in_ring(sums, own), 1);
      if (sums_barrier) {
        warp.sync(everyone);
      }
      if (own == 0) {
        warp.read_all(sums, 1);
      }
    }
  }
};

TEST(LatentProtocol, TheMergeHasNoFault) {
  const auto faults = [](bool factors, bool sums) {
    return protocol::explore(100, [&](Walk& walk) { walk.make<Merge>(factors, sums); });
  };
  EXPECT_EQ(protocol::text_of(faults(true, true)), "no fault");
  EXPECT_FALSE(faults(false, true).empty());
  EXPECT_FALSE(faults(true, false).empty());
}

}  // namespace
}  // namespace rocmforge::hopper::latent_test
