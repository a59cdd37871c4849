// Any bytes must give a JSON object or a refusal with a reason; an object that was read can be written, and is the same when
// read again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/api/api_error.h"
#include "server/api/fields.h"
#include "server/api/json.h"

namespace {

using namespace rocmforge;

template <class Read>
void ignore_refusal(Read&& read) {
  try {
    static_cast<void>(read());
  } catch (const ApiError& error) {  // the value has another type or lies outside
    if (error.status != 400) {
      std::abort();
    }
  }
}

void read_every_way(const Json& object, int depth) {
  Fields fields(object, depth == 0 ? "" : "inner.");
  for (const char* name : {"a", "b", "model", "messages", "\u00e9"}) {
    ignore_refusal([&] { return fields.boolean(name); });
    ignore_refusal([&] { return fields.integer(name, -5, 1000); });
    ignore_refusal([&] { return fields.number(name, 0.0, 2.0); });
    ignore_refusal([&] { return fields.text(name); });
    ignore_refusal([&] { return fields.choice(name, {"x", "y"}); });
    ignore_refusal([&] { return fields.array(name); });
    if (const Json* inner = fields.find(name); inner != nullptr && inner->is_object() && depth < 3) {
      read_every_way(*inner, depth + 1);
    }
  }
  fields.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  try {
    const Json json = parse_body(body);
    const std::string text = to_text(json);
    if (to_text(parse_body(text)) != text) {
      std::abort();
    }
    read_every_way(json, 0);
  } catch (const ApiError& error) {
    if (error.status != 400) {
      std::abort();
    }
  }
  return 0;
}
