// Kernels that start before their predecessors have ended (tile/launch_order.h, device/stream.cpp): what each reads before
// it waits, and who may still write that. A step is a copy of its arrays and then kernels; steps follow each other on one
// stream. A kernel's stores become visible at any time until it is complete, which may be after its work-groups have ended.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocols/protocol.h"

namespace rocmforge::launch_order_test {
namespace {

using protocol::Actor;
using protocol::Buffer;
using protocol::Faults;
using protocol::Walk;

constexpr int groups = 2;  ///< work-groups of a kernel

/// When a launch's work-groups start and release: as LaunchOrder says; `never_waits` is a kernel that forgets to.
enum class Order { by_runtime, by_kernel, in_turn, never_waits };

struct Launch {
  Order order;
  std::vector<std::string> early;  ///< places that it reads before it waits
  std::vector<std::string> reads;
  std::vector<std::string> writes;
  bool is_copy = false;
};

class Sequence {
 public:
  Sequence(Walk& walk, const std::vector<Launch>& launches) : walk_(walk), launches_(launches), states_(launches.size()) {
    std::map<std::string, int> version;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      for (int own = 0; own < groups; ++own) {
        run(walk.actor("launch " + std::to_string(i)), i, own, version);
      }
      for (const std::string& place : launches_[i].writes) {
        ++version[place];
      }
    }
  }

 private:
  struct State {
    int released = 0;
    int ended = 0;
    int unseen = 0;  ///< stores that are not visible yet
  };
  [[nodiscard]] bool complete(std::size_t i) const { return states_[i].ended == groups && states_[i].unseen == 0; }
  [[nodiscard]] bool starts_early(std::size_t i) const {
    return i > 0 && launches_[i].order != Order::by_runtime && !launches_[i].is_copy && !launches_[i - 1].is_copy;
  }
  /// A place is written by all work-groups of a launch, a buffer each. Its first content is 0.
  Buffer& place(const std::string& name, int own) {
    auto& buffers = places_[name];
    if (buffers.empty()) {
      buffers = walk_.buffers(name, groups);
      for (Buffer* buffer : buffers) {
        buffer->begin_write();
        buffer->end_write(0);
      }
    }
    return *buffers[static_cast<std::size_t>(own)];
  }

  void read(Actor& actor, const std::vector<std::string>& names, const std::map<std::string, int>& version) {
    for (const std::string& name : names) {
      const auto found = version.find(name);
      for (int of = 0; of < groups; ++of) {
        actor.read(place(name, of), found == version.end() ? 0 : found->second);
      }
    }
  }

  void run(Actor& actor, std::size_t i, int own, const std::map<std::string, int>& version) {
    const Launch& launch = launches_[i];
    State& state = states_[i];
    if (starts_early(i)) {
      actor.wait_until([this, i] { return states_[i - 1].released == groups; });
    } else if (i > 0) {
      actor.wait_until([this, i] { return complete(i - 1); });
    }
    const bool releases_first = launch.order == Order::by_kernel || launch.order == Order::never_waits;
    if (releases_first) {
      actor.act([&state] { ++state.released; });
    }
    read(actor, launch.early, version);
    if (i > 0 && launch.order != Order::never_waits) {
      actor.wait_until([this, i] { return complete(i - 1); });  // the launch before, alone
    }
    if (launch.order == Order::in_turn) {
      actor.act([&state] { ++state.released; });
    }
    read(actor, launch.reads, version);
    for (const std::string& name : launch.writes) {
      Buffer& buffer = place(name, own);
      const auto found = version.find(name);
      const int next = (found == version.end() ? 0 : found->second) + 1;
      actor.act([this, &state, &buffer, next] {
        ++state.unseen;
        walk_.begin_copy(buffer, [&state, &buffer, next] {
          buffer.end_write(next);
          --state.unseen;
        });
      });
    }
    actor.act([&state, releases_first, &launch] {
      state.released += !releases_first && launch.order != Order::in_turn ? 1 : 0;
      ++state.ended;
    });
  }

  Walk& walk_;
  const std::vector<Launch> launches_;
  std::vector<State> states_;
  std::map<std::string, std::vector<Buffer*>> places_;
};

/// How a step of the engine is launched; the default is the engine.
struct Step {
  bool has_experts = true;
  bool sorts = true;  ///< few slots of each expert; else every slot by itself
  bool copies = true;
  Order gate_up = Order::in_turn;
  Order idle = Order::by_kernel;  ///< of a kernel that has nothing to do
  bool newest_early = false;
  bool down_behind_router = false;  ///< down reads the choice early, although no launch lies between
};

void add_experts(std::vector<Launch>& launches, const Step& step) {
  launches.push_back({Order::in_turn, {}, {"hidden"}, {"ids", "normed"}});  // the router
  if (step.down_behind_router) {
    launches.push_back({Order::by_kernel, {"ids"}, {"normed"}, {"hidden"}});
    return;
  }
  std::vector<std::string> choice{"ids"};
  if (step.sorts) {
    launches.push_back({Order::in_turn, {}, {"ids", "normed"}, {"order", "codes"}});
    choice = {"ids", "order", "codes"};
  }
  launches.push_back({step.gate_up, {}, choice, {"products"}});
  launches.push_back({Order::by_kernel, {step.sorts ? "order" : "ids"}, {"products", "ids"}, {"hidden"}});  // down
}

void add_step(std::vector<Launch>& launches, const Step& step, int number) {
  if (step.copies) {
    launches.push_back({Order::by_runtime, {}, {}, {"arrays"}, true});
  }
  launches.push_back({Order::by_kernel, {}, {"arrays", "sampled"}, {"hidden"}});
  for (const std::string layer : {"a", "b"}) {
    const std::string newest = "keys " + layer + std::to_string(number);
    std::vector<std::string> early{"arrays"};
    for (int old = 0; old < number; ++old) {
      early.push_back("keys " + layer + std::to_string(old));
    }
    if (step.newest_early) {
      early.push_back(newest);
    }
    launches.push_back({Order::by_kernel, {}, {"hidden"}, {"q"}});
    launches.push_back({Order::by_kernel, {"arrays"}, {"q"}, {newest}});
    launches.push_back({Order::by_kernel, early, {"q", newest}, {"attended"}});
    const bool works = step.idle == Order::by_kernel;
    launches.push_back({step.idle,
                        {},
                        works ? std::vector<std::string>{"attended"} : std::vector<std::string>{},
                        works ? std::vector<std::string>{"hidden"} : std::vector<std::string>{}});
    if (step.has_experts) {
      add_experts(launches, step);
    }
  }
  launches.push_back({Order::by_kernel, {}, {"hidden"}, {"sampled"}});
}

Faults faults_of_steps(const Step& step, int count, int walks) {
  std::vector<Launch> launches;
  for (int number = 0; number < count; ++number) {
    add_step(launches, step, number);
  }
  return protocol::explore(walks, [&](Walk& walk) { walk.make<Sequence>(launches); });
}

TEST(LaunchOrderProtocol, TheEnginesStepsHaveNoFault) {
  EXPECT_EQ(protocol::text_of(faults_of_steps({}, 3, 60)), "no fault");
  EXPECT_EQ(protocol::text_of(faults_of_steps({.sorts = false}, 3, 60)), "no fault");
  EXPECT_EQ(protocol::text_of(faults_of_steps({.has_experts = false}, 4, 60)), "no fault");
}

TEST(LaunchOrderProtocol, NeedsEachWait) {
  EXPECT_FALSE(faults_of_steps({.gate_up = Order::by_kernel}, 2, 200).empty());
  EXPECT_FALSE(faults_of_steps({.sorts = false, .gate_up = Order::by_kernel}, 2, 200).empty());
  EXPECT_FALSE(faults_of_steps({.idle = Order::never_waits}, 2, 200).empty());
  EXPECT_FALSE(faults_of_steps({.newest_early = true}, 2, 200).empty());
}

TEST(LaunchOrderProtocol, EarlyReadsRestOnTheCopyBetweenSteps) {
  EXPECT_FALSE(faults_of_steps({.has_experts = false, .copies = false}, 3, 400).empty());
}

TEST(LaunchOrderProtocol, DownReadsTheChoiceEarlyOnlyBehindGateAndUp) {
  EXPECT_FALSE(faults_of_steps({.down_behind_router = true}, 2, 200).empty());
}

/// A caller's kernel appends keys on its own stream and lets its successor start first; the library's attention follows.
TEST(LaunchOrderProtocol, TheLibraryDoesNotOverlapWithACallersKernels) {
  const auto faults = [](Order attention) {
    const std::vector<std::string> keys{"keys of all positions"};
    const std::vector<Launch> launches{
        {Order::by_runtime, {}, {}, keys}, {Order::by_kernel, {}, {}, keys}, {attention, keys, {}, {"attended"}}};
    return protocol::explore(200, [&](Walk& walk) { walk.make<Sequence>(launches); });
  };
  EXPECT_EQ(protocol::text_of(faults(Order::by_runtime)), "no fault");  // Stream: a borrowed one
  EXPECT_FALSE(faults(Order::by_kernel).empty());
}

}  // namespace
}  // namespace rocmforge::launch_order_test
