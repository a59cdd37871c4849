#include "service/workers.h"

#include <new>

#ifdef __linux__
#include <sys/resource.h>
#endif

namespace rocmforge {

namespace {

/// Lowers the priority of the calling thread. On a busy processor it then has about a third of another thread's time; with
/// less a long prompt would wait as long as any other request is served.
void make_way_for_others() {
#ifdef __linux__
  constexpr int nice = 5;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, nice));  // only this thread; without permission all threads are equal
#endif
}

}  // namespace

Workers::Workers() {
  for (std::size_t i = 0; i < short_threads; ++i) {
    threads_.emplace_back([this] { work(short_); });
  }
  for (std::size_t i = 0; i < long_threads; ++i) {
    threads_.emplace_back([this] {
      make_way_for_others();
      work(long_);
    });
  }
  timekeeper_ = std::jthread([this] { keep_time(); });
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;  // before the interruption: a task that is posted later interrupts itself
  }
  interrupt_all(Interruption::shutdown);
  changed_.notify_all();
  threads_.clear();
  if (timekeeper_.joinable()) {
    timekeeper_.join();
  }
}

void Workers::post(ReadingTask task) {
  const auto shared = std::make_shared<ReadingTask>(std::move(task));
  decltype(unfinished_) unfinished = {shared};
  decltype(deadlines_) deadlines;
  if (shared->deadline) {
    deadlines.emplace(*shared->deadline, shared);
  }
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    stopping = stopping_;
    auto& queues = (shared->is_long ? long_ : short_).queues;
    const auto place = queues.try_emplace(shared->client).first;
    try {
      place->second.waiting.push_back(shared);
    } catch (const std::bad_alloc&) {
      if (place->second.waiting.empty() && place->second.running == 0) {
        queues.erase(place);
      }
      throw;
    }
    unfinished_.merge(unfinished);
    deadlines_.merge(deadlines);
  }
  if (stopping) {
    shared->interrupt(Interruption::shutdown);
  }
  changed_.notify_all();
}

void Workers::interrupt_all(Interruption reason) {
  const std::lock_guard lock(mutex_);
  for (const auto& task : unfinished_) {
    task->interrupt(reason);
  }
}

std::shared_ptr<ReadingTask> Workers::next(Kind& kind) {
  auto place = kind.queues.upper_bound(kind.last_client);
  for (std::size_t i = 0; i < kind.queues.size(); ++i, ++place) {
    place = place == kind.queues.end() ? kind.queues.begin() : place;
    auto& [client, queue] = *place;
    if (!queue.waiting.empty() && queue.running < most_of_client) {
      std::shared_ptr<ReadingTask> task = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      ++queue.running;
      kind.last_client = client;
      return task;
    }
  }
  return nullptr;
}

void Workers::finished(Kind& kind, const std::shared_ptr<ReadingTask>& task) {
  {
    const std::lock_guard lock(mutex_);
    unfinished_.erase(task);
    if (task->deadline) {
      deadlines_.erase({*task->deadline, task});
    }
    const auto queue = kind.queues.find(task->client);
    --queue->second.running;
    if (queue->second.running == 0 && queue->second.waiting.empty()) {
      kind.queues.erase(queue);
    }
  }
  changed_.notify_all();
}

void Workers::work(Kind& kind) {
  for (;;) {
    std::shared_ptr<ReadingTask> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return (task = next(kind)) != nullptr || (stopping_ && unfinished_.empty()); });
    }
    if (task == nullptr) {
      return;
    }
    task->run();
    finished(kind, task);
  }
}

void Workers::keep_time() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (deadlines_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto [time, task] = *deadlines_.begin();
    if (Clock::now() < time) {
      changed_.wait_until(lock, time);
      continue;
    }
    deadlines_.erase(deadlines_.begin());
    lock.unlock();
    task->interrupt(Interruption::time);
    lock.lock();
  }
}

}  // namespace rocmforge
