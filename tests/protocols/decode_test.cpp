// Hopper's decode attention (attention_decode_copy.h, attention_decode_multiply.h): the ring of tiles of K and V that groups
// of warps take in turns, q and sums in shared memory, and the list of work with the counters of heads that several
// work-groups share.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention/hopper/attention_decode_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::decode_test {
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
  int slots;
  int groups;
  int producers;
  int free_arrivals = DecodeShape::free_arrivals;
  bool frees_early = false;       ///< before the warp has read the slot
  bool waits_for_sums = true;     ///< the barrier before the warps' sums are read
  bool waits_for_readers = true;  ///< the barrier after that
};

constexpr int warps = DecodeShape::warps_of_tile;

/// `pieces`: tiles of successive pieces, of which every other one begins a head.
class Ring {
 public:
  Ring(Walk& walk, const Version& version, const std::vector<int>& pieces)
      : version_(version),
        pieces_(pieces),
        full_(walk.mbarriers("full", version.slots, DecodeShape::full_arrivals)),
        free_(walk.mbarriers("free", version.slots, version.free_arrivals)),
        ring_(walk.buffers("slot", version.slots)),
        q_(walk.buffers("q", version.groups * warps)),
        sums_(walk.buffers("sums", version.groups * warps)),
        together_(walk.named_barrier(version.groups * warps)) {
    for (int own = 0; own < version.producers; ++own) {
      produce(walk.actor("producer"), own);
    }
    for (int group = 0; group < version.groups; ++group) {
      for (int warp = 0; warp < warps; ++warp) {
        consume(walk.actor("consumer"), group, warp);
      }
    }
  }

 private:
  void produce(Actor& producer, int own) const {
    int at = 0;  // of all slots that are filled
    for (const int tiles : pieces_) {
      for (int i = 0; i < 2 * tiles; ++i, ++at) {  // K, V
        if (at % version_.slots % version_.producers == own) {
          producer.wait(in_ring(free_, at), phase_of(free_, at) - 1)
              .expect_and_arrive(in_ring(full_, at))
              .copy(in_ring(ring_, at), at, in_ring(full_, at));
        }
      }
    }
  }

  void take_slot(Actor& consumer, int at) const {
    consumer.wait(in_ring(full_, at), phase_of(full_, at)).begin_read(in_ring(ring_, at), at);
    if (version_.frees_early) {
      consumer.arrive(in_ring(free_, at));
    }
    consumer.end_read(in_ring(ring_, at), at);
    if (!version_.frees_early) {
      consumer.arrive(in_ring(free_, at));
    }
  }

  void consume(Actor& consumer, int group, int warp) const {
    const int consumers = version_.groups * warps;
    int at = 0;
    int turn = 0;
    for (int piece = 0; piece < static_cast<int>(pieces_.size()); ++piece) {
      const int tiles = pieces_[static_cast<std::size_t>(piece)];
      const int head = piece / 2;
      if (piece % 2 == 0) {
        consumer.write(in_ring(q_, group * warps + warp), head).sync(together_);
      }
      const int first = turn;
      for (int tile = 0; tile < tiles; ++tile, at += 2, turn = (turn + 1) % version_.groups) {
        if (turn == group) {
          consumer.read(in_ring(q_, group * warps + warp + 1), head);  // a part that another warp has written
          take_slot(consumer, at);
          take_slot(consumer, at + 1);
        }
      }
      const int place = (group - first + version_.groups) % version_.groups * warps + warp;
      consumer.write(in_ring(sums_, place), piece * consumers + place);
      if (version_.waits_for_sums) {
        consumer.sync(together_);
      }
      for (int i = 0; i < std::min(version_.groups, std::max(tiles, 1)) * warps; ++i) {
        consumer.read(in_ring(sums_, i), piece * consumers + i);
      }
      if (version_.waits_for_readers) {
        consumer.sync(together_);
      }
    }
  }

  const Version version_;
  const std::vector<int> pieces_;
  const std::vector<Mbarrier*> full_, free_;
  const std::vector<Buffer*> ring_, q_, sums_;
  NamedBarrier& together_;
};

/// None, empty, short, long and mixed pieces.
const std::vector<std::vector<int>> works = {{},  {0}, {1}, {0, 1, 2, 0, 3, 1, 1}, {9, 1, 8, 2}, {1, 1, 1, 1, 1, 1, 1, 1},
                                             {20}};

Faults faults_of(const Version& version, int walks = 25) {
  return protocol::explore_all(walks, works, [&](Walk& walk, const auto& pieces) { Ring(walk, version, pieces); });
}

/// The rings of all kernels.
std::vector<Version> kernels() {
  std::map<std::tuple<int, int, int>, Version> rings;
  for (const bool quants : {false, true}) {
    for (const int padded : {64, 128, 256}) {
      for (const int heads : {8, 16}) {
        const DecodeShape shape{padded, heads, decode_groups(quants, padded, heads), quants};
        rings.insert({{shape.slots(), shape.groups, shape.producers()}, {shape.slots(), shape.groups, shape.producers()}});
      }
    }
  }
  std::vector<Version> result;
  for (const auto& [key, version] : rings) {
    result.push_back(version);
  }
  return result;
}

TEST(DecodeProtocol, HasNoFault) {
  EXPECT_GE(kernels().size(), 5u);
  for (const Version& version : kernels()) {
    EXPECT_EQ(protocol::text_of(faults_of(version)), "no fault")
        << version.slots << " slots, " << version.groups << " groups, " << version.producers << " producers";
  }
}

TEST(DecodeProtocol, ASlotBelongsToOneGroup) {
  EXPECT_FALSE(faults_of({.slots = 6, .groups = 2, .producers = 1}, 100).empty());
}

TEST(DecodeProtocol, NeedsEachArrivalAndBarrier) {
  for (const Version& version : kernels()) {
    Version wrong = version;
    wrong.free_arrivals -= 1;
    EXPECT_FALSE(faults_of(wrong, 100).empty()) << version.slots;
    wrong.free_arrivals += 2;
    EXPECT_FALSE(faults_of(wrong, 100).empty()) << version.slots;
    wrong = version;
    wrong.frees_early = true;
    EXPECT_FALSE(faults_of(wrong, 100).empty()) << version.slots;
    wrong = version;
    wrong.waits_for_sums = false;
    EXPECT_FALSE(faults_of(wrong, 100).empty()) << version.slots;
    wrong = version;
    wrong.waits_for_readers = false;
    EXPECT_FALSE(faults_of(wrong, 100).empty()) << version.slots;
  }
}

// --- the list of work

/// What becomes of a step's heads, each of so many tiles, when `groups` work-groups share them.
std::string shared_out(const std::vector<int>& heads, const DecodeSplit& split, int groups) {
  int total = 0;
  for (const int tiles : heads) {
    total += std::max(tiles, 1);
  }
  std::map<int, int> head_of_counter;
  int start = 0;
  for (int head = 0; head < static_cast<int>(heads.size()); ++head) {
    const int tiles = heads[static_cast<std::size_t>(head)];
    const int piece = split.piece(tiles);
    const int pieces = split.pieces(tiles);
    int counted = 0;
    int outputs = 0;
    for (int group = 0; group < groups; ++group) {
      DecodeShare share;
      share.set(total, static_cast<std::uint32_t>(group), groups);
      int last = -1;
      for (int i = 0; i < pieces; ++i) {
        const int at = start + i * piece;
        last = at >= share.begin && at < share.end ? i : last;
      }
      if (last < 0) {
        continue;
      }
      if (share.whole(start, pieces, piece)) {
        ++outputs;
        continue;
      }
      const int owner = share.owner(start);
      if (owner >= groups) {
        return "an owner that does not exist";
      }
      if (const auto [at, added] = head_of_counter.insert({owner, head}); !added && at->second != head) {
        return "two heads with one counter";
      }
      counted += last + 1 - share.first_piece(start, piece);
      outputs += counted == pieces ? 1 : 0;
    }
    if (outputs != 1) {
      return "an output that is written never or twice";
    }
    start += std::max(tiles, 1);
  }
  return "right";
}

TEST(DecodeProtocol, EachHeadIsWrittenOnceAndHasACounterOfItsOwn) {
  std::mt19937 random(1);
  for (int call = 0; call < 3000; ++call) {
    std::vector<int> heads;
    const int most = 1 << random() % 9;
    const int repeats = static_cast<int>(random() % 8) + 1;  // the heads of a sequence are alike
    for (int sequence = static_cast<int>(random() % 12); sequence >= 0; --sequence) {
      heads.insert(heads.end(), static_cast<std::size_t>(repeats), static_cast<int>(random()) % most & 511);
    }
    const DecodeSplit split{.whole = 4, .wanted = 8 + static_cast<int>(random() % 57), .least = 2, .most = 32, .limit = 128};
    ASSERT_EQ(shared_out(heads, split, static_cast<int>(random() % 160) + 1), "right") << "call " << call;
  }
}

TEST(DecodeProtocol, AWindowsGivenUpPagesHaveNoScales) {
  EXPECT_EQ(block_of_scales(-1), 0);  // and not memory in front of the cache
  EXPECT_EQ(block_of_scales(0), 0);
  EXPECT_EQ(block_of_scales(7), 7);
}

}  // namespace
}  // namespace rocmforge::hopper::decode_test
