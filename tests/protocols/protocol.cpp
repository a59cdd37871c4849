#include "protocols/protocol.h"

#include <algorithm>

namespace rocmforge::protocol {

Mbarrier::Mbarrier(Faults& faults, std::string name, int arrivals)
    : faults_(faults), name_(std::move(name)), arrivals_(arrivals), pending_(arrivals) {}

void Mbarrier::settle() {
  if (pending_ < 0) {
    faults_.insert(name_ + ": more arrivals than a phase takes");
  }
  if (pending_ == 0 && bytes_ == 0) {
    pending_ = arrivals_;
    ++phase_;
  }
}

void Mbarrier::complete(int bytes) {
  bytes_ -= bytes;
  settle();
}

void Mbarrier::arrive() {
  --pending_;
  settle();
}

bool Mbarrier::lets_through(int number) {
  if ((phase_ & 1) == (number & 1)) {
    return false;
  }
  if (phase_ != number + 1) {
    faults_.insert(name_ + ": a wait went on in another phase than the awaited one");
  }
  return true;
}

void NamedBarrier::arrive() {
  if (++here_ == count_) {
    here_ = 0;
    ++generation_;
  }
}

void Buffer::set_exists(bool exists) {
  if (!exists && !is_idle()) {
    faults_.insert(name_ + ": its work-group ends while it is used");
  }
  exists_ = exists;
}

void Buffer::begin_read(std::int64_t wanted) {
  if (!exists_) {
    faults_.insert(name_ + ": read before its work-group has started or after it has ended");
  }
  if (writers_ > 0) {
    faults_.insert(name_ + ": read while it is written");
  }
  if (content_ != wanted) {
    faults_.insert(name_ + ": read with other contents than wanted");
  }
  ++readers_;
}

void Buffer::end_read(std::int64_t wanted) {
  if (content_ != wanted || writers_ > 0) {
    faults_.insert(name_ + ": overwritten while it is read");
  }
  --readers_;
}

void Buffer::begin_write() {
  if (!exists_) {
    faults_.insert(name_ + ": written before its work-group has started or after it has ended");
  }
  if (readers_ > 0) {
    faults_.insert(name_ + ": written while it is read");
  }
  if (writers_ > 0) {
    faults_.insert(name_ + ": written by two at once");
  }
  ++writers_;
}

void Buffer::end_write(std::int64_t content) {
  --writers_;
  content_ = content;
}

Actor& Actor::act(std::function<void()> body) {
  steps_.push_back({.ready = {}, .body = std::move(body), .more = {}});
  return *this;
}

Actor& Actor::wait_until(std::function<bool()> ready) {
  steps_.push_back({.ready = std::move(ready), .body = {}, .more = {}});
  return *this;
}

Actor& Actor::wait(Mbarrier& barrier, int phase) {
  return wait_until([&barrier, phase] { return barrier.lets_through(phase); });
}

Actor& Actor::arrive(Mbarrier& barrier) {
  return act([&barrier] { barrier.arrive(); });
}

Actor& Actor::expect_and_arrive(Mbarrier& barrier, int bytes) {
  return act([&barrier, bytes] {
    barrier.expect(bytes);
    barrier.arrive();
  });
}

Actor& Actor::copy(Buffer& buffer, std::int64_t content, Mbarrier& barrier, int bytes) {
  return act([walk = walk_, &buffer, content, &barrier, bytes] {
    walk->begin_copy(buffer, [&buffer, content, &barrier, bytes] {
      buffer.end_write(content);
      barrier.complete(bytes);
    });
  });
}

Actor& Actor::begin_read(Buffer& buffer, std::int64_t wanted) {
  return act([&buffer, wanted] { buffer.begin_read(wanted); });
}

Actor& Actor::end_read(Buffer& buffer, std::int64_t wanted) {
  return act([&buffer, wanted] { buffer.end_read(wanted); });
}

Actor& Actor::write(Buffer& buffer, std::int64_t content) {
  act([&buffer] { buffer.begin_write(); });
  return act([&buffer, content] { buffer.end_write(content); });
}

Actor& Actor::read_all(std::vector<Buffer*> buffers, std::int64_t wanted) {
  act([buffers, wanted] {
    for (Buffer* buffer : buffers) {
      buffer->begin_read(wanted);
    }
  });
  return act([buffers = std::move(buffers), wanted] {
    for (Buffer* buffer : buffers) {
      buffer->end_read(wanted);
    }
  });
}

Actor& Actor::arrive(NamedBarrier& barrier) {
  return act([&barrier] { barrier.arrive(); });
}

Actor& Actor::sync(NamedBarrier& barrier) {
  auto generation = std::make_shared<int>(0);
  act([&barrier, generation] {
    *generation = barrier.generation();
    barrier.arrive();
  });
  return wait_until([&barrier, generation] { return barrier.generation() > *generation; });
}

Actor& Actor::then(std::function<void(Actor&)> more) {
  steps_.push_back({.ready = {}, .body = {}, .more = std::move(more)});
  return *this;
}

Walk::Walk(std::uint64_t seed) : random_(seed) {}

Mbarrier& Walk::mbarrier(std::string name, int arrivals) {
  return mbarriers_.emplace_back(faults_, std::move(name), arrivals);
}

std::vector<Mbarrier*> Walk::mbarriers(const std::string& name, int count, int arrivals) {
  std::vector<Mbarrier*> result;
  for (int i = 0; i < count; ++i) {
    result.push_back(&mbarrier(name, arrivals));
  }
  return result;
}

NamedBarrier& Walk::named_barrier(int count) { return named_barriers_.emplace_back(count); }

Buffer& Walk::buffer(std::string name) { return buffers_.emplace_back(faults_, std::move(name)); }

std::vector<Buffer*> Walk::buffers(const std::string& name, int count) {
  std::vector<Buffer*> result;
  for (int i = 0; i < count; ++i) {
    result.push_back(&buffer(name));
  }
  return result;
}

double Walk::random_speed() {
  constexpr double speeds[] = {1, 1, 1, 5, 25};
  return speeds[random_() % std::size(speeds)];
}

Actor& Walk::actor(std::string name) {
  actors_.push_back(std::unique_ptr<Actor>(new Actor(*this, std::move(name))));
  actors_.back()->speed_ = random_speed();
  return *actors_.back();
}

void Walk::begin_copy(Buffer& buffer, std::function<void()> end) {
  buffer.begin_write();
  copies_.push_back({std::move(end)});
}

void Walk::step(Actor& actor) {
  Actor::Step step = std::move(actor.steps_.front());
  actor.steps_.pop_front();
  if (step.body) {
    step.body();
  }
  if (step.more) {
    Actor added(*this, actor.name_);
    step.more(added);
    for (auto& own : actor.steps_) {
      added.steps_.push_back(std::move(own));
    }
    actor.steps_ = std::move(added.steps_);
  }
}

void Walk::name_those_who_wait() {
  std::string text = "nobody can go on: ";
  std::set<std::string> names;
  for (const auto& actor : actors_) {
    if (!actor->steps_.empty()) {
      names.insert(actor->name_);
    }
  }
  for (const auto& name : names) {
    text += name + " ";
  }
  faults_.insert(text);
}

void Walk::go() {
  const double copy_speed = random_speed();
  std::vector<Actor*> ready;
  // A walk with a fault ends: what follows from a fault may not end by itself.
  while (faults_.empty()) {
    ready.clear();
    double all = static_cast<double>(copies_.size()) * copy_speed;
    bool ended = copies_.empty();
    for (const auto& actor : actors_) {
      if (actor->steps_.empty()) {
        continue;
      }
      ended = false;
      if (const auto& condition = actor->steps_.front().ready; !condition || condition()) {
        ready.push_back(actor.get());
        all += actor->speed_;
      }
    }
    if (ended) {
      break;
    }
    if (ready.empty() && copies_.empty()) {
      name_those_who_wait();
      break;
    }
    double chosen = std::uniform_real_distribution<double>(0, all)(random_);
    Actor* next = nullptr;
    for (Actor* actor : ready) {
      if ((chosen -= actor->speed_) < 0) {
        next = actor;
        break;
      }
    }
    if (next != nullptr || copies_.empty()) {
      step(next != nullptr ? *next : *ready.back());
    } else {
      const auto index = std::min(copies_.size() - 1, static_cast<std::size_t>(chosen / copy_speed));
      const std::function<void()> end = std::move(copies_[index].end);
      copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
      end();
    }
    if (random_() % 100 == 0) {
      actors_[random_() % actors_.size()]->speed_ = random_speed();
    }
  }
  if (faults_.empty()) {
    if (std::ranges::any_of(buffers_, [](const Buffer& buffer) { return !buffer.is_idle(); })) {
      faults_.insert("a buffer is still read or written at the end");
    }
    for (const auto& check : checks_) {
      check(faults_);
    }
  }
}

Faults explore(int walks, const std::function<void(Walk&)>& build) {
  for (int seed = 0; seed < walks; ++seed) {
    Walk walk(static_cast<std::uint64_t>(seed));
    build(walk);
    walk.go();
    if (!walk.faults().empty()) {
      return walk.faults();
    }
  }
  return {};
}

std::string text_of(const Faults& faults) {
  std::string text;
  for (const auto& fault : faults) {
    text += text.empty() ? fault : "; " + fault;
  }
  return text.empty() ? "no fault" : text;
}

}  // namespace rocmforge::protocol
