// Clusters of Hopper: route.cu, whose work-groups write logits to each other's shared memory, and matmul_cluster.cu, whose
// work-groups read each other's sums. A work-group's shared memory exists from its start to its end.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/experts/hopper/route_args.h"
#include "kernels/matmul/hopper/matmul_cluster_args.h"
#include "protocols/protocol.h"

namespace rocmforge::hopper::cluster_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::in_ring;
using protocol::Mbarrier;
using protocol::NamedBarrier;
using protocol::Walk;

/// The two halves of a barrier of a cluster: others may go on between them.
class ClusterBarrier {
 public:
  explicit ClusterBarrier(NamedBarrier& barrier) : barrier_(barrier) {}
  void arrive(Actor& actor) { actor.arrive(barrier_); }
  /// For the `number`-th use of the barrier.
  void wait(Actor& actor, int number) {
    actor.wait_until([&barrier = barrier_, number] { return barrier.generation() > number; });
  }

 private:
  NamedBarrier& barrier_;
};

/// The shared memory of a work-group, which comes with its first warp (the hardware starts all at once) and goes with its
/// last one.
class Life {
 public:
  Life(std::vector<Buffer*> memory, int warps) : memory_(std::move(memory)), warps_(warps) { set(false); }
  void begin(Actor& actor) {
    actor.act([this] {
      if (!begun_) {
        begun_ = true;
        set(true);
      }
    });
  }
  void end(Actor& actor) {
    actor.act([this] {
      if (--warps_ == 0) {
        set(false);
      }
    });
  }

 private:
  void set(bool exists) {
    for (Buffer* buffer : memory_) {
      buffer->set_exists(exists);
    }
  }
  std::vector<Buffer*> memory_;
  int warps_;
  bool begun_ = false;
};

// --- the router

struct RouteVersion {
  int tokens = 1;  ///< of the cluster
  int held = 2;    ///< rows of the router in shared memory
  bool waits_for_start = true;
  bool waits_for_logits = true;
  bool waits_for_held = true;
  int held_arrivals = route_held_arrivals;
};

constexpr int warps = 4;  ///< of a work-group, in place of route_rows_warps
static_assert(route_rows_warps > warps && route_many_tokens <= route_ranks);

class Route {
 public:
  Route(Walk& walk, const RouteVersion& version) : version_(version), cluster_(walk.named_barrier(route_ranks * warps)) {
    for (int rank = 0; rank < route_ranks; ++rank) {
      logits_.push_back(walk.buffers("logits", route_ranks));  // from each work-group
      sums_.push_back(walk.buffers("sums", warps));
      held_.push_back(&walk.buffer("held rows"));
      full_.push_back(&walk.mbarrier("held", version.held_arrivals));
      own_.push_back(&walk.named_barrier(warps));
      std::vector<Buffer*> memory = logits_.back();
      memory.insert(memory.end(), sums_.back().begin(), sums_.back().end());
      memory.push_back(held_.back());
      lives_.push_back(std::make_unique<Life>(memory, warps));
    }
    for (int rank = 0; rank < route_ranks; ++rank) {
      for (int warp = 0; warp < warps; ++warp) {
        run(walk.actor("warp"), rank, warp);
      }
    }
  }

 private:
  void run(Actor& warp, int rank, int own) {
    const auto r = static_cast<std::size_t>(rank);
    lives_[r]->begin(warp);
    cluster_.arrive(warp);
    if (own == 0 && version_.held > 0) {
      warp.expect_and_arrive(*full_[r], 1).copy(*held_[r], 1, *full_[r]);
    }
    warp.sync(*own_[r]);  // the sums of squares
    if (own < version_.held) {
      if (version_.waits_for_held) {
        warp.wait(*full_[r], 0);
      }
      warp.read(*held_[r], 1);
    }
    warp.write(*sums_[r][static_cast<std::size_t>(own)], 1).sync(*own_[r]);
    if (version_.waits_for_start) {
      cluster_.wait(warp, 0);
    }
    if (own == 0) {
      warp.read_all(sums_[r], 1);
      for (int token = 0; token < version_.tokens; ++token) {
        warp.write(*logits_[static_cast<std::size_t>(token)][r], token);
      }
    }
    if (version_.waits_for_logits) {
      cluster_.arrive(warp);
      cluster_.wait(warp, version_.waits_for_start ? 1 : 0);
    }
    if (rank < version_.tokens && own == 0) {
      warp.read_all(logits_[r], rank);
    }
    lives_[r]->end(warp);
  }

  const RouteVersion version_;
  ClusterBarrier cluster_;
  std::vector<std::vector<Buffer*>> logits_, sums_;
  std::vector<Buffer*> held_;
  std::vector<Mbarrier*> full_;
  std::vector<NamedBarrier*> own_;
  std::vector<std::unique_ptr<Life>> lives_;
};

Faults faults_of(const RouteVersion& version, int walks) {
  return protocol::explore(walks, [&](Walk& walk) { walk.make<Route>(version); });
}

TEST(RouteProtocol, HasNoFault) {
  for (const int tokens : {1, 3, route_many_tokens}) {
    for (const int held : {0, 2}) {
      EXPECT_EQ(protocol::text_of(faults_of({.tokens = tokens, .held = held}, 60)), "no fault") << tokens << " tokens";
    }
  }
}

TEST(RouteProtocol, NeedsEachBarrier) {
  EXPECT_FALSE(faults_of({.waits_for_start = false}, 100).empty());
  EXPECT_FALSE(faults_of({.waits_for_logits = false}, 100).empty());
  EXPECT_FALSE(faults_of({.waits_for_held = false}, 100).empty());
  EXPECT_FALSE(faults_of({.held_arrivals = route_held_arrivals + 1}, 1).empty());
}

// --- products of a cluster

struct ProductVersion {
  int ranks;
  int missing_rows = 0;  ///< warps without rows
  int weights_arrivals = cluster_weights_arrivals;
  bool waits_for_sums = true;
  bool waits_for_readers = true;
  bool own_barrier = true;  ///< before sums overwrite the activations
};

class Product {
 public:
  Product(Walk& walk, const ProductVersion& version)
      : version_(version), cluster_(walk.named_barrier(version.ranks * cluster_warps)) {
    for (int rank = 0; rank < version.ranks; ++rank) {
      shared_.push_back(walk.buffers("activations and sums", cluster_warps));
      weights_.push_back(walk.buffers("weights", cluster_warps));
      full_.push_back(&walk.mbarrier("weights", version.weights_arrivals));
      own_.push_back(&walk.named_barrier(cluster_warps));
      std::vector<Buffer*> memory = shared_.back();
      memory.insert(memory.end(), weights_.back().begin(), weights_.back().end());
      lives_.push_back(std::make_unique<Life>(memory, cluster_warps));
    }
    for (int rank = 0; rank < version.ranks; ++rank) {
      for (int warp = 0; warp < cluster_warps; ++warp) {
        run(walk.actor("warp"), rank, warp);
      }
    }
  }

 private:
  void run(Actor& warp, int rank, int own) {
    const auto r = static_cast<std::size_t>(rank);
    lives_[r]->begin(warp);
    if (own == 0) {
      for (int of = 0; of < cluster_warps; ++of) {
        if (of < cluster_warps - version_.missing_rows) {
          warp.expect_and_arrive(*full_[r]).copy(in_ring(weights_[r], of), 1, *full_[r]);
        } else {
          warp.arrive(*full_[r]);
        }
      }
    }
    warp.write(in_ring(shared_[r], own), 1).sync(*own_[r]).wait(*full_[r], 0);
    if (own < cluster_warps - version_.missing_rows) {
      warp.read(in_ring(weights_[r], own), 1);
    }
    warp.read_all(shared_[r], 1);
    if (version_.own_barrier) {
      warp.sync(*own_[r]);
    }
    warp.write(in_ring(shared_[r], own), 2);
    int number = 0;
    if (version_.waits_for_sums) {
      cluster_.arrive(warp);
      cluster_.wait(warp, number++);
    }
    for (int of = 0; of < version_.ranks; ++of) {
      warp.read_all(shared_[static_cast<std::size_t>(of)], 2);
    }
    if (version_.waits_for_readers) {
      cluster_.arrive(warp);
      cluster_.wait(warp, number);
    }
    lives_[r]->end(warp);
  }

  const ProductVersion version_;
  ClusterBarrier cluster_;
  std::vector<std::vector<Buffer*>> shared_, weights_;
  std::vector<Mbarrier*> full_;
  std::vector<NamedBarrier*> own_;
  std::vector<std::unique_ptr<Life>> lives_;
};

Faults faults_of(const ProductVersion& version, int walks) {
  return protocol::explore(walks, [&](Walk& walk) { walk.make<Product>(version); });
}

TEST(ClusterProtocol, HasNoFault) {
  for (const int ranks : {1, 2, 3, most_cluster_ranks}) {
    for (const int missing : {0, 3}) {
      EXPECT_EQ(protocol::text_of(faults_of({.ranks = ranks, .missing_rows = missing}, 40)), "no fault") << ranks;
    }
  }
}

TEST(ClusterProtocol, NeedsEachBarrier) {
  for (const int ranks : {2, most_cluster_ranks}) {
    EXPECT_FALSE(faults_of({.ranks = ranks, .waits_for_sums = false}, 60).empty());
    EXPECT_FALSE(faults_of({.ranks = ranks, .waits_for_readers = false}, 60).empty());
    EXPECT_FALSE(faults_of({.ranks = ranks, .own_barrier = false}, 60).empty());
    EXPECT_FALSE(faults_of({.ranks = ranks, .weights_arrivals = cluster_weights_arrivals - 1}, 60).empty());
  }
}

}  // namespace
}  // namespace rocmforge::hopper::cluster_test
