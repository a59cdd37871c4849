#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "schedule/request.h"

namespace rocmforge {

/// A LoRA adapter to load.
struct AdapterOptions {
  std::string path{};
  float scale = 1.0f;   ///< of requests that name it
  bool applies = true;  ///< also requests that name no adapters use it
  std::string name{};   ///< by which requests name it; "": the file's, without its folder and ".gguf"
};

/// An adapter that is loaded.
struct LoadedAdapter {
  std::int32_t id = 0;  ///< by the order of loading; never that of another one
  std::string name{};
  std::string path{};
  float named_scale = 1.0f;  ///< AdapterOptions::scale
  float scale = 0.0f;        ///< of requests that name no adapters; 0: they do not use it
  std::string task_name{};
  std::string prompt_prefix{};
  std::string fingerprint{};  ///< of the file, see fingerprint()
  /// It acts from their last occurrence in a prompt on, and not on a prompt without them (aLoRA); none: on all tokens.
  std::vector<std::int32_t> invocation_tokens{};
};

/// The adapters of an engine. An adapter that is unloaded stays in memory while a request uses it.
class EngineAdapters {
 public:
  static constexpr std::size_t most = 64;  ///< loaded at once

  explicit EngineAdapters(Model& model) : model_(&model) {}

  [[nodiscard]] const std::vector<LoadedAdapter>& list() const { return list_; }
  /// Throws Error naming the file: see LoraFile and Model::load_adapter; for a name that another one has, and where there
  /// are `most` already.
  const LoadedAdapter& load(const AdapterOptions& options);
  /// No later request may use it. False for an unknown id.
  bool unload(std::int32_t id);
  /// Sets the scale of each adapter for requests that name none; of those that are not in `scales` 0. False, and nothing
  /// changed, for an unknown id.
  bool set_scales(std::span<const AdapterScale> scales);
  /// Frees unloaded adapters that no open request uses.
  using IsUsed = std::function<bool(std::int32_t id)>;
  void free_unloaded(const IsUsed& is_used);
  [[nodiscard]] bool has_unloaded() const { return !unloaded_.empty(); }

  /// Why the request's adapters can't be used; "" if they can.
  [[nodiscard]] std::string refusal(const Request& request) const;
  /// Sets a request's adapters, and where they begin: those that it names, else those for all. Of these without those that
  /// do not act on it: with scale 0, and with invocation tokens that its prompt lacks.
  void choose(Request& request) const;

 private:
  /// Where adapters of the request begin behind its first token.
  [[nodiscard]] std::vector<TokenSpan> marks_of(const Request& request) const;
  [[nodiscard]] const LoadedAdapter* find(std::int32_t id) const;

  Model* model_;
  std::vector<LoadedAdapter> list_;
  std::vector<std::int32_t> unloaded_;  ///< still in memory
  std::int32_t next_id_ = 0;
};

}  // namespace rocmforge
