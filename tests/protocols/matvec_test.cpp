// The frame of Hopper's kernels for few tokens (matvec_roles.h: matvec_packed, matvec_half, experts_vectors): the warp that
// fetches steps, those that multiply, the one that writes; early weights, the choice of experts, the image of activations.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/matmul/hopper/matmul_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::matvec_test {
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
  bool has_image = false;
  int early = 1 << 20;  ///< items whose weights may be fetched before the predecessor has ended
  int slot_free_arrivals = MatvecArrivals::slot_free;
  int complete_arrivals = MatvecArrivals::sums_complete;
  bool frees_sums_early = false;  ///< the writer, before it has read them
  bool waits_for_sums = true;     ///< the multipliers, until a half is free
  bool first_decides = false;     ///< a slot is early where its first item is, not its last
};

/// A work-group's tiles.
struct Work {
  int steps;
  int items;
};

class Matvec {
 public:
  Matvec(Walk& walk, const Version& version, const Work& work)
      : version_(version),
        work_(work),
        full_(walk.mbarriers("filled", version.slots, MatvecArrivals::slot_full)),
        free_(walk.mbarriers("free", version.slots, version.slot_free_arrivals)),
        complete_(walk.mbarriers("sums complete", matvec_halves, version.complete_arrivals)),
        sums_free_(walk.mbarriers("sums free", matvec_halves, MatvecArrivals::sums_free)),
        image_full_(walk.mbarrier("image", MatvecArrivals::image)),
        ring_(walk.buffers("step", version.slots * matvec_slot_steps)),
        sums_(walk.buffers("sums", matvec_halves * matvec_chunk * matvec_warps)),
        choice_(walk.buffer("choice")),
        image_(walk.buffer("image")),
        everyone_(walk.named_barrier(matvec_all_threads / 32)) {
    fetch(walk.actor("fetcher"));
    write(walk.actor("writer"));
    for (int own = 0; own < matvec_warps; ++own) {
      multiply(walk.actor("multiplier"), own);
    }
  }

 private:
  [[nodiscard]] int all_steps() const { return work_.items * work_.steps; }
  [[nodiscard]] int fills() const { return (all_steps() + matvec_slot_steps - 1) / matvec_slot_steps; }
  [[nodiscard]] Buffer& sum(int item, int part) const {
    return *sums_[static_cast<std::size_t>(item % (matvec_halves * matvec_chunk) * matvec_warps + part)];
  }

  void fill(Actor& fetcher, int number) const {
    Mbarrier& full = in_ring(full_, number);
    for (int at = number * matvec_slot_steps; at < std::min((number + 1) * matvec_slot_steps, all_steps()); ++at) {
      if (at / work_.steps >= version_.early) {
        fetcher.read(choice_, 1);
      }
      fetcher.act([&full] { full.expect(1); }).copy(in_ring(ring_, at), at, full);
    }
    fetcher.arrive(full);
  }

  void fetch(Actor& fetcher) const {
    int filled = 0;
    for (; filled < std::min(version_.slots, fills()); ++filled) {
      const int step = filled * matvec_slot_steps % work_.steps;
      const int item = filled * matvec_slot_steps / work_.steps;
      const int last = std::min(item + (step + matvec_slot_steps - 1) / work_.steps, work_.items - 1);
      if ((version_.first_decides ? item : last) >= version_.early) {
        break;
      }
      fill(fetcher, filled);
    }
    fetcher.write(choice_, 1);  // the predecessor has ended
    for (; filled < std::min(version_.slots, fills()); ++filled) {
      fill(fetcher, filled);
    }
    if (version_.has_image) {
      Mbarrier& full = image_full_;
      fetcher.act([&full] { full.expect(1); }).copy(image_, 1, full).arrive(full);
    }
    fetcher.sync(everyone_);
    for (; filled < fills(); ++filled) {
      fetcher.wait(in_ring(free_, filled), phase_of(free_, filled) - 1);
      fill(fetcher, filled);
    }
  }

  void multiply(Actor& warp, int own) const {
    warp.write(sum(0, own), -2);  // scratch of the post-norm
    warp.sync(everyone_);
    if (version_.has_image) {
      warp.wait(image_full_, 0).read(image_, 1);
    }
    int first = own;
    int slot = 0;
    for (int item = 0; item < work_.items; ++item) {
      const int half = item / matvec_chunk;
      if (item % matvec_chunk == 0 && version_.waits_for_sums) {
        warp.wait(in_ring(sums_free_, half), phase_of(sums_free_, half) - 1);
      }
      if (first < work_.steps) {
        for (int step = first; step < work_.steps; step += matvec_warps, ++slot) {
          const int at = item * work_.steps + step;
          warp.wait(in_ring(full_, slot), phase_of(full_, slot)).read(in_ring(ring_, slot * matvec_slot_steps + own), at);
          warp.arrive(in_ring(free_, slot));
        }
        warp.write(sum(item, first), item);
      }
      first = next_first(first, work_.steps);
      if (item % matvec_chunk == matvec_chunk - 1 || item == work_.items - 1) {
        warp.arrive(in_ring(complete_, half));
      }
    }
  }

  void write(Actor& writer) const {
    writer.sync(everyone_);
    if (version_.early < work_.items) {
      writer.read(choice_, 1);
    }
    for (int half = 0; half * matvec_chunk < work_.items; ++half) {
      writer.wait(in_ring(complete_, half), phase_of(complete_, half));
      if (version_.frees_sums_early) {
        writer.arrive(in_ring(sums_free_, half));
      }
      for (int item = half * matvec_chunk; item < std::min((half + 1) * matvec_chunk, work_.items); ++item) {
        for (int part = 0; part < std::min(work_.steps, matvec_warps); ++part) {
          writer.read(sum(item, part), item);
        }
      }
      if (!version_.frees_sums_early) {
        writer.arrive(in_ring(sums_free_, half));
      }
    }
  }

  const Version version_;
  const Work work_;
  const std::vector<Mbarrier*> full_, free_, complete_, sums_free_;
  Mbarrier& image_full_;
  const std::vector<Buffer*> ring_, sums_;
  Buffer& choice_;
  Buffer& image_;
  NamedBarrier& everyone_;
};

std::vector<Work> works() {
  std::vector<Work> result;
  for (const int steps : {1, 2, 3, 7, 8, 9, 16, 20}) {
    for (const int items : {0, 1, 2, 3, 5, 11}) {
      result.push_back({steps, items});
    }
  }
  return result;
}

Faults faults_of(const Version& version, const std::vector<Work>& of, int walks) {
  return protocol::explore_all(walks, of, [&](Walk& walk, const Work& work) { walk.make<Matvec>(version, work); });
}

TEST(MatvecProtocol, HasNoFault) {
  for (const int slots : {1, 2, 3, 8}) {
    EXPECT_EQ(protocol::text_of(faults_of({.slots = slots}, works(), 4)), "no fault") << slots << " slots";
  }
  EXPECT_EQ(protocol::text_of(faults_of({.slots = 3, .has_image = true}, works(), 3)), "no fault");
  for (const int early : {0, 1, 2}) {
    EXPECT_EQ(protocol::text_of(faults_of({.slots = 3, .early = early}, works(), 3)), "no fault") << early << " early items";
  }
}

TEST(MatvecProtocol, NeedsEachArrivalAndWait) {
  const std::vector<Work> some = {{5, 9}, {8, 12}, {3, 9}};
  EXPECT_FALSE(faults_of({.slots = 3, .slot_free_arrivals = MatvecArrivals::slot_free - 1}, some, 60).empty());
  EXPECT_FALSE(faults_of({.slots = 3, .slot_free_arrivals = MatvecArrivals::slot_free + 1}, some, 60).empty());
  EXPECT_FALSE(faults_of({.slots = 3, .complete_arrivals = MatvecArrivals::sums_complete - 1}, some, 60).empty());
  EXPECT_FALSE(faults_of({.slots = 3, .frees_sums_early = true}, some, 60).empty());
  EXPECT_FALSE(faults_of({.slots = 3, .waits_for_sums = false}, some, 60).empty());
  EXPECT_FALSE(faults_of({.slots = 3, .early = 1, .first_decides = true}, {{3, 9}}, 60).empty());
}

}  // namespace
}  // namespace rocmforge::hopper::matvec_test
