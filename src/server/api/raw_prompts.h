#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "schedule/request.h"
#include "server/api/fields.h"
#include "server/api/prompts.h"
#include "service/images.h"

namespace rocmforge {

// Texts that a model continues, and texts with a gap.

/// Throws ApiError(501), naming the field, where the model's vocabulary has no infill tokens
/// (Vocabulary::fim_pre, fim_suf, fim_mid).
void require_infill(const ServedModel& model, const std::string& field = {});

/// The prompt of an infill: both texts with their infill tokens, and BOS where the model adds it
/// and `add_special` is true. Special tokens written in the texts stay text.
Ids infill_prompt(const Tokenizer& tokenizer, const Ids& prefix, const Ids& suffix, bool add_special);

/// Whether the model's vocabulary has infill tokens.
[[nodiscard]] bool fills_gaps(const Vocabulary& vocabulary);

/// What stands for an image or a recording in the text of a prompt that has some (llama-server's default).
constexpr std::string_view media_marker = "<__media__>";

/// A prompt that a model continues. One with images or recordings has the placeholder at the place of each.
struct RawPrompt {
  Ids ids{};
  std::vector<Part> media{};           ///< images and recordings
  std::vector<std::int32_t> places{};  ///< of them, ascending
};

/// One of prompt_values(): as read_prompt(), or an object with a `prompt_string`, whose marks stand for the images and
/// recordings of `multimodal_data`, in base64. `path` is its place in the request: "prompt", "prompt[1]".
RawPrompt read_raw_prompt(Fields& fields, const std::string& path, const Json& value, const ServedModel& model,
                          Reading& reading, Tokenizer::EncodeOptions rules);

/// Its `path`, in a list or alone.
std::string path_of_prompt(std::size_t number, bool is_list);

/// Gives a prompt to a request, and its images and recordings. `allowance` is that of all prompts of the client's request.
void give_prompt(Request& request, RawPrompt prompt, const ServedModel& model, ImageAllowance& allowance, Reading& reading);

/// The field `prompt`: texts that are continued, or with the field `suffix` the texts before a gap.
std::vector<RawPrompt> read_raw_prompts(Fields& fields, const ServedModel& model, Reading& reading);

/// The same for one text that has been read, and the text after its gap, or "".
Ids encode_raw_prompt(Fields& fields, const std::string& prompt, const std::string& suffix, const ServedModel& model,
                      Reading& reading);

}  // namespace rocmforge
