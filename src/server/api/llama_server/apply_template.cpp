#include "server/api/llama_server/apply_template.h"

#include <cstdint>
#include <string>
#include <utility>

#include "server/api/conversation_fields.h"
#include "server/api/message_generation.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {

void serve_apply_template(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const ChatCall call = render_request(fields, read_conversation(fields, exchange->reading), exchange->reading, backend);
  finish_fields(fields, *exchange, backend);
  std::string text = text_of(call.prompt.segments);
  exchange->reading.keep(2 * static_cast<std::int64_t>(text.size()));
  exchange->send_pieces(with_member({{"prompt", nullptr}}, "prompt", string_in_pieces(std::move(text))));
}

}  // namespace rocmforge
