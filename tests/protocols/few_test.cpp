// Hopper's products with few tokens (matmul_few.h): spans, rings of weights, a segment's activations, and the counting of
// segments in device memory by a warp of its own. All work-groups of a launch run together.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::few_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::in_ring;
using protocol::Mbarrier;
using protocol::NamedBarrier;
using protocol::phase_of;
using protocol::Walk;

constexpr int warps = warps_of_consumer;
constexpr int boxes = 4;            ///< of a segment, in place of sixteen
constexpr int boxes_of_record = 2;  ///< a segment has two records, the last one perhaps one
constexpr int no_tile = -1;

/// What a version of the kernel does; the default is the kernel.
struct Version {
  int consumers;
  int slots;
  bool waits_at_span_end = true;  ///< each warp for all boxes
  bool arrives_for_empty_boxes = true;
  bool counts_only_with_work = true;  ///< the counting warp of a work-group without tiles ends at once
  bool zeroes_counters = true;
  int stored_arrivals = TilesShape::stored_arrivals;
  int x_free_missing = 0;
};

/// A launch.
struct Call {
  int token_tiles;
  int segments;
  int row_tiles;
  int groups;
  bool short_last = false;
};

MatmulTilesArgs args_of(const Call& call) {
  MatmulTilesArgs args{};
  args.token_tiles = call.token_tiles;
  args.segments = call.segments;
  args.row_tiles = call.row_tiles;
  args.segment_records = boxes / boxes_of_record;
  args.records = call.segments * args.segment_records - (call.short_last ? 1 : 0);
  return args;
}

/// Device memory: sums of segments, counters, outputs.
struct Memory {
  std::map<std::pair<int, int>, std::vector<Buffer*>> partials;  ///< of a tile and segment, by warp
  std::map<int, int> arrivals;
  std::map<int, int> stored;
};

class Group {
 public:
  Group(Walk& walk, const Version& version, const MatmulTilesArgs& args, Memory& memory, int group, int groups)
      : version_(version),
        args_(args),
        memory_(memory),
        x_full_(walk.mbarriers("x_full", boxes, TilesShape::full_arrivals)),
        x_free_(walk.mbarrier("x_free", TilesShape{1, 16, version.consumers}.free_arrivals() - version.x_free_missing)),
        x_(walk.buffers("box", boxes)),
        stored_tile_(walk.buffers("stored_tile", version.consumers)),
        whole_(walk.buffers("whole", version.consumers)),
        last_whole_(walk.buffers("last_whole", version.consumers)),
        own_(static_cast<std::size_t>(version.consumers)) {
    for (FewSpans spans(args, static_cast<unsigned>(group), static_cast<unsigned>(groups)); spans.any();) {
      spans_.push_back(spans.next(args));
    }
    for (int c = 0; c < version.consumers; ++c) {
      Own& own = own_[static_cast<std::size_t>(c)];
      own.full = walk.mbarriers("weights_full", version.slots, TilesShape::full_arrivals);
      own.free = walk.mbarriers("weights_free", version.slots, TilesShape::own_free_arrivals);
      own.ring = walk.buffers("record", version.slots);
      own.stored = &walk.mbarrier("stored", version.stored_arrivals);
      own.told = &walk.mbarrier("told", TilesShape::told_arrivals);
      own.barrier = &walk.named_barrier(warps);
    }
    for (int c = 0; c < version.consumers; ++c) {
      produce(walk.actor("producer"), c);
      for (int warp = 0; warp < warps; ++warp) {
        consume(walk.actor("consumer"), c, warp);
      }
    }
    const bool counts = args.segments > 1 && (!spans_.empty() || !version.counts_only_with_work);
    for (Own& own : own_) {
      own.more = counts;
    }
    if (counts) {
      walk.actor("counter").then([this](Actor& counter) { count(counter); });
    }
  }

 private:
  /// What belongs to one consumer.
  struct Own {
    std::vector<Mbarrier*> full, free;
    std::vector<Buffer*> ring;
    Mbarrier* stored = nullptr;
    Mbarrier* told = nullptr;
    NamedBarrier* barrier = nullptr;
    int tile = no_tile;            ///< in stored_tile
    std::map<int, bool> answers;   ///< in whole, by number
    std::map<int, bool> own_last;  ///< in last_whole, by tile
    bool more = false;             ///< the counting warp waits for a tile
    int number = 0;                ///< of that wait
  };

  void produce(Actor& producer, int c) const {
    const Own& own = own_[static_cast<std::size_t>(c)];
    int slot = 0;
    for (int run = 0; run < static_cast<int>(spans_.size()); ++run) {
      const FewSpan& span = spans_[static_cast<std::size_t>(run)];
      const int records = span.end_record - span.first_record;
      if (c == 0) {
        if (run > 0) {
          producer.wait(x_free_, run - 1);
        }
        for (int box = 0; box < boxes; ++box) {
          if (box < records * boxes_of_record) {
            producer.expect_and_arrive(in_ring(x_full_, box)).copy(in_ring(x_, box), run, in_ring(x_full_, box));
          } else if (version_.arrives_for_empty_boxes) {
            producer.arrive(in_ring(x_full_, box));
          }
        }
      }
      for (int row = span.begin + c; row < span.end; row += version_.consumers) {
        for (int record = 0; record < records; ++record, ++slot) {
          producer.wait(in_ring(own.free, slot), phase_of(own.free, slot) - 1)
              .expect_and_arrive(in_ring(own.full, slot))
              .copy(in_ring(own.ring, slot), slot, in_ring(own.full, slot));
        }
      }
    }
  }

  [[nodiscard]] bool count_segment(int tile) const {
    const bool whole = ++memory_.arrivals[tile] == args_.segments;
    if (whole && version_.zeroes_counters) {
      memory_.arrivals[tile] = 0;
    }
    return whole;
  }

  /// One round of the counting warp, and what follows it.
  void count(Actor& counter) {
    const auto more = [this] { return std::ranges::any_of(own_, [](const Own& own) { return own.more; }); };
    if (!more()) {
      return;
    }
    counter.wait_until([this] {
      return std::ranges::any_of(own_, [](const Own& own) { return own.more && own.stored->lets_through(own.number); });
    });
    counter.then([this](Actor& next) {
      for (int c = 0; c < version_.consumers; ++c) {
        Own& own = own_[static_cast<std::size_t>(c)];
        if (!own.more || !own.stored->lets_through(own.number)) {
          continue;
        }
        const int number = own.number++;
        next.read(in_ring(stored_tile_, c), number);
        own.more = own.tile != no_tile;
        if (own.more) {
          next.act([this, &own, number] { own.answers[number] = count_segment(own.tile); });
          next.write(in_ring(whole_, c), number).arrive(*own.told);
        }
      }
      next.then([this](Actor& following) { count(following); });
    });
  }

  /// A consumer's warp: its place in the rings, and the tile that is pending.
  struct Place {
    int slot = 0;
    int passes = 0;
    int tells = 0;
    int pending = no_tile;
  };

  void multiply(Actor& warp, int c, int run, bool fresh, Place& place) const {
    const Own& own = own_[static_cast<std::size_t>(c)];
    const FewSpan& span = spans_[static_cast<std::size_t>(run)];
    const int used = (span.end_record - span.first_record) * boxes_of_record;
    for (int box = 0; box < used; ++box) {
      if (box % boxes_of_record == 0) {
        const int slot = place.slot++;
        warp.wait(in_ring(own.full, slot), phase_of(own.full, slot));
        warp.read(in_ring(own.ring, slot), slot).arrive(in_ring(own.free, slot));
      }
      if (fresh) {
        warp.wait(in_ring(x_full_, box), run);
      }
      warp.begin_read(in_ring(x_, box), run);
    }
    for (int box = 0; box < used; ++box) {
      warp.end_read(in_ring(x_, box), run);
    }
  }

  void store(Actor& warp, int tile, int own_warp) const {
    if (args_.segments > 1) {
      for (int segment = 0; segment < args_.segments; ++segment) {
        warp.read(*memory_.partials[{tile, segment}][static_cast<std::size_t>(own_warp)], tile);
      }
    }
    if (own_warp == 0) {
      warp.act([this, tile] { ++memory_.stored[tile]; });
    }
  }

  void pass_on(Actor& warp, int c, int own_warp, int next, Place& place) {
    Own& own = own_[static_cast<std::size_t>(c)];
    const int pending = place.pending;
    const int answer = place.tells;
    if (pending != no_tile) {
      warp.wait(*own.told, answer).read(in_ring(whole_, c), answer);
      ++place.tells;
    }
    const int pass = place.passes++;
    if (own_warp == 0) {
      warp.act([&own, next] { own.tile = next; }).write(in_ring(stored_tile_, c), pass);
    }
    warp.arrive(*own.stored);
    if (pending != no_tile) {
      warp.then([this, &own, pending, answer, own_warp](Actor& then) {
        if (own.answers[answer]) {
          store(then, pending, own_warp);
        }
      });
    }
    place.pending = next;
  }

  void count_last(Actor& warp, int c, int own_warp, int tile) {
    Own& own = own_[static_cast<std::size_t>(c)];
    warp.sync(*own.barrier);
    if (own_warp == 0) {
      warp.act([this, &own, tile] { own.own_last[tile] = count_segment(tile); }).write(in_ring(last_whole_, c), tile);
    }
    warp.sync(*own.barrier).read(in_ring(last_whole_, c), tile);
    warp.then([this, &own, tile, own_warp](Actor& then) {
      if (own.own_last[tile]) {
        store(then, tile, own_warp);
      }
    });
  }

  void finish(Actor& warp, int c, int own_warp, const FewSpan& span, int row, Place& place) {
    const bool more = row < span.end;
    const int tile = more ? span.token_tile * args_.row_tiles + row : no_tile;
    if (args_.segments == 1) {
      if (more) {
        store(warp, tile, own_warp);
      }
      return;
    }
    if (more) {
      warp.write(*memory_.partials[{tile, span.segment}][static_cast<std::size_t>(own_warp)], tile);
    }
    if (more && span.last && row + version_.consumers >= span.end) {
      count_last(warp, c, own_warp, tile);
    } else {
      pass_on(warp, c, own_warp, tile, place);
    }
  }

  void consume(Actor& warp, int c, int own_warp) {
    Place place;
    for (int run = 0; run < static_cast<int>(spans_.size()); ++run) {
      const FewSpan& span = spans_[static_cast<std::size_t>(run)];
      bool fresh = true;
      const int end = span.last ? span.end + version_.consumers : span.end;
      for (int row = span.begin + c; row < end; row += version_.consumers) {
        if (row < span.end) {
          multiply(warp, c, run, fresh, place);
          fresh = false;
        }
        finish(warp, c, own_warp, span, row, place);
      }
      if (version_.waits_at_span_end) {
        for (int box = 0; box < boxes; ++box) {
          warp.wait(in_ring(x_full_, box), run);
        }
      }
      warp.arrive(x_free_);
    }
  }

  const Version version_;
  const MatmulTilesArgs args_;
  Memory& memory_;
  std::vector<FewSpan> spans_;
  const std::vector<Mbarrier*> x_full_;
  Mbarrier& x_free_;
  const std::vector<Buffer*> x_, stored_tile_, whole_, last_whole_;
  std::vector<Own> own_;
};

class Launch {
 public:
  Launch(Walk& walk, const Version& version, const Call& call) {
    const MatmulTilesArgs args = args_of(call);
    const int tiles = call.token_tiles * call.row_tiles;
    for (int tile = 0; tile < tiles; ++tile) {
      for (int segment = 0; segment < call.segments; ++segment) {
        memory_.partials[{tile, segment}] = walk.buffers("partial sums", warps);
      }
    }
    for (int group = 0; group < call.groups; ++group) {
      groups_.push_back(std::make_unique<Group>(walk, version, args, memory_, group, call.groups));
    }
    walk.at_end([this, tiles](Faults& faults) {
      for (int tile = 0; tile < tiles; ++tile) {
        if (memory_.stored[tile] != 1) {
          faults.insert("an output is stored never or twice");
        }
        if (memory_.arrivals[tile] != 0) {
          faults.insert("a counter is left over");
        }
      }
    });
  }

 private:
  Memory memory_;
  std::vector<std::unique_ptr<Group>> groups_;
};

/// One tile to several of tokens, of segments and of work-groups. Spans of fewer tiles than consumers among them.
const std::vector<Call> calls = {{1, 1, 1, 1},       {1, 1, 7, 2}, {1, 2, 1, 2},  {1, 3, 1, 1, true}, {1, 3, 2, 5},
                                 {2, 3, 4, 3, true}, {1, 2, 9, 4}, {3, 2, 2, 12}, {8, 2, 1, 3, true}};

Faults faults_of(const Version& version, int walks, const std::vector<Call>& of = calls) {
  return protocol::explore_all(walks, of, [&](Walk& walk, const Call& call) { walk.make<Launch>(version, call); });
}

/// Consumers and slots of all kernels.
std::set<std::pair<int, int>> kernels() {
  std::set<std::pair<int, int>> result;
  for (const WeightFormat format : weight_formats) {
    for (const int tokens : {16, 32, 64}) {
      for (const bool gated : {false, true}) {
        if (!gated || tokens <= most_gated_few_tokens(format)) {
          const TilesShape shape = few_shape(tokens, gated);
          result.insert({shape.consumers, few_rings(shape, format).slots});
        }
      }
    }
  }
  return result;
}

TEST(FewProtocol, HasNoFault) {
  EXPECT_GE(kernels().size(), 5u);
  for (const auto& [consumers, slots] : kernels()) {
    EXPECT_GE(slots, 2);
    EXPECT_EQ(protocol::text_of(faults_of({.consumers = consumers, .slots = slots}, 6)), "no fault")
        << consumers << " consumers, " << slots << " slots";
  }
}

TEST(FewProtocol, AWorkGroupWithoutATileDoesNotCount) {
  const std::vector<Call> more_groups_than_tiles = {{1, 2, 1, 3}, {1, 3, 1, 5}};
  EXPECT_EQ(protocol::text_of(faults_of({.consumers = 3, .slots = 2}, 20, more_groups_than_tiles)), "no fault");
  EXPECT_TRUE(faults_of({.consumers = 3, .slots = 2, .counts_only_with_work = false}, 1, more_groups_than_tiles)
                  .contains("nobody can go on: counter "));
}

TEST(FewProtocol, NeedsEachArrivalAndWait) {
  EXPECT_FALSE(faults_of({.consumers = 3, .slots = 2, .waits_at_span_end = false}, 100).empty());
  EXPECT_FALSE(faults_of({.consumers = 3, .slots = 2, .arrives_for_empty_boxes = false}, 20).empty());
  EXPECT_FALSE(faults_of({.consumers = 3, .slots = 2, .zeroes_counters = false}, 5).empty());
  EXPECT_FALSE(faults_of({.consumers = 3, .slots = 2, .stored_arrivals = TilesShape::stored_arrivals - 1}, 60).empty());
  EXPECT_FALSE(faults_of({.consumers = 3, .slots = 2, .x_free_missing = 1}, 60).empty());
}

TEST(FewProtocol, SpansTakeEachTileOnce) {
  for (const Call& call : calls) {
    const MatmulTilesArgs args = args_of(call);
    std::set<std::tuple<int, int, int>> taken;
    for (int group = 0; group < call.groups; ++group) {
      for (FewSpans spans(args, static_cast<unsigned>(group), static_cast<unsigned>(call.groups)); spans.any();) {
        const FewSpan span = spans.next(args);
        EXPECT_LT(span.first_record, span.end_record);
        EXPECT_EQ(span.last, !spans.any());
        for (int row = span.begin; row < span.end; ++row) {
          EXPECT_TRUE(taken.insert({span.token_tile, span.segment, row}).second);
        }
      }
    }
    EXPECT_EQ(taken.size(), static_cast<std::size_t>(call.token_tiles * call.segments * call.row_tiles));
  }
}

}  // namespace
}  // namespace rocmforge::hopper::few_test
