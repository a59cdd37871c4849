#include "service/turn.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "grammar/grammar_constraint.h"
#include "grammar/thought_budget.h"
#include "service/chat_prompt.h"
#include "service/chat_tools.h"
#include "service/encoding.h"
#include "service/prompt_images.h"
#include "tokenizer/answer_formats.h"

namespace rocmforge {
namespace {

using Constraint = std::shared_ptr<const TokenConstraint>;

/// What ends reasoning at its limit. A grammar begins directly after the mark. In the harmony format the answer's message is
/// begun, too, or where it may be a call, a message whose channel the model chooses.
std::string closing_of(const ToolUse& use, bool has_grammar) {
  if (!use.format.in_channels) {
    return fmt::format("\n{}{}", use.format.reasoning.end, has_grammar ? "" : "\n\n");
  }
  return fmt::format("{}{}assistant{}", harmony_marks::end, harmony_marks::start,
                     use.format.has_tools ? "" : use.format.reasoning.end);
}

/// Adds the limit of reasoning tokens to `constraint`.
Constraint limit_reasoning(const Reasoning& reasoning, const ToolUse& use, const ServedModel& model, Constraint constraint) {
  if (!reasoning.budget || *reasoning.budget < 0) {
    return constraint;
  }
  const ReasoningMarks& marks = use.format.reasoning;
  const std::string closing = closing_of(use, constraint != nullptr);
  const std::array parts = {Tokenizer::TextPart{closing, true}};
  ThoughtBudget budget{.begin = std::string(marks.begin),
                       .end = std::string(use.format.in_channels ? harmony_marks::end : marks.end),
                       .is_open = use.format.reasoning_is_open,
                       .tokens = static_cast<std::int32_t>(*reasoning.budget),
                       .closing = model.text().encode(parts, false)};
  return make_thought_budget(model.tokenizer, std::move(budget), constraint.get());
}

/// The answer's constraint, from its tools and its grammar: a call, or an answer by the grammar. A required call leaves the
/// grammar aside. In channels calls have a channel of their own, so that the grammar of the final one leaves them free.
Constraint choose_constraint(std::optional<AnswerGrammar> grammar, const ToolUse& use, GrammarCache& grammars,
                             Reading& reading) {
  const GrammarTrigger after_reasoning{.text = std::string(use.format.reasoning.end)};
  const bool waits = use.format.reasoning_is_open || use.format.header_is_open;
  Constraint wanted = constrain(std::move(grammar), grammars, reading, waits ? &after_reasoning : nullptr);
  if (wanted == nullptr || use.constraint == nullptr) {
    return wanted != nullptr ? wanted : use.constraint;
  }
  if (use.calls == nullptr) {
    return use.constraint;
  }
  return use.format.in_channels
             ? wanted
             : make_call_or_answer(wanted->clone(), use.calls, use.trigger, waits ? after_reasoning.text : "");
}

/// The parts of one kind, which the model takes as `input` says; render_chat() has refused what it does not take.
template <class Kind>
PlacedParts<Kind> placed_parts(std::vector<const Kind*> parts, const std::optional<ImageInput>& input,
                               const MediaWords& words, const Turn& turn, const ChatCall& call, const ServedModel& model) {
  if (parts.empty()) {
    return {};
  }
  std::vector<std::int32_t> places = places_of_images(parts.size(), *input, model.text(), call.prompt.segments,
                                                      turn.request.prompt, parts.front()->field, words);
  return {std::move(parts), std::move(places)};
}

/// Decodes the images and recordings of a prompt and gives them to the request; images without an encoder to the turn.
void add_media(Turn& turn, const ChatCall& call, const ServedModel& model, Reading& reading) {
  const auto images = placed_parts(call.conversation.images(), model.images, image_words, turn, call, model);
  const auto sounds = placed_parts(call.conversation.sounds(), model.sounds, sound_words, turn, call, model);
  ImageAllowance allowance;
  GivenMedia given = give_media(turn.request, images, sounds, MarksAround::by_template, model, allowance, reading);
  turn.images = std::move(given.left);
  turn.sound_seconds = given.sound_seconds;
}

}  // namespace

Turn make_turn(TurnRequest asked, ModelInstance& model, Reading& reading) {
  const ServedModel& facts = model.facts();
  ChatCall call = render_chat(std::move(asked.conversation), facts, reading, asked.templates);
  ToolUse use = prepare_tools(call, asked.splits_reasoning, facts.text(), model.grammars(), reading);
  Turn turn{.request = std::move(asked.request)};
  turn.request.prompt = encode_prompt(reading, facts.text(), call.prompt.segments);
  add_media(turn, call, facts, reading);
  turn.request.constraint = limit_reasoning(call.conversation.reasoning, use, facts,
                                            choose_constraint(std::move(asked.grammar), use, model.grammars(), reading));
  turn.conversation = std::move(call.conversation);
  turn.format = std::move(use.format);
  turn.opening = std::move(use.opening);
  turn.relaxed = std::move(use.relaxed);
  return turn;
}

}  // namespace rocmforge
