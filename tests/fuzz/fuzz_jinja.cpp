// Any bytes must give a text or an Error, within the budget of steps and memory, and leak nothing.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "chat/jinja/json_text.h"
#include "chat/jinja/template.h"

namespace {

using namespace rocmforge;

jinja::Value conversation() {
  return jinja::from_json(nlohmann::ordered_json::parse(R"({
      "messages": [{"role": "system", "content": "Be <brief>."}, {"role": "user", "content": [{"type": "text", "text": "H\u00e9"}]},
                   {"role": "assistant", "content": null, "tool_calls": [{"id": "abcdef123", "type": "function",
                    "function": {"name": "f", "arguments": {"k": [1, 2.5, true, null, "v"]}}}]},
                   {"role": "tool", "tool_call_id": "abcdef123", "content": "9"}],
      "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
                {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}}}],
      "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const jinja::Value variables = conversation();
  if (size > 8192) {
    return 0;
  }
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  try {
    const jinja::Limits limits{.steps = 200'000, .live_bytes = 16U << 20U, .text_bytes = 4U << 20U};
    const jinja::Text text = jinja::Template(source).render(
        *variables.mapping(), [] { return std::tm{}; }, limits);
    check(text.size() <= limits.text_bytes, "the limit of the output holds");
    check(text.runs().empty() ? text.empty() : text.runs().back().end == text.size(), "every byte has its source");
  } catch (const Error&) {
    // what can't be read or rendered is refused
  }
  return 0;
}
