#include "kv_type_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "comma_list.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

const std::vector<std::string> type_names = {"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"};

/// "q8_0", or "q8_0,q4_0" of K and V.
KvTypes read_types(const std::string& text) {
  const std::vector<std::string> names = split_at_commas(text);
  const auto is_known = [](const std::string& name) { return std::ranges::find(type_names, name) != type_names.end(); };
  if (names.size() > 2 || !std::ranges::all_of(names, is_known)) {
    throw UsageError(fmt::format(
        "--kv-type is {}, must be f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl, or two of them for K and V: "
        "q8_0,q4_0",
        text.empty() ? "empty" : text));
  }
  return {*dtype_from_name(names.front()), *dtype_from_name(names.back())};
}

}  // namespace

void KvTypeFlags::add_to(Command& command, const std::string& group) {
  const auto add = [&](Option option) {
    option.group = group;
    command.options.push_back(std::move(option));
  };
  add({.names = "--kv-type",
       .target = &both_,
       .meaning =
           "Format of the KV cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl; two with a comma: of K, of V",
       .value = "TYPE"});
  add({.names = "--cache-type-k",
       .target = &k_,
       .meaning = "Format of K, in place of that of --kv-type",
       .choices = type_names,
       .also = "-ctk"});
  add({.names = "--cache-type-v",
       .target = &v_,
       .meaning = "Format of V, in place of that of --kv-type",
       .choices = type_names,
       .also = "-ctv"});
  add({"--no-kv-rotation", &no_rotation_,
       "K and V of 4 and 5 bits are quantised as they are, not rotated by a Walsh-Hadamard matrix before"});
}

KvTypes KvTypeFlags::types() const {
  KvTypes types = read_types(both_);
  types.k = k_.empty() ? types.k : *dtype_from_name(k_);
  types.v = v_.empty() ? types.v : *dtype_from_name(v_);
  const auto rotates = [this](DType type) { return !no_rotation_ && is_kv_quant(type) && type != DType::q8_0; };
  types.k_rotated = rotates(types.k);
  types.v_rotated = rotates(types.v);
  return types;
}

}  // namespace rocmforge::app
