#include "gateway/model_pool.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "gateway/pooled_model.h"

// What other threads ask of the pool. Its own thread: model_pool_thread.cpp.
namespace rocmforge {

std::string_view name(ModelState state) {
  switch (state) {
    case ModelState::unloaded:
      return "unloaded";
    case ModelState::loading:
      return "loading";
    case ModelState::loaded:
      return "loaded";
    case ModelState::sleeping:
      return "sleeping";
  }
  return "";
}

ModelPool::ModelPool(std::vector<ModelChoice> choices, PoolOptions options)
    : options_(std::move(options)), wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_event_ < 0) {
    throw Error(fmt::format("no event to wake a thread: {}", std::strerror(errno)));
  }
  for (ModelChoice& choice : choices) {
    auto model = std::make_unique<Model>();
    model->keep_alive = options_.keep_alive;
    model->choice = std::move(choice);
    order_.push_back(model.get());
    models_.emplace(model->choice.name, std::move(model));
  }
  for (Model* model : order_) {
    if (model->choice.load_at_start) {
      enqueue(*model);
    }
  }
  thread_ = std::jthread([this] { run(); });
}

ModelPool::~ModelPool() {
  stop();
  ::close(wake_event_);
}

void ModelPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ModelPool::wake() {
  {
    const std::lock_guard lock(mutex_);  // so that nobody is between a look at what has changed and its wait
  }
  changed_.notify_all();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_event_, &one, sizeof one));
}

ModelPool::Model& ModelPool::find(std::string_view name) const {
  const auto found = models_.find(name);
  check(found != models_.end(), "the pool knows the model");
  return *found->second;
}

std::vector<std::string> ModelPool::names() const {
  std::vector<std::string> names;
  for (const Model* model : order_) {
    names.push_back(model->choice.name);
  }
  return names;
}

void ModelPool::enqueue(Model& model) {
  if (!std::exchange(model.is_queued, true)) {
    queue_.push_back(&model);
  }
}

std::unique_ptr<ModelPool::Use> ModelPool::acquire(std::string_view name, Waiter& waiter,
                                                   const std::optional<KeepAlive>& keep_alive) {
  Model& model = find(name);
  Request request;
  std::unique_lock lock(mutex_);
  if (stopping_) {
    throw Interrupted{Interruption::shutdown};
  }
  model.keep_alive = keep_alive.value_or(options_.keep_alive);
  if (model.takes_requests()) {
    ++model.users;
    return std::make_unique<Use>(*this, model);
  }
  const auto place = model.waiting.insert(model.waiting.end(), &request);
  enqueue(model);
  lock.unlock();
  wake();
  lock.lock();
  const auto is_over = [&] {
    return request.granted || request.failed || stopping_ || waiter.interrupted != Interruption::none;
  };
  const bool in_time =
      waiter.deadline ? changed_.wait_until(lock, *waiter.deadline, is_over) : (changed_.wait(lock, is_over), true);
  if (request.granted) {
    return std::make_unique<Use>(*this, model);
  }
  if (request.failed) {
    throw Error(request.problem);
  }
  model.waiting.erase(place);
  if (model.waiting.empty() && model.process == nullptr) {  // nobody wants it any more
    model.is_queued = false;
    std::erase(queue_, &model);
  }
  throw Interrupted{!in_time ? Interruption::time : stopping_ ? Interruption::shutdown : waiter.interrupted.load()};
}

std::unique_ptr<ModelPool::Use> ModelPool::loaded(std::string_view name) {
  Model& model = find(name);
  const std::lock_guard lock(mutex_);
  if (model.state != ModelState::loaded || model.is_ending) {
    return nullptr;
  }
  ++model.users;
  return std::make_unique<Use>(*this, model, false);
}

std::vector<std::unique_ptr<ModelPool::Use>> ModelPool::loaded() {
  std::vector<std::unique_ptr<Use>> uses;
  const std::lock_guard lock(mutex_);
  for (Model* model : order_) {
    if (model->takes_requests()) {
      ++model->users;
      uses.push_back(std::make_unique<Use>(*this, *model, false));
    }
  }
  return uses;
}

void ModelPool::release(Model& model, bool keeps) {
  {
    const std::lock_guard lock(mutex_);
    --model.users;
    model.last_use = keeps ? Clock::now() : model.last_use;
  }
  wake();
}

bool ModelPool::load(std::string_view name) {
  Model& model = find(name);
  {
    const std::lock_guard lock(mutex_);
    if (model.takes_requests()) {
      return false;
    }
    enqueue(model);
  }
  wake();
  return true;
}

bool ModelPool::unload(std::string_view name) {
  Model& model = find(name);
  {
    const std::lock_guard lock(mutex_);
    if (model.state != ModelState::loaded && model.state != ModelState::loading) {
      return false;
    }
    model.is_leaving = true;
  }
  wake();
  return true;
}

KeepAlive ModelPool::idle_time(const Model& model) const {
  if (!model.keep_alive || !options_.sleep_after) {
    return model.keep_alive ? model.keep_alive : options_.sleep_after;
  }
  return std::min(*model.keep_alive, *options_.sleep_after);
}

std::optional<ModelPool::Clock::time_point> ModelPool::idle_end(const Model& model) const {
  const KeepAlive time = idle_time(model);
  const bool is_idle = model.takes_requests() && model.users == 0;
  return is_idle && time ? std::optional(model.last_use + *time) : std::nullopt;
}

ModelStatus ModelPool::status_of(const Model& model) const {
  ModelStatus status = {.name = model.choice.name,
                        .file = model.choice.file,
                        .state = model.state,
                        .has_failed = model.has_failed,
                        .exit_code = model.exit_code,
                        .problem = model.problem,
                        .bytes = model.bytes,
                        .on_gpu = model.on_gpu,
                        .description = model.description,
                        .answering = model.users,
                        .waiting = static_cast<std::int32_t>(model.waiting.size())};
  if (const KeepAlive time = idle_time(model); time && model.state == ModelState::loaded) {
    const Clock::duration rest = (model.users > 0 ? Clock::now() : model.last_use) + *time - Clock::now();
    status.expires = std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(rest);
  }
  return status;
}

std::vector<ModelStatus> ModelPool::status() const {
  std::vector<ModelStatus> all;
  const std::lock_guard lock(mutex_);
  for (const Model* model : order_) {
    all.push_back(status_of(*model));
  }
  return all;
}

ModelStatus ModelPool::status(std::string_view name) const {
  const Model& model = find(name);
  const std::lock_guard lock(mutex_);
  return status_of(model);
}

ModelPool::Use::Use(ModelPool& pool, Model& model, bool keeps)
    : pool_(&pool), model_(&model), run_(model.runs), keeps_(keeps) {}

const std::string& ModelPool::Use::socket() const { return model_->choice.socket; }

std::string ModelPool::Use::end_reason() const {
  constexpr std::chrono::seconds longest{1};
  std::unique_lock lock(pool_->mutex_);
  const auto has_ended = [&] { return model_->process == nullptr || model_->runs != run_; };
  return pool_->changed_.wait_for(lock, longest, has_ended) ? model_->problem : "";
}

}  // namespace rocmforge
