#include "server/api/llama_server/infill.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/llama_server/llama_server.h"
#include "server/api/raw_prompts.h"

namespace rocmforge {
namespace {

/// Another text of the same project.
struct ExtraText {
  std::string filename, text;
};

struct InfillRequest {
  std::string prefix, suffix, prompt;
  std::vector<ExtraText> extra;
  bool add_special = true;
};

InfillRequest read_infill(Fields& fields) {
  InfillRequest read;
  read.prefix = fields.needed_text("input_prefix");
  read.suffix = fields.needed_text("input_suffix");
  read.prompt = fields.text("prompt").value_or("");
  read.add_special = fields.boolean("add_special_tokens").value_or(true);
  const Json* extra = fields.array("input_extra");
  for (std::size_t i = 0; extra != nullptr && i < extra->size(); ++i) {
    Fields one = fields.inner((*extra)[i], fmt::format("input_extra[{}].", i));
    ExtraText& text = read.extra.emplace_back();
    text.filename = one.text("filename").value_or("tmp");
    text.text = one.needed_text("text");
    one.ignore({"time"});  // when the text was last viewed: only clients use it
    one.finish();
  }
  return read;
}

/// The other texts, each after the mark of a file, or after a line "--- snippet ---" if the model has no such mark.
Ids encode_extra(Reading& reading, const Tokenizer& tokenizer, const std::vector<ExtraText>& extra) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  const bool has_files = vocabulary.fim_sep >= 0;
  Ids ids;
  const auto add = [&](std::string_view text) {
    const Ids more = encode_text(reading, tokenizer, text, {.add_special = false});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  if (vocabulary.fim_rep >= 0) {
    ids.push_back(vocabulary.fim_rep);
    add("project\n");
  }
  for (const ExtraText& one : extra) {
    if (has_files) {
      ids.push_back(vocabulary.fim_sep);
    }
    add(has_files ? one.filename + "\n" : "\n\n--- snippet ---\n\n");
    add(one.text);
  }
  if (has_files) {
    ids.push_back(vocabulary.fim_sep);
    add("filename\n");  // for the file with the gap, whose name clients do not send
  }
  return ids;
}

/// The whole prompt. Of the other texts it has the last tokens that fit beside an answer of `max_tokens`; without a limit,
/// an eighth of the context is left for the answer.
Ids encode_infill(Reading& reading, const ServedModel& model, const InfillRequest& asked, std::int32_t max_tokens) {
  const Tokenizer& tokenizer = model.text();
  const Ids prefix = encode_text(reading, tokenizer, asked.prefix + asked.prompt, {.add_special = false});
  const Ids suffix = encode_text(reading, tokenizer, asked.suffix, {.add_special = false});
  Ids gap = infill_prompt(tokenizer, prefix, suffix, asked.add_special);
  if (asked.extra.empty()) {
    return gap;
  }
  Ids prompt = encode_extra(reading, tokenizer, asked.extra);
  const std::int64_t answer = max_tokens < 0 ? model.context_length / 8 : max_tokens;
  const std::int64_t room = model.context_length - static_cast<std::int64_t>(gap.size()) - answer;
  const auto taken =
      static_cast<std::ptrdiff_t>(std::clamp(room, std::int64_t{0}, static_cast<std::int64_t>(prompt.size())));
  prompt.erase(prompt.begin(), prompt.end() - taken);
  prompt.insert(prompt.end(), gap.begin(), gap.end());
  return prompt;
}

}  // namespace

void serve_infill(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  require_infill(backend.model);
  exchange->reading.hold(exchange->reading.held());  // for copies of the texts
  const InfillRequest asked = read_infill(fields);
  // Editors send limits of time and a filter of their own with every request.
  fields.ignore({"t_max_prompt_ms", "t_max_predict_ms", "n_indent", "samplers"});
  const auto give = [&](std::size_t, Request& request) {
    request.prompt = encode_infill(exchange->reading, backend.model, asked, request.max_tokens);
  };
  start_llama_completion(fields, exchange, backend, {.sent = {asked.prompt}, .give = give});
}

}  // namespace rocmforge
