#include "server/api/raw_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/content_parts.h"
#include "service/prompt_images.h"
#include "service/sounds.h"

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

namespace {

/// The images and recordings of `multimodal_data`; their first bytes say which is which.
std::vector<Part> read_media(Fields& prompt, const ServedModel& model) {
  constexpr std::string_view name = "multimodal_data";
  const Json* data = prompt.array(name);
  std::vector<Part> media;
  for (std::size_t i = 0; data != nullptr && i < data->size(); ++i) {
    const std::string field = fmt::format("{}[{}]", prompt.full_name(name), i);
    if (!(*data)[i].is_string()) {
      prompt.fail(name, "must be an array of strings in base64");
    }
    const std::string& base64 = (*data)[i].get_ref<const std::string&>();
    const bool is_sound = begins_as_sound(base64);
    if (is_sound ? !model.sounds : !model.images) {
      throw ApiError(501, fmt::format("{}: the model {}", field, is_sound ? "hears no recordings" : "sees no images"),
                     prompt.full_name(name));
    }
    media.push_back(is_sound ? Part(SoundPart{.url = data_url("audio", base64), .field = field})
                             : Part(ImagePart{.url = data_url("image", base64), .field = field}));
  }
  return media;
}

/// The model's placeholder for an image or a recording, and what messages call it.
struct MarkOfMedia {
  std::string_view text;
  std::int32_t id;
  std::string_view words;
};
MarkOfMedia mark_of(const Part& part, const ServedModel& model) {
  const bool is_sound = std::holds_alternative<SoundPart>(part);
  const std::string& text = (is_sound ? model.sounds : model.images)->placeholder;
  const MarkOfMedia mark{text, model.text().find(text), (is_sound ? sound_words : image_words).one};
  if (mark.id < 0) {
    throw ApiError(501, fmt::format("the model's vocabulary has no token '{}', which stands for {}", text, mark.words));
  }
  return mark;
}

std::size_t count_marks(std::string_view text) {
  std::size_t marks = 0;
  for (std::size_t at = 0; (at = text.find(media_marker, at)) != std::string_view::npos; at += media_marker.size()) {
    ++marks;
  }
  return marks;
}

/// The ids of a text, with the model's own placeholders at the marks, of which there are as many as `media`.
RawPrompt encode_between_marks(Fields& fields, std::string_view text, std::vector<Part> media, const ServedModel& model,
                               Reading& reading, Tokenizer::EncodeOptions rules) {
  std::vector<Tokenizer::TextPart> parts;
  std::vector<MarkOfMedia> marks;
  for (const Part& each : media) {
    marks.push_back(mark_of(each, model));
    const std::size_t end = text.find(media_marker);
    parts.push_back({text.substr(0, end), rules.parse_special});
    parts.push_back({marks.back().text, true});
    text.remove_prefix(end + media_marker.size());
  }
  parts.push_back({text, rules.parse_special});
  RawPrompt prompt{.ids = encode_parts(reading, model.text(), parts, rules.add_special), .media = std::move(media)};
  for (std::size_t i = 0; i < prompt.ids.size(); ++i) {
    const auto of_id = [&](const MarkOfMedia& mark) { return mark.id == prompt.ids[i]; };
    const auto mark = std::ranges::find_if(marks, of_id);
    if (mark == marks.end()) {
      continue;
    }
    if (prompt.places.size() == marks.size() || !of_id(marks[prompt.places.size()])) {
      fields.fail("prompt_string", fmt::format("holds '{}', which stands for {}", mark->text, mark->words));
    }
    prompt.places.push_back(static_cast<std::int32_t>(i));
  }
  return prompt;
}

template <class Kind>
PlacedParts<Kind> placed_parts(const RawPrompt& prompt) {
  PlacedParts<Kind> found;
  for (std::size_t i = 0; i < prompt.media.size(); ++i) {
    if (const auto* part = std::get_if<Kind>(&prompt.media[i])) {
      found.parts.push_back(part);
      found.places.push_back(prompt.places[i]);
    }
  }
  return found;
}

}  // namespace

RawPrompt read_raw_prompt(Fields& fields, const std::string& path, const Json& value, const ServedModel& model,
                          Reading& reading, Tokenizer::EncodeOptions rules) {
  if (!value.is_object()) {
    return {.ids = read_prompt(fields, "prompt", value, model, reading, rules)};
  }
  Fields one = fields.inner(value, path + ".");
  const std::string text = one.needed_text("prompt_string");
  std::vector<Part> media = read_media(one, model);
  one.finish();
  if (media.empty()) {
    return {.ids = encode_text(reading, model.text(), text, rules)};
  }
  if (const std::size_t marks = count_marks(text); marks != media.size()) {
    one.fail("multimodal_data", fmt::format("has {} images and recordings, the text has {} marks {} for them", media.size(),
                                            marks, media_marker));
  }
  return encode_between_marks(one, text, std::move(media), model, reading, rules);
}

void give_prompt(Request& request, RawPrompt prompt, const ServedModel& model, ImageAllowance& allowance, Reading& reading) {
  request.prompt = std::move(prompt.ids);
  // Images of a model without an encoder are read for their errors alone.
  static_cast<void>(give_media(request, placed_parts<ImagePart>(prompt), placed_parts<SoundPart>(prompt), MarksAround::none,
                               model, allowance, reading));
}

std::string path_of_prompt(std::size_t number, bool is_list) {
  return is_list ? fmt::format("prompt[{}]", number) : "prompt";
}

std::vector<RawPrompt> read_raw_prompts(Fields& fields, const ServedModel& model, Reading& reading) {
  const std::string suffix = fields.text("suffix").value_or("");
  std::vector<RawPrompt> read;
  if (suffix.empty()) {
    const Tokenizer::EncodeOptions rules = read_raw_rules(fields);
    for (const Json* value : prompt_values(fields, "prompt", true)) {
      const std::string path = path_of_prompt(read.size(), value != fields.find("prompt"));
      read.push_back(read_raw_prompt(fields, path, *value, model, reading, rules));
    }
    return read;
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
  for (const Ids& prompt : prompts) {
    read.push_back({.ids = infill_prompt(model.text(), prompt, behind, add_special)});
  }
  return read;
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
