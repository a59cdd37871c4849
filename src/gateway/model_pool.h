#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gateway/asked_model.h"
#include "gateway/model_process.h"
#include "server/api/json.h"
#include "service/workers.h"

namespace rocmforge {

/// A model that can be served: its name for clients, and how the program is called to serve it.
struct ModelChoice {
  std::string name;
  std::string file{};                    ///< "" for one that the hub's cache may lack
  std::string socket{};                  ///< where its server is told to listen; nobody else may open it
  std::vector<std::string> arguments{};  ///< of the program
  bool load_at_start = false;
};

struct PoolOptions {
  std::string program;                                     ///< whose processes serve the models
  std::vector<std::string> without{};                      ///< beginnings of names of variables that they don't get
  std::int32_t most_loaded = 0;                            ///< models at once; 0: any number
  std::int64_t memory_bytes = 0;                           ///< that all may need together by their plans; 0: any
  std::int64_t host_bytes = 0;                             ///< the same of the models that no GPU computes
  KeepAlive keep_alive{};                                  ///< where a request names no time
  KeepAlive sleep_after{};                                 ///< idle models end after this at the latest
  std::function<void(const std::string& line)> log{};      ///< an event; called by the pool's thread
  std::function<void(const std::string& line)> forward{};  ///< a line of a model's log
};

enum class ModelState { unloaded, loading, loaded, sleeping };

/// "unloaded", "loading"
std::string_view name(ModelState state);

/// What a list of models shows.
struct ModelStatus {
  std::string name;
  std::string file;
  ModelState state = ModelState::unloaded;
  bool has_failed = false;  ///< the last process has ended by itself
  int exit_code = 0;        ///< of it
  std::string problem{};    ///< why
  std::int64_t bytes = 0;   ///< of memory, by the plan
  bool on_gpu = false;
  Json description{};                                              ///< of /v1/models, once it was loaded; else null
  std::int32_t answering = 0, waiting = 0;                         ///< requests
  std::optional<std::chrono::system_clock::time_point> expires{};  ///< of a loaded model
};

/// Models served by a process each, so that a failure stays alone. One is loaded when it is asked for; where the number of
/// models or their memory does not allow one more, the one that was not used for longest ends, but never before its answers.
/// Models are loaded one after another, in the order in which they were asked for. Thread-safe.
class ModelPool {
 public:
  ModelPool(std::vector<ModelChoice> choices, PoolOptions options);
  /// stop()
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  struct Model;

  /// A loaded model that does not end while this object lives.
  class Use {
   public:
    /// Called with the mutex held; the model counts this use already.
    Use(ModelPool& pool, Model& model, bool keeps = true);
    ~Use() { pool_->release(*model_, keeps_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    /// Where its server listens.
    [[nodiscard]] const std::string& socket() const;
    /// Why its process has ended, once it has: "signal 9 (Killed)". Waits up to a second for that.
    [[nodiscard]] std::string end_reason() const;

   private:
    ModelPool* pool_;
    Model* model_;
    std::uint64_t run_;
    bool keeps_;  ///< the model counts as used
  };

  /// Somebody who waits for a model. `wake` of the pool has to be called after a change of it.
  struct Waiter {
    std::atomic<Interruption> interrupted{Interruption::none};
    std::optional<std::chrono::steady_clock::time_point> deadline{};
  };

  [[nodiscard]] bool knows(std::string_view name) const { return models_.contains(name); }
  [[nodiscard]] std::vector<std::string> names() const;
  /// Waits until the model is loaded. Throws Interrupted, and Error with the reason where it can't be loaded.
  /// `keep_alive`: how long the model stays loaded after this request; empty: as PoolOptions says.
  std::unique_ptr<Use> acquire(std::string_view name, Waiter& waiter, const std::optional<KeepAlive>& keep_alive);
  void wake();
  // For requests that load no model and keep none loaded.
  /// Null where the model is not loaded.
  std::unique_ptr<Use> loaded(std::string_view name);
  std::vector<std::unique_ptr<Use>> loaded();

  /// Loads a model as if it were asked for. False where it is loaded already.
  bool load(std::string_view name);
  /// Ends a model after its answers, or while it is loading. False where it is not loaded.
  bool unload(std::string_view name);

  [[nodiscard]] std::vector<ModelStatus> status() const;
  [[nodiscard]] ModelStatus status(std::string_view name) const;

  /// Interrupts all who wait, ends all models, and waits for their ends.
  void stop();

  /// A wait that ended before the model was loaded.
  struct Interrupted {
    Interruption reason;
  };

 private:
  using Clock = std::chrono::steady_clock;
  struct Request;

  void release(Model& model, bool keeps);
  Model& find(std::string_view name) const;
  // The functions below are called with the mutex held, except run(), wait_for_events() and read().
  [[nodiscard]] ModelStatus status_of(const Model& model) const;
  void enqueue(Model& model);
  void grant(Model& model);
  /// The time that a model may be idle; empty: any.
  [[nodiscard]] KeepAlive idle_time(const Model& model) const;
  /// When an idle model ends; empty for others.
  [[nodiscard]] std::optional<Clock::time_point> idle_end(const Model& model) const;
  // Those below run on the pool's thread alone.
  void run();
  void wait_for_events();
  void read(Model& model);
  void take_line(Model& model, std::string_view line);
  void take_error_lines(Model& model);
  void take_end(Model& model, int status);
  void end_what_is_due();
  void begin_next();
  void start(Model& model);
  /// Whether the model may load now. Else another one has been told to end, or ends already.
  bool make_room(Model& model);
  [[nodiscard]] bool has_room(const Model& model) const;
  void end(Model& model, ModelState after, std::string_view why);
  void became_loaded(Model& model, std::string_view description);
  void fail(Model& model, const std::string& problem);
  /// Milliseconds for poll(); -1: any time.
  [[nodiscard]] int time_to_next() const;
  [[nodiscard]] bool has_processes() const;
  void log(const Model& model, std::string_view text) const;

  const PoolOptions options_;
  int wake_event_ = -1;

  mutable std::mutex mutex_;  // guards the members below, but not which models there are
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Model>, std::less<>> models_;
  std::vector<Model*> order_;  ///< as they were given
  std::deque<Model*> queue_;   ///< asked for; the first is being loaded
  bool stopping_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace rocmforge
