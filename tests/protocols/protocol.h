#pragma once

// Models of the protocols between the warps of a kernel: barriers, the buffers that they guard, bulk copies that end at any
// time, and a walk that lets random actors go on at random speeds.
//
// An actor (a warp, a producer, a loader) is a list of steps. A walk reports: a buffer that is written while it is read or
// written, or read with other contents than wanted; a wait that another phase than the awaited one has let through; more
// arrivals than a phase takes; a state in which nobody can go on; and what is left over at the end.
//
// Each test builds a kernel's protocol with the constants of the kernel, expects that no walk finds a fault, and then that a
// walk finds one in each version that is wrong on purpose.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace rocmforge::protocol {

/// Faults by their text; the same fault of several walks counts once.
using Faults = std::set<std::string>;

/// The hardware's mbarrier: arrivals and bytes of the current phase. A wait sees the parity of the phase alone.
class Mbarrier {
 public:
  Mbarrier(Faults& faults, std::string name, int arrivals);
  void expect(int bytes) { bytes_ += bytes; }
  void complete(int bytes);
  void arrive();
  /// Whether a wait for the end of phase `number` goes on; -1 is the phase before the first.
  [[nodiscard]] bool lets_through(int number);

 private:
  void settle();
  Faults& faults_;
  std::string name_;
  int arrivals_;
  int pending_;
  int bytes_ = 0;
  int phase_ = 0;
};

/// bar.sync and bar.arrive for `count` warps.
class NamedBarrier {
 public:
  explicit NamedBarrier(int count) : count_(count) {}
  void arrive();
  [[nodiscard]] int generation() const { return generation_; }

 private:
  int count_;
  int here_ = 0;
  int generation_ = 0;
};

/// A place that holds one content at a time. Contents are numbers; -1 is what was there before the first.
class Buffer {
 public:
  Buffer(Faults& faults, std::string name) : faults_(faults), name_(std::move(name)) {}
  void begin_read(std::int64_t wanted);
  void end_read(std::int64_t wanted);
  void begin_write();
  void end_write(std::int64_t content);
  [[nodiscard]] bool is_idle() const { return readers_ == 0 && writers_ == 0; }
  /// Whether the place exists: shared memory of a work-group that has started and not yet ended.
  void set_exists(bool exists);

 private:
  Faults& faults_;
  std::string name_;
  std::int64_t content_ = -1;
  int readers_ = 0;
  int writers_ = 0;
  bool exists_ = true;
};

/// Entry `index` of all that pass through a ring.
template <class T>
T& in_ring(const std::vector<T*>& ring, int index) {
  return *ring[static_cast<std::size_t>(index) % ring.size()];
}
/// The phase of a ring's barrier that entry `index` completes; the one before it for entries of the first round is -1.
template <class T>
int phase_of(const std::vector<T*>& ring, int index) {
  return index / static_cast<int>(ring.size());
}

class Walk;

/// The steps of one actor in their order. Others may go on between any two of them.
class Actor {
 public:
  /// Something that happens at once.
  Actor& act(std::function<void()> body);
  /// Goes on when `ready` is true.
  Actor& wait_until(std::function<bool()> ready);
  Actor& wait(Mbarrier& barrier, int phase);
  Actor& arrive(Mbarrier& barrier);
  /// Expects the bytes of a copy and arrives.
  Actor& expect_and_arrive(Mbarrier& barrier, int bytes = 1);
  /// A bulk copy into `buffer`, which ends later and then completes `bytes` of the barrier.
  Actor& copy(Buffer& buffer, std::int64_t content, Mbarrier& barrier, int bytes = 1);
  Actor& begin_read(Buffer& buffer, std::int64_t wanted);
  Actor& end_read(Buffer& buffer, std::int64_t wanted);
  Actor& read(Buffer& buffer, std::int64_t wanted) { return begin_read(buffer, wanted).end_read(buffer, wanted); }
  Actor& write(Buffer& buffer, std::int64_t content);
  /// Reads all of `buffers` at the same time.
  Actor& read_all(std::vector<Buffer*> buffers, std::int64_t wanted);
  Actor& arrive(NamedBarrier& barrier);
  Actor& sync(NamedBarrier& barrier);
  /// Steps that are known only when the actor comes here: `more` appends them to an actor of its own.
  Actor& then(std::function<void(Actor&)> more);

 private:
  friend class Walk;
  struct Step {
    std::function<bool()> ready;  ///< empty: always
    std::function<void()> body;
    std::function<void(Actor&)> more;
  };
  Actor(Walk& walk, std::string name) : walk_(&walk), name_(std::move(name)) {}
  Walk* walk_;
  std::string name_;
  std::deque<Step> steps_;
  double speed_ = 1;
};

/// One random interleaving of a protocol.
class Walk {
 public:
  explicit Walk(std::uint64_t seed);
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  Mbarrier& mbarrier(std::string name, int arrivals);
  std::vector<Mbarrier*> mbarriers(const std::string& name, int count, int arrivals);
  NamedBarrier& named_barrier(int count);
  Buffer& buffer(std::string name);
  std::vector<Buffer*> buffers(const std::string& name, int count);
  Actor& actor(std::string name);
  /// A model that lives as long as the walk, made of the walk and `arguments`: its steps may refer to it.
  template <class Model, class... Arguments>
  Model& make(Arguments&&... arguments) {
    auto model = std::make_shared<Model>(*this, std::forward<Arguments>(arguments)...);
    models_.push_back(model);
    return *model;
  }
  /// Runs once, at the end of a walk without faults.
  void at_end(std::function<void(Faults&)> check) { checks_.push_back(std::move(check)); }

  Faults& faults() { return faults_; }
  void begin_copy(Buffer& buffer, std::function<void()> end);
  /// Lets actors go on until all have ended, or none can.
  void go();

 private:
  struct Copy {
    std::function<void()> end;
  };
  void step(Actor& actor);
  [[nodiscard]] double random_speed();
  void name_those_who_wait();

  std::mt19937_64 random_;
  Faults faults_;
  std::deque<Mbarrier> mbarriers_;
  std::deque<NamedBarrier> named_barriers_;
  std::deque<Buffer> buffers_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::vector<Copy> copies_;
  std::vector<std::function<void(Faults&)>> checks_;
  std::vector<std::shared_ptr<void>> models_;
};

/// All faults of `walks` walks with other seeds; `build` describes the protocol to each. Stops at the first walk with a
/// fault.
Faults explore(int walks, const std::function<void(Walk&)>& build);

/// The same for each of `works`: build(walk, work).
template <class Works, class Build>
Faults explore_all(int walks, const Works& works, const Build& build) {
  Faults all;
  for (const auto& work : works) {
    all.merge(explore(walks, [&](Walk& walk) { build(walk, work); }));
  }
  return all;
}

/// The faults in a line, for a test's message.
std::string text_of(const Faults& faults);

}  // namespace rocmforge::protocol
