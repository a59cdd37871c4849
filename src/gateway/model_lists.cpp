#include "gateway/model_lists.h"

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <string>

#include "server/api/ollama/ollama.h"

namespace rocmforge {
namespace {

struct FileFacts {
  std::int64_t bytes = 0;
  std::time_t time = 0;
};

/// Zeros for a file that is not there.
FileFacts facts_of(const std::string& file) {
  struct stat found {};
  return !file.empty() && ::stat(file.c_str(), &found) == 0 ? FileFacts{found.st_size, found.st_mtime} : FileFacts{};
}

Json meta_of(const ModelStatus& model) {
  return model.description.is_object() ? model.description.value("meta", Json::object()) : Json::object();
}

Json ollama_entry(const ModelStatus& model) {
  const Json meta = meta_of(model);
  return {{"name", model.name},
          {"model", model.name},
          {"size", meta.value("size", facts_of(model.file).bytes)},
          {"details", ollama_details(meta)}};
}

}  // namespace

Json model_entry(const ModelStatus& model) {
  Json status = {{"value", name(model.state)}};
  if (model.has_failed) {
    status["failed"] = true;
    status["exit_code"] = model.exit_code;
    status["error"] = model.problem;
  }
  status["answering"] = model.answering;
  status["waiting"] = model.waiting;
  return {
      {"id", model.name},        {"object", "model"},      {"created", static_cast<std::int64_t>(facts_of(model.file).time)},
      {"owned_by", "rocmforge"}, {"meta", meta_of(model)}, {"status", std::move(status)}};
}

Json model_list(const std::vector<ModelStatus>& models) {
  Json data = Json::array();
  for (const ModelStatus& model : models) {
    data.push_back(model_entry(model));
  }
  return {{"object", "list"}, {"data", std::move(data)}};
}

Json ollama_tags(const std::vector<ModelStatus>& models) {
  Json list = Json::array();
  for (const ModelStatus& model : models) {
    Json entry = ollama_entry(model);
    entry["modified_at"] = ollama_time(facts_of(model.file).time);
    list.push_back(std::move(entry));
  }
  return {{"models", std::move(list)}};
}

Json ollama_loaded(const std::vector<ModelStatus>& models) {
  constexpr const char* never = "2318-01-01T00:00:00Z";  // Ollama's clients show a time so far away as "Forever"
  Json list = Json::array();
  for (const ModelStatus& model : models) {
    if (model.state != ModelState::loaded) {
      continue;
    }
    Json entry = ollama_entry(model);
    entry["size"] = model.bytes;
    entry["size_vram"] = model.on_gpu ? model.bytes : 0;
    entry["expires_at"] = model.expires ? ollama_time(std::chrono::system_clock::to_time_t(*model.expires)) : never;
    if (const Json meta = meta_of(model); meta.contains("n_ctx")) {
      entry["context_length"] = meta["n_ctx"];
    }
    list.push_back(std::move(entry));
  }
  return {{"models", std::move(list)}};
}

}  // namespace rocmforge
