#include "models/config/draft_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "weights/gguf_value.h"

namespace rocmforge {

bool has_architecture(const GgufFile& file, std::string_view name) {
  const GgufValue* value = file.find("general.architecture");
  const auto* own = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return own != nullptr && *own == name;
}

void check_same_tokens(const GgufFile& draft, const GgufFile& model) {
  constexpr std::string_view key = "tokenizer.ggml.tokens";
  const std::vector<std::string>* own = draft.strings(key);
  const std::vector<std::string>* others = model.strings(key);
  if (own == nullptr || others == nullptr) {
    return;
  }
  const auto common = static_cast<std::ptrdiff_t>(std::min(own->size(), others->size()));
  const auto [differs, other] = std::mismatch(own->begin(), own->begin() + common, others->begin());
  if (differs != own->begin() + common) {
    throw Error(fmt::format("{}: it can't draft for this model: its token {} is {}, the model's is {}",
                            draft.path().string(), differs - own->begin(), quote(*differs), quote(*other)));
  }
}

}  // namespace rocmforge
