#include "server/api/raw_prompts.h"

#include <string>
#include <vector>

#include "server/api/api_error.h"

namespace rocmforge {

bool fills_gaps(const Vocabulary& vocabulary) {
  return vocabulary.fim_pre >= 0 && vocabulary.fim_suf >= 0 && vocabulary.fim_mid >= 0;
}

void require_infill(const ServedModel& model, const std::string& field) {
  if (!fills_gaps(model.text().vocabulary())) {
    throw ApiError(501,
                   "the model's file names no tokens for a gap in a text (tokenizer.ggml.fim_pre_token_id, "
                   "fim_suf_token_id, fim_mid_token_id): it can't fill one in",
                   field);
  }
}

Ids infill_prompt(const Tokenizer& tokenizer, const Ids& prefix, const Ids& suffix, bool add_special) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  Ids ids;
  ids.reserve(prefix.size() + suffix.size() + 4);
  if (add_special && tokenizer.adds_bos() && vocabulary.bos >= 0) {
    ids.push_back(vocabulary.bos);
  }
  ids.push_back(vocabulary.fim_pre);
  ids.insert(ids.end(), prefix.begin(), prefix.end());
  ids.push_back(vocabulary.fim_suf);
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  ids.push_back(vocabulary.fim_mid);
  return ids;
}

std::vector<Ids> read_raw_prompts(Fields& fields, const ServedModel& model, Reading& reading) {
  const std::string suffix = fields.text("suffix").value_or("");
  if (suffix.empty()) {
    return read_prompts(fields, "prompt", model, reading, read_raw_rules(fields));
  }
  require_infill(model, "suffix");
  if (fields.boolean("echo").value_or(false)) {
    fields.fail("echo", "and suffix can't both be given");
  }
  // Marks written in the texts around a gap stay text: the gap has its own.
  const Tokenizer::EncodeOptions rules = {.add_special = false};
  std::vector<Ids> prompts = read_prompts(fields, "prompt", model, reading, rules);
  const Ids behind = encode_text(reading, model.text(), suffix, rules);
  reading.hold(static_cast<std::int64_t>(prompts.size() * behind.size() * sizeof(std::int32_t)));
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  for (Ids& prompt : prompts) {
    prompt = infill_prompt(model.text(), prompt, behind, add_special);
  }
  return prompts;
}

Ids encode_raw_prompt(Fields& fields, const std::string& prompt, const std::string& suffix, const ServedModel& model,
                      Reading& reading) {
  if (suffix.empty()) {
    return encode_text(reading, model.text(), prompt, read_raw_rules(fields));
  }
  require_infill(model, "suffix");
  const Tokenizer::EncodeOptions rules = {.add_special = false};
  const Ids before = encode_text(reading, model.text(), prompt, rules);
  return infill_prompt(model.text(), before, encode_text(reading, model.text(), suffix, rules),
                       fields.boolean("add_special_tokens").value_or(true));
}

}  // namespace rocmforge
