// The pipeline of Hopper's prefill attention: a loader of q that takes tiles of q, a producer of K and V, and consumers
// (attention_prefill_load.h, attention_prefill.cu).

#include <gtest/gtest.h>

#include "kernels/attention/hopper/attention_prefill_pipeline.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::prefill {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::in_ring;
using protocol::Mbarrier;
using protocol::phase_of;
using protocol::Walk;

/// What a version of the kernel does; the default is the kernel.
struct Version {
  int q_stages;
  int consumers;
  int work_slots;
  int q_free_arrivals;
  bool producer_frees_q = false;  ///< the producer of K and V arrives at q_free too
  bool frees_q_early = false;     ///< with the first tile of keys in place of the last one
  bool frees_v_early = false;     ///< before its product has ended
};

Version kernel_of(const Variant& variant) {
  return {variant.q_stages, variant.consumers, variant.work_slots(), variant.q_free_arrivals()};
}

/// `tiles[w]`: tiles of keys of the w-th tile of q.
class Pipeline {
 public:
  Pipeline(Walk& walk, const Version& version, const std::vector<int>& tiles)
      : version_(version),
        tiles_(tiles),
        last_(static_cast<int>(tiles.size())),
        work_full_(walk.mbarriers("work_full", version.work_slots, Variant::work_full_arrivals)),
        q_full_(walk.mbarriers("q_full", version.q_stages, 1)),  // one loader stands for all
        q_free_(walk.mbarriers("q_free", version.q_stages, version.q_free_arrivals)),
        k_full_(walk.mbarriers("k_full", stages, Variant::kv_full_arrivals)),
        k_free_(walk.mbarriers("k_free", stages, version.consumers)),
        v_full_(walk.mbarriers("v_full", stages, Variant::kv_full_arrivals)),
        v_free_(walk.mbarriers("v_free", stages, version.consumers)),
        works_(walk.buffers("descriptor", version.work_slots)),
        q_(walk.buffers("q", version.q_stages)),
        k_(walk.buffers("K", stages)),
        v_(walk.buffers("V", stages)) {
    load_q(walk.actor("loader"));
    produce(walk.actor("producer"));
    for (int consumer = 0; consumer < version.consumers; ++consumer) {
      consume(walk.actor("consumer"));
    }
  }

 private:
  [[nodiscard]] int tiles(int work) const { return tiles_[static_cast<std::size_t>(work)]; }

  void load_q(Actor& loader) const {
    for (int work = 0; work <= last_; ++work) {
      loader.write(in_ring(works_, work), work).arrive(in_ring(work_full_, work));
      loader.wait(in_ring(q_free_, work), phase_of(q_free_, work) - 1);
      if (work < last_) {
        loader.write(in_ring(q_, work), work);
      }
      loader.arrive(in_ring(q_full_, work));
    }
  }

  void produce(Actor& producer) const {
    const auto copy = [&](const auto& ring, const auto& free, const auto& full, int tile) {
      producer.wait(in_ring(free, tile), phase_of(free, tile) - 1)
          .expect_and_arrive(in_ring(full, tile))
          .copy(in_ring(ring, tile), tile, in_ring(full, tile));
    };
    int tile = 0;
    for (int work = 0; work <= last_; ++work) {
      producer.wait(in_ring(work_full_, work), phase_of(work_full_, work)).read(in_ring(works_, work), work);
      if (version_.producer_frees_q) {
        producer.arrive(in_ring(q_free_, work));
      }
      for (int i = 0; work < last_ && i < tiles(work); ++i, ++tile) {
        copy(k_, k_free_, k_full_, tile);
        if (i > 0) {
          copy(v_, v_free_, v_full_, tile - 1);
        }
      }
      if (work < last_) {
        copy(v_, v_free_, v_full_, tile - 1);
      }
    }
  }

  void multiply_k(Actor& consumer, int work, int tile) const {
    consumer.wait(in_ring(k_full_, tile), phase_of(k_full_, tile));
    consumer.begin_read(in_ring(q_, work), work).begin_read(in_ring(k_, tile), tile);
  }
  void end_k(Actor& consumer, int work, int tile, bool last, bool first) const {
    if (first && version_.frees_q_early) {
      consumer.arrive(in_ring(q_free_, work));
    }
    consumer.end_read(in_ring(q_, work), work).end_read(in_ring(k_, tile), tile).arrive(in_ring(k_free_, tile));
    if (last && !version_.frees_q_early) {
      consumer.arrive(in_ring(q_free_, work));
    }
  }
  void multiply_v(Actor& consumer, int tile) const {
    consumer.wait(in_ring(v_full_, tile), phase_of(v_full_, tile)).begin_read(in_ring(v_, tile), tile);
    if (version_.frees_v_early) {
      consumer.arrive(in_ring(v_free_, tile));
    }
  }
  void end_v(Actor& consumer, int tile) const {
    consumer.end_read(in_ring(v_, tile), tile);
    if (!version_.frees_v_early) {
      consumer.arrive(in_ring(v_free_, tile));
    }
  }

  void consume(Actor& consumer) const {
    int tile = 0;
    for (int work = 0; work <= last_; ++work) {
      consumer.wait(in_ring(q_full_, work), phase_of(q_full_, work)).read(in_ring(works_, work), work);
      for (int i = 0; work < last_ && i < tiles(work); ++i, ++tile) {
        // Values of the tile before, which may be the last of the tile of q before.
        multiply_k(consumer, work, tile);
        if (tile > 0) {
          if (i == 0) {
            consumer.read(in_ring(works_, work - 1), work - 1);  // done().tile_end
          }
          multiply_v(consumer, tile - 1);
        }
        end_k(consumer, work, tile, i + 1 == tiles(work), i == 0);
        consumer.read(in_ring(works_, work), work);  // hide(), reset_rows()
        if (tile > 0) {
          end_v(consumer, tile - 1);
          if (i == 0) {
            consumer.read(in_ring(works_, work - 1), work - 1);  // store()
          }
        }
      }
    }
    if (tile > 0) {  // finish()
      multiply_v(consumer, tile - 1);
      end_v(consumer, tile - 1);
      consumer.read(in_ring(works_, last_ - 1), last_ - 1);
    }
  }

  const Version version_;
  const std::vector<int> tiles_;
  const int last_;  ///< the empty tile of q that ends the work
  const std::vector<Mbarrier*> work_full_, q_full_, q_free_, k_full_, k_free_, v_full_, v_free_;
  const std::vector<Buffer*> works_, q_, k_, v_;
};

/// None, short, long and mixed tiles of q.
const std::vector<std::vector<int>> works = {
    {}, {1}, std::vector<int>(9, 1), {1, 3, 1, 1, 2, 1}, std::vector<int>(7, 2), {1, 1, 2, 1, 1, 1, 4, 1}, {5, 1, 6}, {17}};

Faults faults_of(const Version& version) {
  return protocol::explore_all(200, works, [&](Walk& walk, const auto& tiles) { Pipeline(walk, version, tiles); });
}

TEST(PrefillProtocol, HasNoFault) {
  for (const Variant& variant : variants) {
    EXPECT_EQ(protocol::text_of(faults_of(kernel_of(variant))), "no fault") << "head_dim " << variant.padded;
  }
}

TEST(PrefillProtocol, AProducerThatFreesQTooEndsAPhaseEarly) {
  for (const Variant& variant : variants) {
    Version wrong = kernel_of(variant);
    wrong.producer_frees_q = true;
    wrong.q_free_arrivals += 1;
    EXPECT_FALSE(faults_of(wrong).empty()) << "head_dim " << variant.padded;
    wrong.work_slots += 2;
    EXPECT_FALSE(faults_of(wrong).empty()) << "head_dim " << variant.padded << ", more descriptors do not help";
  }
}

TEST(PrefillProtocol, NeedsEachDescriptor) {
  for (const Variant& variant : variants) {
    Version wrong = kernel_of(variant);
    wrong.work_slots -= 1;
    EXPECT_TRUE(faults_of(wrong).contains("descriptor: read with other contents than wanted"))
        << "head_dim " << variant.padded;
  }
}

TEST(PrefillProtocol, NeedsEachArrivalWhereItStands) {
  for (const Variant& variant : variants) {
    Version wrong = kernel_of(variant);
    wrong.frees_q_early = true;
    EXPECT_FALSE(faults_of(wrong).empty()) << "head_dim " << variant.padded;
    wrong = kernel_of(variant);
    wrong.frees_v_early = true;
    EXPECT_FALSE(faults_of(wrong).empty()) << "head_dim " << variant.padded;
    wrong = kernel_of(variant);
    wrong.q_free_arrivals -= 1;
    EXPECT_FALSE(faults_of(wrong).empty()) << "head_dim " << variant.padded;
  }
}

}  // namespace
}  // namespace rocmforge::hopper::prefill
