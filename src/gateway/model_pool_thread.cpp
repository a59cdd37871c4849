#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_document.h"
#include "base/printable.h"
#include "gateway/model_pool.h"
#include "gateway/pooled_model.h"

// The pool's thread: starts processes, reads what they say, ends them.
namespace rocmforge {
namespace {

constexpr std::chrono::seconds time_to_end{10};  ///< of a process that was told to end
constexpr std::chrono::seconds time_to_exit{2};  ///< of a process that has closed its output

/// Takes the text up to the next blank from the front.
std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

bool is_readable(const LineReader& reader) {
  pollfd waited = {reader.descriptor(), POLLIN, 0};
  return ::poll(&waited, 1, 0) > 0;
}

}  // namespace

void ModelPool::log(const Model& model, std::string_view text) const {
  options_.log(fmt::format("model {}: {}", printable(model.choice.name, 200), text));
}

bool ModelPool::has_processes() const {
  return std::ranges::any_of(order_, [](const Model* model) { return model->process != nullptr; });
}

void ModelPool::run() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      end_what_is_due();
      if (stopping_ && !has_processes()) {
        return;
      }
      if (!stopping_) {
        begin_next();
      }
    }
    changed_.notify_all();
    wait_for_events();
  }
}

void ModelPool::wait_for_events() {
  std::vector<pollfd> waited = {{wake_event_, POLLIN, 0}};
  std::vector<Model*> models;
  int time = -1;
  {
    const std::lock_guard lock(mutex_);
    time = time_to_next();
    for (Model* model : order_) {
      if (model->process == nullptr) {
        continue;
      }
      models.push_back(model);
      const LineReader& errors = model->process->errors();
      waited.push_back({model->process->output().descriptor(), POLLIN, 0});
      waited.push_back({errors.has_ended() ? -1 : errors.descriptor(), POLLIN, 0});
    }
  }
  ::poll(waited.data(), waited.size(), time);
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_event_, &count, sizeof count));
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (waited[2 * i + 1].revents != 0 || waited[2 * i + 2].revents != 0) {
      read(*models[i]);
    }
  }
}

// Only this thread uses a process, so that others need not wait while it reads or ends one.
void ModelPool::read(Model& model) {
  ModelProcess& process = *model.process;
  std::optional<int> status;
  process.errors().read();
  if (!process.output().read()) {
    while (!process.errors().has_ended() && is_readable(process.errors())) {
      process.errors().read();
    }
    status = process.end(time_to_exit);
  }
  const std::lock_guard lock(mutex_);
  take_error_lines(model);
  while (const auto line = process.output().next()) {
    take_line(model, *line);
  }
  if (status) {
    take_end(model, *status);
  }
}

int ModelPool::time_to_next() const {
  if (!stopping_ && !queue_.empty() && queue_.front()->process == nullptr) {
    return 0;
  }
  std::optional<Clock::time_point> next;
  const auto consider = [&](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
  for (const Model* model : order_) {
    if (model->is_ending) {
      consider(model->kill_time);
    } else if (const auto time = idle_end(*model)) {
      consider(*time);
    }
  }
  if (!next) {
    return -1;
  }
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, std::numeric_limits<int>::max()));
}

void ModelPool::take_error_lines(Model& model) {
  constexpr std::string_view own = "rocmforge: ";
  while (const auto line = model.process->errors().next()) {
    if (line->starts_with(own)) {
      model.last_error = line->substr(own.size());
    }
    options_.forward(fmt::format("[{}] {}", printable(model.choice.name, 200), *line));
  }
}

void ModelPool::take_line(Model& model, std::string_view line) {
  const std::string_view word = take_word(line);
  if (word == "needs") {
    const std::string_view bytes = take_word(line);
    std::from_chars(bytes.data(), bytes.data() + bytes.size(), model.bytes);
    model.fits = take_word(line) == "fits";
    model.on_gpu = line == "gpu";
    model.has_told_needs = true;
  } else if (word == "loaded" && model.state == ModelState::loading) {
    became_loaded(model, line);
  }
}

void ModelPool::became_loaded(Model& model, std::string_view description) {
  model.state = ModelState::loaded;
  model.has_failed = false;
  model.problem.clear();
  model.description = read_json(description).value;
  model.last_use = Clock::now();
  log(model, fmt::format("loaded in {:.2f} s", std::chrono::duration<double>(model.last_use - model.start_time).count()));
  grant(model);
}

/// Lets all who wait use it, before another model may ask for its place.
void ModelPool::grant(Model& model) {
  for (Request* request : model.waiting) {
    request->granted = true;
    ++model.users;
  }
  model.waiting.clear();
  model.is_queued = false;
  std::erase(queue_, &model);
}

void ModelPool::take_end(Model& model, int status) {
  const bool was_loading = model.state == ModelState::loading;
  model.process.reset();
  model.state = model.is_ending ? model.after_end : ModelState::unloaded;
  if (!model.is_ending) {
    model.exit_code = exit_code_of(status);
    model.problem = fmt::format("its process has ended with {}", end_text(status));
    if (!model.last_error.empty() && WIFEXITED(status)) {
      model.problem = was_loading ? model.last_error : fmt::format("{}: {}", model.problem, model.last_error);
    }
    model.has_failed = true;
    log(model, was_loading ? fmt::format("can't be loaded: {}", model.problem) : model.problem);
  }
  const bool was_told_to_end = std::exchange(model.is_ending, false);
  model.is_leaving = false;
  if (was_loading) {
    fail(model, was_told_to_end ? "it was told to end while it was loading" : model.problem);
  } else if (!model.waiting.empty()) {
    enqueue(model);
  }
  if (Model* next = queue_.empty() ? nullptr : queue_.front(); next != nullptr && next->has_told_needs && !next->fits) {
    next->has_told_needs = false;  // there is more room now
    next->process->tell("plan");
  }
}

void ModelPool::fail(Model& model, const std::string& problem) {
  for (Request* request : model.waiting) {
    request->failed = true;
    request->problem = problem;
  }
  model.waiting.clear();
  model.is_queued = false;
  std::erase(queue_, &model);
}

void ModelPool::end_what_is_due() {
  const auto now = Clock::now();
  for (Model* model : order_) {
    if (model->process == nullptr) {
      continue;
    }
    if (model->is_ending) {
      if (now >= model->kill_time) {
        model->process->signal(SIGKILL);
        model->kill_time = now + time_to_end;
      }
    } else if (stopping_) {
      end(*model, ModelState::unloaded, "the server ends");
    } else if (model->is_leaving && model->users == 0) {
      end(*model, ModelState::unloaded, "another model needs its place, or a client asked for it");
    } else if (const auto time = idle_end(*model); time && *time <= now) {
      const bool sleeps = options_.sleep_after && idle_time(*model) == options_.sleep_after;
      end(*model, sleeps ? ModelState::sleeping : ModelState::unloaded, "it was idle");
    }
  }
}

void ModelPool::end(Model& model, ModelState after, std::string_view why) {
  log(model, fmt::format("ends: {}", why));
  model.is_ending = true;
  model.after_end = after;
  model.kill_time = Clock::now() + time_to_end;
  model.process->signal(model.state == ModelState::loading ? SIGKILL : SIGTERM);  // loading can't be interrupted
}

void ModelPool::begin_next() {
  while (!queue_.empty() && queue_.front()->state == ModelState::loaded && !queue_.front()->is_ending) {
    queue_.front()->is_leaving = false;  // it is wanted again before it has left
    grant(*queue_.front());
  }
  if (queue_.empty() || queue_.front()->is_ending) {
    return;
  }
  Model& model = *queue_.front();
  if (model.process == nullptr) {
    start(model);
  } else if (model.has_told_needs && !model.was_told_to_load && make_room(model)) {
    model.was_told_to_load = true;
    model.process->tell("load");
  }
}

void ModelPool::start(Model& model) {
  model.has_told_needs = model.was_told_to_load = false;
  model.last_error.clear();
  model.start_time = Clock::now();
  ++model.runs;
  try {
    model.process = std::make_unique<ModelProcess>(options_.program, model.choice.arguments, options_.without);
    model.state = ModelState::loading;
  } catch (const Error& error) {
    model.has_failed = true;
    model.problem = error.what();
    log(model, fmt::format("can't be loaded: {}", model.problem));
    fail(model, model.problem);
  }
}

bool ModelPool::has_room(const Model& model) const {
  std::int32_t count = 0;
  std::int64_t bytes = model.bytes, host_bytes = model.on_gpu ? 0 : model.bytes;
  for (const Model* other : order_) {
    if (other != &model && other->process != nullptr) {
      ++count;
      bytes += other->bytes;
      host_bytes += other->on_gpu ? 0 : other->bytes;
    }
  }
  return model.fits && (options_.most_loaded == 0 || count < options_.most_loaded) &&
         (options_.memory_bytes == 0 || bytes <= options_.memory_bytes) &&
         (options_.host_bytes == 0 || host_bytes <= options_.host_bytes);
}

bool ModelPool::make_room(Model& model) {
  const auto is_other = [&](const Model* other) { return other != &model && other->process != nullptr; };
  if (has_room(model) || std::ranges::none_of(order_, is_other)) {
    return true;  // alone it may be split, or it says itself what lacks
  }
  Model* longest_unused = nullptr;
  for (Model* other : order_) {
    if (!is_other(other)) {
      continue;
    }
    if (other->is_leaving || other->is_ending) {
      return false;
    }
    const auto rank = [](const Model* one) { return std::pair(one->users > 0, one->last_use); };
    if (longest_unused == nullptr || rank(other) < rank(longest_unused)) {
      longest_unused = other;
    }
  }
  longest_unused->is_leaving = true;
  if (longest_unused->users == 0) {
    end(*longest_unused, ModelState::unloaded, fmt::format("{} needs its place", printable(model.choice.name, 200)));
  }
  return false;
}

}  // namespace rocmforge
