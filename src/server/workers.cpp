#include "server/workers.h"

namespace rocmforge {

Workers::Workers() {
  for (std::size_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
  timekeeper_ = std::jthread([this] { keep_time(); });
}

Workers::~Workers() {
  interrupt_all(Interruption::shutdown);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
  timekeeper_.join();
}

void Workers::post(ReadingTask task) {
  const auto shared = std::make_shared<ReadingTask>(std::move(task));
  {
    const std::lock_guard lock(mutex_);
    unfinished_.insert(shared);
    if (shared->deadline) {
      deadlines_.emplace(*shared->deadline, shared);
    }
    Queue& queue = queues_[shared->client];
    (shared->is_long ? queue.long_ones : queue.short_ones).push_back(shared);
  }
  changed_.notify_all();
}

void Workers::interrupt_all(Interruption reason) {
  std::vector<std::shared_ptr<ReadingTask>> all;
  {
    const std::lock_guard lock(mutex_);
    all.assign(unfinished_.begin(), unfinished_.end());
  }
  for (const auto& task : all) {
    task->interrupt(reason);
  }
}

std::shared_ptr<ReadingTask> Workers::next() {
  std::shared_ptr<ReadingTask> task = next_of(&Queue::short_ones);
  if (task == nullptr && long_running_ < most_long) {
    task = next_of(&Queue::long_ones);
    long_running_ += task != nullptr ? 1 : 0;
  }
  return task;
}

std::shared_ptr<ReadingTask> Workers::next_of(std::deque<std::shared_ptr<ReadingTask>> Queue::*kind) {
  auto place = queues_.upper_bound(last_client_);
  for (std::size_t i = 0; i < queues_.size(); ++i, ++place) {
    place = place == queues_.end() ? queues_.begin() : place;
    auto& [client, queue] = *place;
    if (!(queue.*kind).empty() && queue.running < most_of_client) {
      std::shared_ptr<ReadingTask> task = std::move((queue.*kind).front());
      (queue.*kind).pop_front();
      ++queue.running;
      last_client_ = client;
      return task;
    }
  }
  return nullptr;
}

void Workers::finished(const std::shared_ptr<ReadingTask>& task) {
  {
    const std::lock_guard lock(mutex_);
    unfinished_.erase(task);
    if (task->deadline) {
      deadlines_.erase({*task->deadline, task});
    }
    long_running_ -= task->is_long ? 1 : 0;
    const auto queue = queues_.find(task->client);
    --queue->second.running;
    if (queue->second.running == 0 && queue->second.short_ones.empty() && queue->second.long_ones.empty()) {
      queues_.erase(queue);
    }
  }
  changed_.notify_all();
}

void Workers::work() {
  for (;;) {
    std::shared_ptr<ReadingTask> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return (task = next()) != nullptr || (stopping_ && unfinished_.empty()); });
    }
    if (task == nullptr) {
      return;
    }
    task->run();
    finished(task);
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
