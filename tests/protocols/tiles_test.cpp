// Hopper's products with many tokens (matmul_tiles.h, also of experts): rings of boxes, of records and of scales, the lead
// of the first consumer of two, the staging of outputs.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::tiles_test {
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

struct Version {
  int boxes;
  int slots;
  int scales;
  int boxes_of_record;
  int consumers = tiles_consumers;  ///< four: matmul_high, without a lead; outputs are staged with a gate only
  bool gated = false;
  int blocks = 1;  ///< multiplied at a time
  int more_free_arrivals = 0;
  bool frees_box_early = false;  ///< before the products that read it have ended
  bool waits_for_boxes = true;
  bool stage_barrier = true;  ///< before the staged sums are read
  [[nodiscard]] int free_arrivals() const { return TilesShape{1, 16, consumers}.free_arrivals() + more_free_arrivals; }
  [[nodiscard]] bool has_lead() const { return consumers == tiles_consumers && !gated; }
};

/// `records` of each tile of a work-group.
class Tiles {
 public:
  Tiles(Walk& walk, const Version& version, const std::vector<int>& records)
      : version_(version),
        records_(records),
        x_full_(walk.mbarriers("x_full", version.boxes, TilesShape::full_arrivals)),
        x_free_(walk.mbarriers("x_free", version.boxes, version.free_arrivals())),
        weights_full_(walk.mbarriers("weights_full", version.slots, TilesShape::full_arrivals)),
        weights_free_(walk.mbarriers("weights_free", version.slots, version.free_arrivals())),
        x_(walk.buffers("box", version.boxes)),
        weights_(walk.buffers("record", version.slots)),
        scales_(walk.buffers("scales", version.scales)),
        stages_(walk.buffers("stage", version.consumers * warps)),
        lead_(walk.named_barrier(version.consumers * warps)) {
    produce_weights(walk.actor("producer of weights"));
    produce_boxes(walk.actor("producer of boxes"));
    for (int consumer = 0; consumer < version.consumers; ++consumer) {
      if (consumer % 2 == 0) {
        pairs_.push_back(&walk.named_barrier(2 * warps));
      }
      own_.push_back(&walk.named_barrier(warps));
      for (int own = 0; own < warps; ++own) {
        consume(walk.actor("consumer"), consumer, own);
      }
    }
  }

 private:
  void produce_weights(Actor& producer) const {
    int slot = 0;
    for (const int records : records_) {
      for (int record = 0; record < records; ++record, ++slot) {
        producer.wait(in_ring(weights_free_, slot), phase_of(weights_free_, slot) - 1)
            .expect_and_arrive(in_ring(weights_full_, slot))
            .copy(in_ring(weights_, slot), slot, in_ring(weights_full_, slot));
      }
    }
  }

  void produce_boxes(Actor& producer) const {
    int box = 0;
    for (int tile = 0; tile < static_cast<int>(records_.size()); ++tile) {
      const int boxes = records_[static_cast<std::size_t>(tile)] * version_.boxes_of_record;
      for (int i = 0; i < boxes; ++i, ++box) {
        producer.wait(in_ring(x_free_, box), phase_of(x_free_, box) - 1)
            .expect_and_arrive(in_ring(x_full_, box), i == 0 ? 2 : 1);
        if (i == 0) {
          producer.copy(in_ring(scales_, tile), tile, in_ring(x_full_, box));
        }
        producer.copy(in_ring(x_, box), box, in_ring(x_full_, box));
      }
    }
  }

  void free_box(Actor& warp, int box) const { warp.arrive(in_ring(x_free_, box)); }

  /// The four blocks of a group of two boxes, from `box` on; `read`: the box that products not yet ended read, or -1.
  void multiply(Actor& warp, int box, bool first, int& read) const {
    for (int s = 0; s < 4; s += version_.blocks) {
      const int at = box + s / 2;
      if (s % 2 == 0 && version_.waits_for_boxes) {
        warp.wait(in_ring(x_full_, at), phase_of(x_full_, at));
      }
      if (version_.frees_box_early && s % 2 == 0 && !(first && s < 2)) {
        free_box(warp, at - 1);
      }
      warp.begin_read(in_ring(x_, at), at);
      if (read >= 0) {
        warp.end_read(in_ring(x_, read), read);  // all products but the last have ended
      }
      read = at;
      if (!version_.frees_box_early && s % 2 == 0 && !(first && s < 2)) {
        free_box(warp, at - 1);
      }
    }
  }

  void store(Actor& warp, int tile, int consumer, int own) const {
    if (!version_.gated && version_.consumers == high_tile_consumers) {
      return;  // from registers
    }
    NamedBarrier& barrier =
        version_.gated ? *pairs_[static_cast<std::size_t>(consumer / 2)] : *own_[static_cast<std::size_t>(consumer)];
    const int readers = version_.gated ? 2 * warps : warps;
    const int first = (version_.gated ? consumer / 2 * 2 : consumer) * warps;
    for (int chunk = 0; chunk < 2; ++chunk) {
      warp.write(in_ring(stages_, consumer * warps + own), 2 * tile + chunk);
      if (version_.stage_barrier) {
        warp.sync(barrier);
      }
      warp.read(in_ring(scales_, tile), tile);
      warp.read_all({stages_.begin() + first, stages_.begin() + first + readers}, 2 * tile + chunk);
      warp.sync(barrier);
    }
  }

  void consume(Actor& warp, int consumer, int own) const {
    int box = 0;
    int slot = 0;
    bool begins = true;
    for (int tile = 0; tile < static_cast<int>(records_.size()); ++tile) {
      int read = -1;
      if (begins && consumer == 1 && version_.has_lead()) {
        warp.sync(lead_);
      }
      for (int record = 0; record < records_[static_cast<std::size_t>(tile)]; ++record, ++slot) {
        warp.wait(in_ring(weights_full_, slot), phase_of(weights_full_, slot));
        for (int i = 0; i < version_.boxes_of_record; i += 2, box += 2) {
          warp.read(in_ring(weights_, slot), slot);
          if (i + 2 == version_.boxes_of_record) {
            warp.arrive(in_ring(weights_free_, slot));
          }
          multiply(warp, box, record == 0 && i == 0, read);
          if (begins && consumer == 0 && version_.has_lead()) {
            warp.arrive(lead_);
          }
          begins = false;
        }
      }
      warp.end_read(in_ring(x_, read), read);
      free_box(warp, box - 1);
      store(warp, tile, consumer, own);
    }
  }

  const Version version_;
  const std::vector<int> records_;
  const std::vector<Mbarrier*> x_full_, x_free_, weights_full_, weights_free_;
  const std::vector<Buffer*> x_, weights_, scales_, stages_;
  NamedBarrier& lead_;
  std::vector<NamedBarrier*> pairs_, own_;
};

/// None, short, long and mixed tiles.
const std::vector<std::vector<int>> works = {{}, {1}, std::vector<int>(9, 1), {2, 2, 2}, {1, 3, 1, 1, 2}, {5, 1, 4}};

Faults faults_of(const Version& version, int walks, const std::vector<std::vector<int>>& of = works) {
  return protocol::explore_all(walks, of, [&](Walk& walk, const auto& records) { walk.make<Tiles>(version, records); });
}

/// The rings of all kernels.
std::vector<Version> kernels() {
  std::map<std::tuple<int, int, int, int, int>, Version> rings;
  for (const WeightFormat format : weight_formats) {
    for (const TilesShape& shape : tiles_shapes) {
      const TilesRings found = tiles_rings(shape, format);
      const int of_record = boxes_per_record(format);
      rings.insert({{found.boxes, found.slots, found.scales, of_record, shape.consumers},
                    {found.boxes, found.slots, found.scales, of_record, shape.consumers}});
    }
  }
  std::vector<Version> result;
  for (const auto& [key, version] : rings) {
    result.push_back(version);
  }
  return result;
}

TEST(TilesProtocol, HasNoFault) {
  EXPECT_GE(kernels().size(), 10u);
  for (Version version : kernels()) {
    for (const bool gated : {false, true}) {
      version.gated = gated;
      EXPECT_EQ(protocol::text_of(faults_of(version, 6)), "no fault")
          << version.boxes << " boxes, " << version.slots << " slots, " << version.scales << " scales, " << version.consumers
          << " consumers";
    }
    version.blocks = 2;
    EXPECT_EQ(protocol::text_of(faults_of(version, 3)), "no fault") << version.boxes << " boxes, two blocks at a time";
  }
}

TEST(TilesProtocol, NeedsTheScalesThatItAssertsOf) {
  const std::vector<std::vector<int>> shortest = {std::vector<int>(14, 1)};
  for (const int boxes : {4, 5, 9}) {
    Version version{
        .boxes = boxes, .slots = 8, .scales = tiles_scales_needed(boxes), .boxes_of_record = least_boxes_of_tile};
    EXPECT_EQ(protocol::text_of(faults_of(version, 40, shortest)), "no fault") << boxes;
    version.scales -= 1;
    const Faults faults = faults_of(version, 400, shortest);
    EXPECT_TRUE(std::ranges::any_of(faults, [](const std::string& fault) { return fault.starts_with("scales: "); }))
        << boxes << " boxes: " << protocol::text_of(faults);
  }
}

TEST(TilesProtocol, NeedsEachArrivalAndWait) {
  const Version right = kernels().front();
  const auto expect_fault = [](const Version& wrong) { EXPECT_FALSE(faults_of(wrong, 60).empty()); };
  for (const int more : {-1, 1}) {
    Version wrong = right;
    wrong.more_free_arrivals = more;
    expect_fault(wrong);
  }
  Version wrong = right;
  wrong.frees_box_early = true;
  expect_fault(wrong);
  wrong = right;
  wrong.waits_for_boxes = false;
  expect_fault(wrong);
  for (const bool gated : {false, true}) {
    wrong = right;
    wrong.gated = gated;
    wrong.stage_barrier = false;
    expect_fault(wrong);
  }
}

}  // namespace
}  // namespace rocmforge::hopper::tiles_test
