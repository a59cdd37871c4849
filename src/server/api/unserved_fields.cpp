#include "server/api/unserved_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/api/api_error.h"

namespace rocmforge {
namespace {

constexpr std::string_view use_tools = "use tools and tool_choice";
constexpr std::string_view use_logprobs = "use logprobs";
constexpr std::string_view answers_are_text = "answers are text";
constexpr std::string_view template_arguments = "variables of the template go into chat_template_kwargs";

constexpr std::array unserved = {
    // Sampling
    UnservedField{"use_beam_search", "[false]"},
    UnservedField{"allowed_token_ids", "[]", "use logit_bias or grammar"},
    UnservedField{"logits_processors", "[[]]"},
    // The answer's end and form
    UnservedField{"include_stop_str_in_output", "[false]"},
    UnservedField{"skip_special_tokens", "[true]"},
    UnservedField{"suffix", "[\"\"]", "/v1/completions and /infill fill gaps in texts"},
    UnservedField{"n_indent", "[0]"},
    UnservedField{"t_max_prompt_ms", "[-1, 0]"},
    UnservedField{"t_max_predict_ms", "[-1, 0]"},
    UnservedField{"guided_whitespace_pattern", "[]", "at most one blank, or a line's end, stands between pieces"},
    UnservedField{"grammar_lazy", "[false]"},
    UnservedField{"grammar_triggers", "[[]]"},
    UnservedField{"modalities", "[[\"text\"]]", answers_are_text},
    UnservedField{"audio", "[]", answers_are_text},
    UnservedField{"n_probs", "[0]", use_logprobs},
    UnservedField{"post_sampling_probs", "[false]", use_logprobs},
    UnservedField{"prompt_logprobs", "[]", use_logprobs},
    UnservedField{"return_tokens_as_token_ids", "[false]"},
    // Input of the model
    UnservedField{"functions", "[[]]", use_tools},
    UnservedField{"function_call", R"(["none", "auto"])", use_tools},
    UnservedField{"web_search_options", "[]", "nothing is looked up"},
    UnservedField{"chat_template", "[]", "--chat-template-file replaces the model's"},
    UnservedField{"documents", "[[]]", template_arguments},
    UnservedField{"include_reasoning", "[true]", "use reasoning_format"},
    UnservedField{"truncate_prompt_tokens", "[]", "a prompt that is too long is refused"},
    UnservedField{"image_data", "[[]]"},
    UnservedField{"lora", "[[]]"},
};

/// Fields that change no answer, whatever their value: there is one model, and what they configure does not exist here.
void ignore_harmless(Fields& fields) {
  static_cast<void>(fields.text("model"));  // there is one model, with any name
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "prediction", "cache_prompt"});
  fields.ignore({"length_penalty", "spaces_between_special_tokens", "n_keep", "n_discard", "n_cache_reuse",
                 "media_io_kwargs", "mm_processor_kwargs", "guided_decoding_backend"});
  const Json off = Json::array({false});
  for (const std::string_view name : {"return_progress", "return_tokens", "return_token_ids", "logprobs", "echo"}) {
    fields.ignore_unless(name, off);
  }
  fields.ignore_unless("top_logprobs", Json::array({0}));
  fields.ignore_unless("response_fields", Json::array({Json::array()}));
}

/// "messages[].content[].image" for "messages[7].content[0].image": the log has a line for each kind, not for each place.
std::string without_numbers(std::string_view name) {
  std::string kind;
  bool inside = false;
  for (const char c : name) {
    inside = inside && c >= '0' && c <= '9';
    if (!inside) {
      kind += c;
    }
    inside = inside || c == '[';
  }
  return kind;
}

void refuse_unknown(const Fields& fields, const Backend& backend) {
  if (backend.strict_fields && !fields.unknown().names.empty()) {
    const std::string& first = fields.unknown().names.front();
    throw ApiError(400, fmt::format("'{}' is not a field this server knows", first), first);
  }
}

}  // namespace

std::span<const UnservedField> unserved_fields() { return unserved; }

void refuse_unserved_fields(Fields& fields, const Backend& backend) {
  ignore_harmless(fields);
  for (const UnservedField& field : unserved) {
    if (!fields.was_asked_for(field.name) && fields.has(field.name)) {
      fields.refuse_unless(field.name, Json::parse(field.neutral), field.reason);
    }
  }
  fields.finish();
  refuse_unknown(fields, backend);
}

void finish_fields(Fields& fields, HttpExchange& exchange, const Backend& backend) {
  refuse_unserved_fields(fields, backend);
  tell_unknown_fields(fields, exchange, backend);
}

void tell_unknown_fields(const Fields& fields, HttpExchange& exchange, const Backend& backend) {
  refuse_unknown(fields, backend);
  const UnknownFields& unknown = fields.unknown();
  if (unknown.names.empty()) {
    return;
  }
  exchange.add_header("X-Ignored-Fields", list_of_names(unknown));
  for (const std::string& name : unknown.names) {
    const std::string kind = list_of_names({.names = {without_numbers(name)}, .count = 1});
    exchange.log().warning_once(kind.find('[') == std::string::npos
                                    ? fmt::format("a request has the unknown field {}, which is ignored", kind)
                                    : fmt::format("a request has {}, which the model does not get as it was sent", kind));
  }
}

std::string list_of_names(const UnknownFields& unknown) {
  constexpr std::size_t longest = 1024;
  std::string list;
  std::size_t listed = 0;
  for (const std::string& name : unknown.names) {
    std::string escaped = listed == 0 ? "" : ", ";
    for (const char c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         std::string_view("_.-[]").find(c) != std::string_view::npos;
      escaped += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    if (list.size() + escaped.size() > longest) {
      break;
    }
    list += escaped;
    ++listed;
  }
  return listed == unknown.count ? list : list + ", ...";
}

}  // namespace rocmforge
