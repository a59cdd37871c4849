#include "models/adapters/lora_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::string_view end_of_a = ".lora_a";
constexpr std::string_view end_of_b = ".lora_b";

/// The model's tensor that `name` is a part of the pair of; "" for another name.
std::string base_of(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? std::string(name.substr(0, name.size() - end.size())) : "";
}

}  // namespace

LoraFile::LoraFile(GgufFile file) : file_(std::move(file)) {
  check_kind();
  read_invocation();
  alpha_ = file_.number("adapter.lora.alpha", 0.0);
  if (!std::isfinite(alpha_)) {
    throw Error(fmt::format("{}: key 'adapter.lora.alpha' is no finite number", file_.path().string()));
  }
  for (const GgufTensor& tensor : file_.tensors()) {
    if (const std::string base = base_of(tensor.name, end_of_a); !base.empty()) {
      add_pair(base, tensor);
    } else if (const std::string own = base_of(tensor.name, end_of_b); own.empty()) {
      throw Error(fmt::format("{} ends neither in .lora_a nor in .lora_b: it can't be added to a product", place(tensor)));
    } else if (file_.find_tensor(own + std::string(end_of_a)) == nullptr) {
      throw Error(fmt::format("{} has no partner {}", place(tensor), quote(own + std::string(end_of_a))));
    }
  }
  if (pairs_.empty()) {
    throw Error(fmt::format("{}: an adapter without tensors", file_.path().string()));
  }
}

void LoraFile::check_kind() const {
  const std::string file = file_.path().string();
  if (const std::string type = file_.string("general.type", ""); type != "adapter") {
    throw Error(fmt::format("{}: no LoRA adapter: key 'general.type' is {}, not 'adapter'", file, quote(type)));
  }
  if (const std::string type = file_.string("adapter.type", ""); type != "lora") {
    throw Error(fmt::format("{}: key 'adapter.type' is {}: only 'lora' is supported", file, quote(type)));
  }
}

void LoraFile::read_invocation() {
  constexpr std::string_view key = "adapter.alora.invocation_tokens";
  constexpr std::size_t most = 256;
  const auto tokens = file_.integers(key);
  if (!tokens) {
    return;
  }
  const auto is_token = [](std::int64_t id) { return id >= 0 && id <= std::numeric_limits<std::int32_t>::max(); };
  if (tokens->size() > most || !std::ranges::all_of(*tokens, is_token)) {
    throw Error(fmt::format("{}: key '{}' has {} numbers: at most {} ids of tokens were expected", file_.path().string(),
                            key, tokens->size(), most));
  }
  std::ranges::transform(*tokens, std::back_inserter(invocation_tokens_),
                         [](std::int64_t id) { return static_cast<std::int32_t>(id); });
}

void LoraFile::add_pair(const std::string& base, const GgufTensor& a) {
  const GgufTensor* b = file_.find_tensor(base + std::string(end_of_b));
  if (b == nullptr) {
    throw Error(fmt::format("{} has no partner {}", place(a), quote(base + std::string(end_of_b))));
  }
  for (const GgufTensor* tensor : {&a, b}) {
    if (tensor->tensor.shape.rank() > 3) {
      throw Error(fmt::format("{} has shape {}, a matrix was expected, or one for each expert", place(*tensor),
                              tensor->tensor.shape.to_string()));
    }
  }
  // The reader drops no dimensions, but a matrix of one row or column may be written as a vector.
  const Shape& shape = a.tensor.shape;
  const std::int64_t rank = base == embedding ? shape.cols() : shape.rank() == 3 ? shape[1] : shape.rows();
  const std::int64_t inner = b->tensor.shape.cols();
  if (rank != inner || rank < 1) {
    throw Error(fmt::format("{} has shape {}: its rank is not that of {}, which has {}", place(a), shape.to_string(),
                            quote(b->name), b->tensor.shape.to_string()));
  }
  const float factor = alpha_ == 0.0 ? 1.0f : static_cast<float>(alpha_ / static_cast<double>(rank));
  pairs_.emplace(base, Pair{&a, b, rank, factor});
}

const LoraFile::Pair* LoraFile::find(std::string_view tensor) const {
  const auto found = pairs_.find(tensor);
  return found == pairs_.end() ? nullptr : &found->second;
}

std::string LoraFile::place(const GgufTensor& tensor) const {
  return fmt::format("{}: tensor {}", file_.path().string(), quote(tensor.name));
}

void LoraFile::check_shape(const GgufTensor& tensor, const Shape& expected, const GgufTensor& of) const {
  if (tensor.tensor.shape.squeezed() != expected.squeezed()) {
    throw Error(fmt::format("{} has shape {}, the model's {} needs {}", place(tensor), tensor.tensor.shape.to_string(),
                            of.name, expected.to_string()));
  }
}

}  // namespace rocmforge
