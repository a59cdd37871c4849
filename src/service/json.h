#pragma once

#include <string>
#include <utility>

#include "base/json.h"
#include "base/json_document.h"

namespace rocmforge {

using Json = nlohmann::ordered_json;

/// A JSON document whose destruction allocates nothing: clear().
struct Document {
  Json root;

  explicit Document(Json json) : root(std::move(json)) {}
  ~Document() { clear(root); }
  Document(Document&&) = default;
  Document& operator=(Document&&) = delete;
};

}  // namespace rocmforge
