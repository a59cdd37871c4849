#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/decimal.h"
#include "base/json_document.h"
#include "flags.h"
#include "grammar/byte_automaton.h"
#include "grammar/gbnf_parser.h"
#include "grammar/json_schema.h"
#include "read_text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

const std::string sampling_group = "Sampling";

std::pair<std::int32_t, float> parse_bias(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int32_t id = -1;
  float bias = std::numeric_limits<float>::quiet_NaN();
  if (equals != std::string::npos) {
    const auto [id_end, id_error] = std::from_chars(text.data(), text.data() + equals, id);
    const DecimalPrefix read = read_decimal(text.substr(equals + 1));
    // Beyond the range of a float it is infinite.
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr double most = std::numeric_limits<float>::max();
    bias = read.value > most ? infinity : read.value < -most ? -infinity : static_cast<float>(read.value);
    if (id_error != std::errc() || id_end != text.data() + equals || equals + 1 == text.size() ||
        equals + 1 + read.length != text.size()) {
      id = -1;
    }
  }
  if (id < 0 || std::isnan(bias) || bias == std::numeric_limits<float>::infinity()) {
    throw UsageError(fmt::format("--logit-bias: '{}' is not ID=VALUE, as in 42=-inf", text));
  }
  return {id, bias};
}

/// Returns the result of `body`. Turns an Error into a UsageError that names the flag.
template <class Body>
auto naming_flag(const std::string& flag, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", flag, error.what()));
  }
}

nlohmann::ordered_json read_schema(const std::string& flag, const std::string& text) {
  JsonDocument document = read_json(text);
  nlohmann::ordered_json& schema = document.value;
  if (!document.problem.empty()) {
    throw UsageError(fmt::format("{}: the schema is not valid JSON: {}", flag, document.problem));
  }
  if (!schema.is_object() && !schema.is_boolean()) {
    throw UsageError(fmt::format("{}: the schema is not a JSON object", flag));
  }
  return std::move(schema);
}

}  // namespace

void SamplingFlags::add_to(Command& command) {
  for (std::size_t i = 0; i < sampling_numbers().size(); ++i) {
    const SamplingNumber& number = sampling_numbers()[i];
    // Whole numbers are limited only by their type, and help does not show that limit.
    const bool bounded = !number.is_whole();
    command.options.push_back({.names = std::string(number.flag),
                               .target = &choices_.values[i],
                               .meaning = std::string(number.meaning),
                               .group = sampling_group,
                               .range = {.least = number.least, .whole = number.is_whole()}});
    Range& range = command.options.back().range;
    range.most = bounded ? number.most : range.most;
  }
  command.options.push_back({.names = "--samplers",
                             .target = &samplers_,
                             .meaning = "These alone, in this order, such as penalties;dry;top_k;temperature",
                             .value = "NAMES",
                             .group = sampling_group});
  command.options.push_back({.names = "--sampler-seq",
                             .target = &sampler_letters_,
                             .meaning = "The same by llama.cpp's letters, such as edkt",
                             .value = "LETTERS",
                             .group = sampling_group,
                             .excludes = {"--samplers"}});
  command.options.push_back({.names = "--greedy",
                             .target = &greedy_,
                             .meaning = "Always the most probable token",
                             .group = sampling_group,
                             .excludes = {"--temp"}});
}

SamplingChoices SamplingFlags::choices() const {
  SamplingChoices choices = choices_;
  if (!samplers_.empty()) {
    choices.order = naming_flag("--samplers", [&] { return sampler_order_of_names(samplers_); });
  } else if (!sampler_letters_.empty()) {
    choices.order = naming_flag("--sampler-seq", [&] { return sampler_order_of_letters(sampler_letters_); });
  }
  if (greedy_) {
    for (std::size_t i = 0; i < sampling_numbers().size(); ++i) {
      if (sampling_numbers()[i].name == "temperature") {
        choices.values[i] = 0.0;
      }
    }
  }
  return choices;
}

void GrammarFlags::add_to(Command& command) {
  const auto add = [&](const char* names, std::string& target, const char* meaning, const char* value) {
    command.options.push_back({.names = names, .target = &target, .meaning = meaning, .value = value});
  };
  add("--grammar", grammar_, "Hold the answer to this GBNF grammar (docs/grammars.md)", "GBNF");
  add("--grammar-file", grammar_file_, "The same, from a file", "FILE");
  add("-j,--json-schema", schema_, "Hold the answer to JSON of this schema; {} is any JSON", "JSON");
  add("--json-schema-file", schema_file_, "The same, from a file", "FILE");
  const std::vector<std::string> names = {"--grammar", "--grammar-file", "--json-schema", "--json-schema-file"};
  for (std::size_t i = 1; i < names.size(); ++i) {
    command.option(names[i]).excludes.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::string GrammarFlags::source() const {
  return !grammar_.empty()        ? "--grammar"
         : !grammar_file_.empty() ? grammar_file_
         : !schema_.empty()       ? "--json-schema"
                                  : schema_file_;
}

std::string GrammarFlags::text() const {
  const std::string text = grammar_ + schema_;
  return text.empty() ? read_text(source()) : text;
}

std::optional<AnswerGrammar> GrammarFlags::grammar() const {
  const std::string flag = source();
  if (flag.empty()) {
    return std::nullopt;
  }
  const std::string text = this->text();
  if (is_schema()) {
    const nlohmann::ordered_json schema = read_schema(flag, text);
    return AnswerGrammar{naming_flag(flag, [&] { return json_schema_grammar(schema); }), flag};
  }
  return AnswerGrammar{naming_flag(flag, [&] { return parse_gbnf(text); }), flag};
}

void GrammarFlags::validate() const {
  if (const std::optional<AnswerGrammar> asked = this->grammar()) {
    WorkBudget budget(grammar_compile_units, "grammar: compiling it");
    naming_flag(asked->field, [&] { return ByteAutomaton(asked->grammar, budget); });
  }
}

void GrammarFlags::write(nlohmann::ordered_json& request) const {
  const std::string flag = source();
  if (!flag.empty() && is_schema()) {
    request.emplace("json_schema", read_schema(flag, text()));
  } else if (!flag.empty()) {
    request.emplace("grammar", text());
  }
}

void GenerationFlags::add_to(Command& command) {
  auto& options = command.options;
  options.push_back({.names = "--system", .target = &system_, .meaning = "System message", .also = "-sys"});
  options.push_back({.names = "-n,--max-tokens,--n-predict,--predict",
                     .target = &max_tokens_,
                     .meaning = "Tokens to generate at most",
                     .range = {.least = 1, .special = -1, .special_note = "no limit"}});
  options.push_back({.names = "--stop", .target = &stop_, .meaning = "End the answer at this text (may be repeated)"});
  options.push_back({"--ignore-eos", &ignore_eos_, "Go on after an end-of-generation token"});
  options.push_back({"--context-shift", &context_shift_, "When the context is full drop the older half and go on"});
  grammar_.add_to(command);
  sampling_.add_to(command);
  options.push_back({.names = "--logit-bias",
                     .target = &logit_bias_,
                     .meaning = "Add to a token's logit (may be repeated)",
                     .value = "ID=VALUE",
                     .group = sampling_group});
  options.push_back({.names = "--seed",
                     .target = &seed_,
                     .meaning = "Same seed, same answer",
                     .group = sampling_group,
                     .range = {.least = 0, .special = -1, .special_note = "a random one"}});
}

void GenerationFlags::validate(bool raw) const {
  if (raw && !system_.empty()) {
    throw UsageError("--system has no meaning with --raw");
  }
  Request request;
  add_biases(request, std::numeric_limits<std::int32_t>::max());
  grammar_.validate();
  static_cast<void>(sampling_.choices());
  for (const std::string& text : stop_) {
    if (text.empty()) {
      throw UsageError("--stop: the text is empty");
    }
  }
}

void GenerationFlags::add_biases(Request& request, std::int32_t vocab) const {
  for (const std::string& text : logit_bias_) {
    const auto [id, bias] = parse_bias(text);
    if (id >= vocab) {
      throw UsageError(fmt::format("--logit-bias: {} is no token, the vocabulary has {}", id, vocab));
    }
    request.sampling.logit_bias[id] = bias;
  }
}

Request GenerationFlags::request(const Engine& engine) const {
  Request request;
  request.sampling = engine.sampling();
  sampling_.choices().apply(request.sampling);
  if (seed_ >= 0) {
    request.sampling.seed = static_cast<std::uint64_t>(seed_);
  }
  add_biases(request, engine.model().config().vocab);
  request.max_tokens = max_tokens_;
  request.stop = stop_;
  request.ignore_eos = ignore_eos_;
  request.context_policy = context_shift_ ? ContextPolicy::shift : ContextPolicy::stop;
  return request;
}

void GenerationFlags::write(nlohmann::ordered_json& request) const {
  if (context_shift_) {
    throw UsageError("--context-shift is for prompts; in a conversation drop the oldest messages");
  }
  const auto write_one = [&](std::string_view name, nlohmann::ordered_json value) {
    request.emplace(std::string(name), std::move(value));
  };
  const SamplingChoices choices = sampling_.choices();
  for (std::size_t i = 0; i < sampling_numbers().size(); ++i) {
    const SamplingNumber& number = sampling_numbers()[i];
    if (const std::optional<double>& value = choices.values[i]) {
      number.is_whole() ? write_one(number.name, static_cast<std::int64_t>(*value)) : write_one(number.name, *value);
    }
  }
  if (choices.order) {
    write_one("samplers", names_of(*choices.order));
  }
  if (seed_ >= 0) {
    write_one("seed", seed_);
  }
  if (max_tokens_ >= 0 && !request.contains("max_completion_tokens")) {
    write_one("max_tokens", max_tokens_);
  }
  if (!stop_.empty()) {
    write_one("stop", stop_);
  }
  if (ignore_eos_) {
    write_one("ignore_eos", true);
  }
  if (!logit_bias_.empty()) {
    auto biases = nlohmann::ordered_json::array();
    for (const std::string& text : logit_bias_) {
      const auto [id, bias] = parse_bias(text);
      biases.push_back({id, std::isinf(bias) ? nlohmann::ordered_json(false) : nlohmann::ordered_json(bias)});
    }
    write_one("logit_bias", std::move(biases));
  }
  grammar_.write(request);
  const auto messages = request.find("messages");
  const auto begins_with_system = [](const nlohmann::ordered_json& list) {
    return !list.empty() && list.front().is_object() && list.front().contains("role") && list.front()["role"] == "system";
  };
  if (!system_.empty() && messages != request.end() && messages->is_array() && !begins_with_system(*messages)) {
    messages->insert(messages->begin(), nlohmann::ordered_json{{"role", "system"}, {"content", system_}});
  }
}

}  // namespace rocmforge::app
