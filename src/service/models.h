#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "service/metrics.h"
#include "service/model.h"

namespace rocmforge {

/// The models that are served, by name. One that is known is loaded when it is asked for, and may be replaced or unloaded at
/// any time: answers hold their model, and it ends with the last of them. Thread-safe.
class Models {
 public:
  /// Makes the engine of a model, which may take long. Throws Error.
  using Load = std::function<std::unique_ptr<Engine>()>;

  Models();
  /// Running answers end as cancelled. Their listeners may outlive this object.
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  /// Serves the engine as options.model_id, in place of an earlier model of that name. Throws Error for a template that
  /// can't be read.
  std::shared_ptr<ModelInstance> add(std::unique_ptr<Engine> engine, const ServiceOptions& options);
  /// Makes options.model_id known, in place of an earlier model of that name.
  void add(Load load, const ServiceOptions& options);

  /// Null for an unknown name and for a model that was unloaded and can't be loaded again. Loads the model where it must;
  /// others that ask for it wait meanwhile. Throws what loading it throws.
  std::shared_ptr<ModelInstance> find(std::string_view name);
  /// The loaded model that was added first, for requests that leave the choice; null for none.
  [[nodiscard]] std::shared_ptr<ModelInstance> first() const;

  /// Unloads a model. False where it is not loaded.
  bool unload(std::string_view name);
  /// Unloads the models that can be loaded again, answer nothing, and were not asked for in the time before. Returns their
  /// number.
  std::size_t unload_idle(std::chrono::steady_clock::duration time);

  [[nodiscard]] ServiceMetrics& metrics() const { return *metrics_; }
  /// Running answers end as cancelled.
  void cancel_all() noexcept;

 private:
  class Remover;
  struct Entry {
    ServiceOptions options;
    Load load{};  ///< empty: it can't be loaded again
    std::shared_ptr<ModelInstance> instance{};
    std::chrono::steady_clock::time_point last_use{};
    std::size_t number = 0;  ///< by the order in which the names were added
    bool is_loading = false;
  };
  using Entries = std::map<std::string, std::shared_ptr<Entry>, std::less<>>;

  std::shared_ptr<ModelInstance> make(std::unique_ptr<Engine> engine, const ServiceOptions& options);
  void put(std::shared_ptr<Entry> entry);
  [[nodiscard]] std::vector<std::shared_ptr<ModelInstance>> alive() const;

  std::shared_ptr<ServiceMetrics> metrics_ = std::make_shared<ServiceMetrics>();
  std::shared_ptr<Remover> remover_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Entries entries_;
  std::vector<std::weak_ptr<ModelInstance>> made_;  ///< also replaced and unloaded ones that answers still hold
  std::size_t last_number_ = 0;
};

}  // namespace rocmforge
