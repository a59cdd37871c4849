#include "service/models.h"

#include <exception>
#include <list>
#include <thread>
#include <utility>

namespace rocmforge {

/// Destroys models in a thread of its own: who holds a model last may be the model's own delivery thread, which can't wait
/// for its own end.
class Models::Remover {
 public:
  using Instances = std::list<std::unique_ptr<ModelInstance>>;

  Remover() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Moves the list's models to those that are to be destroyed.
  void take(Instances& instances) noexcept {
    {
      const std::lock_guard lock(mutex_);
      unused_.splice(unused_.end(), instances);
    }
    changed_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !unused_.empty(); }) || !unused_.empty()) {
      Instances instances = std::move(unused_);
      unused_.clear();
      lock.unlock();
      instances.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;  // guards the list
  std::condition_variable_any changed_;
  Instances unused_;
  std::jthread thread_;  // last: it uses all of the above
};

Models::Models() : remover_(std::make_shared<Remover>()) {}

// An answer that holds a model may outlive this object, but nothing is computed for it any more.
Models::~Models() {
  for (const auto& instance : alive()) {
    instance->loop().stop();
  }
}

std::shared_ptr<ModelInstance> Models::make(std::unique_ptr<Engine> engine, const ServiceOptions& options) {
  // What the end of the last holder needs is allocated here: there it must not fail.
  const auto place = std::make_shared<Remover::Instances>();
  place->push_back(std::make_unique<ModelInstance>(std::move(engine), options, metrics_));
  return {place->front().get(), [remover = remover_, place](ModelInstance*) { remover->take(*place); }};
}

void Models::put(std::shared_ptr<Entry> entry) {
  const std::lock_guard lock(mutex_);
  entry->last_use = std::chrono::steady_clock::now();
  std::shared_ptr<Entry>& place = entries_[entry->options.model_id];
  entry->number = place != nullptr ? place->number : ++last_number_;
  std::erase_if(made_, [](const auto& instance) { return instance.expired(); });
  if (entry->instance != nullptr) {
    made_.push_back(entry->instance);
  }
  place = std::move(entry);
}

std::shared_ptr<ModelInstance> Models::add(std::unique_ptr<Engine> engine, const ServiceOptions& options) {
  auto instance = make(std::move(engine), options);
  put(std::make_shared<Entry>(Entry{.options = options, .instance = instance}));
  return instance;
}

void Models::add(Load load, const ServiceOptions& options) {
  put(std::make_shared<Entry>(Entry{.options = options, .load = std::move(load)}));
}

std::shared_ptr<ModelInstance> Models::find(std::string_view name) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return nullptr;
  }
  const std::shared_ptr<Entry> entry = found->second;
  changed_.wait(lock, [&] { return !entry->is_loading; });
  entry->last_use = std::chrono::steady_clock::now();
  if (entry->instance != nullptr || !entry->load) {
    return entry->instance;
  }
  entry->is_loading = true;
  lock.unlock();
  std::shared_ptr<ModelInstance> instance;
  std::exception_ptr problem;
  try {
    instance = make(entry->load(), entry->options);
  } catch (...) {
    problem = std::current_exception();
  }
  lock.lock();
  entry->is_loading = false;
  if (instance != nullptr) {
    made_.push_back(instance);
    entry->instance = instance;
    entry->last_use = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
  if (problem) {
    std::rethrow_exception(problem);
  }
  return instance;
}

std::shared_ptr<ModelInstance> Models::first() const {
  const std::lock_guard lock(mutex_);
  const Entry* first = nullptr;
  for (const auto& [name, entry] : entries_) {
    if (entry->instance != nullptr && (first == nullptr || entry->number < first->number)) {
      first = entry.get();
    }
  }
  return first != nullptr ? first->instance : nullptr;
}

bool Models::unload(std::string_view name) {
  std::shared_ptr<ModelInstance> instance;  // let go without the lock
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found != entries_.end()) {
    instance = std::exchange(found->second->instance, nullptr);
  }
  return instance != nullptr;
}

std::size_t Models::unload_idle(std::chrono::steady_clock::duration time) {
  const auto before = std::chrono::steady_clock::now() - time;
  std::vector<std::shared_ptr<ModelInstance>> unloaded;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    const bool is_idle = entry->instance != nullptr && entry->load && entry->last_use <= before &&
                         entry->instance.use_count() == 1 && entry->instance->loop().in_flight() == 0;
    if (is_idle) {
      unloaded.push_back(std::exchange(entry->instance, nullptr));
    }
  }
  return unloaded.size();
}

std::vector<std::shared_ptr<ModelInstance>> Models::alive() const {
  std::vector<std::shared_ptr<ModelInstance>> instances;
  const std::lock_guard lock(mutex_);
  for (const auto& one : made_) {
    if (auto instance = one.lock()) {
      instances.push_back(std::move(instance));
    }
  }
  return instances;
}

void Models::cancel_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& one : made_) {
    if (const auto instance = one.lock()) {
      instance->loop().cancel_all();
    }
  }
}

}  // namespace rocmforge
