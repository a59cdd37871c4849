#include "loaded_model.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "base/json_document.h"
#include "chat_call.h"
#include "model_path.h"
#include "named_options.h"
#include "service/embedding.h"
#include "service/service_error.h"
#include "service/stream.h"
#include "usage_error.h"

namespace rocmforge {
namespace {

using app::UsageError;

/// Warnings go to standard error, like the program's, unless the process already has a logger of that name.
void open_log() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (spdlog::get("rocmforge") == nullptr) {
      spdlog::stderr_logger_mt("rocmforge")->set_pattern("rocmforge: %v");
    }
  });
}

template <std::size_t size>
void copy_text(char (&to)[size], const std::string& text) {
  const std::size_t count = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
}

/// The request as an object; an array becomes its messages. Throws UsageError.
Json read_request(const std::string& text) {
  JsonDocument document = read_json(text);
  Document request(std::move(document.value));
  if (!document.problem.empty()) {
    throw UsageError(fmt::format("the request is not valid JSON: {}", document.problem));
  }
  if (request.root.is_array()) {
    return {{"messages", std::move(request.root)}};
  }
  if (!request.root.is_object()) {
    throw UsageError("the request is neither an array of messages nor a JSON object");
  }
  return std::move(request.root);
}

/// Runs `body`. What it says of a status becomes the exception that other calls throw for it.
template <class Body>
std::string without_status(Body&& body) {
  try {
    return body();
  } catch (const ApiError& error) {
    switch (error.status) {
      case 429:
        throw ServiceError(ServiceError::Kind::busy, error.message);
      case 503:
        throw std::bad_alloc();
      default:
        throw Error(error.message);
    }
  }
}

}  // namespace

app::Command LoadedModel::CallFlags::command() {
  app::Command command;
  command.name = "rocmforge run";
  generation.add_to(command);
  chat_template.add_to(command);
  command.options.push_back(app::raw_option(raw, command));
  return command;
}

LoadedModel::LoadedModel(const std::string& path, NamedOptions options) {
  constexpr std::int32_t usual_parallel = 8;
  open_log();
  app::EngineFlags engine_flags;
  app::ServiceFlags service_flags;
  service_flags.parallel = usual_parallel;
  app::Command command = flags_.command();
  engine_flags.add_to(command);
  service_flags.add_to(command);
  app::read_named_options(command, options, true);
  flags_.generation.validate(flags_.raw);
  const EngineOptions engine_options = service_flags.engine_options(engine_flags);
  const std::string file = app::find_model(path);
  server_options_ = service_flags.server_options(file, flags_.generation.sampling(), flags_.chat_template);
  auto engine = load_model(file, engine_options);
  if (!flags_.chat_template.think.empty()) {
    static_cast<void>(app::choose_templates(*engine, flags_.chat_template));  // throws if the template has no such choice
  }
  static_cast<void>(flags_.generation.request(*engine));
  engine_ = engine.get();
  model_ = service_->models.add(std::move(engine), server_options_);
  client_ = std::make_unique<LocalClient>(service_, server_options_);
}

rocmforge_model_properties LoadedModel::properties() const {
  const ServedModel& model = model_->facts();
  rocmforge_model_properties out{};
  out.vocab_size = model.vocab;
  out.context_length = model.context_length;
  out.embedding_length = model.hidden;
  out.has_tokenizer = model.tokenizer != nullptr ? 1 : 0;
  out.has_chat_template = model.templates != nullptr ? 1 : 0;
  out.bos_token = model.tokenizer != nullptr ? model.tokenizer->vocabulary().bos : -1;
  out.eos_token = model.tokenizer != nullptr ? model.tokenizer->vocabulary().eos : -1;
  out.threads = engine_->threads();
  out.parameters = static_cast<std::uint64_t>(engine_->num_parameters());
  out.file_bytes = engine_->file_bytes();
  copy_text(out.architecture, engine_->model().config().architecture);
  copy_text(out.device, app::describe_device(engine_->device_info(), engine_->threads()));
  copy_text(out.path, engine_->file().path().string());
  return out;
}

LoadedModel::CallFlags LoadedModel::read(NamedOptions options) const {
  CallFlags flags = flags_;
  app::Command command = flags.command();
  app::read_named_options(command, options, false);
  flags.generation.validate(flags.raw);
  return flags;
}

std::string LoadedModel::generate(const std::string& prompt, NamedOptions options, const TakeText& take) {
  const CallFlags flags = read(options);
  return answer(app::prompt_turn(*model_, *engine_, flags.generation, flags.chat_template, flags.raw, prompt).request, take);
}

std::string LoadedModel::generate(std::vector<std::int32_t> tokens, NamedOptions options, const TakeText& take) {
  check_tokens(tokens);
  const CallFlags flags = read(options);
  return answer(app::tokens_turn(*model_, *engine_, flags.generation, std::move(tokens)).request, take);
}

std::string LoadedModel::answer(Request request, const TakeText& take) {
  const AnswerEnd answer = wait_for_answer(model_->loop(), std::move(request), {.text = take});
  return to_text(Json{{"text", answer.text},
                      {"finish_reason", name(answer.last.finish)},
                      {"shifted", answer.shifted},
                      {"prompt_tokens", answer.stats.prompt_tokens},
                      {"cached_tokens", answer.stats.cached_tokens},
                      {"generated_tokens", answer.stats.generated_tokens},
                      {"drafted_tokens", answer.stats.drafted_tokens},
                      {"accepted_tokens", answer.stats.accepted_tokens},
                      {"prompt_seconds", answer.stats.prompt_seconds},
                      {"decode_seconds", answer.stats.decode_seconds}});
}

Backend LoadedModel::backend() const {
  return {.instance = model_,
          .model = model_->facts(),
          .active = service_->active,
          .responses = service_->responses,
          .request_time = server_options_.request_time,
          .strict_fields = server_options_.strict_fields};
}

std::string LoadedModel::chat(const std::string& text, NamedOptions options, const TakeText& take) {
  const CallFlags flags = read(options);
  Document request(read_request(text));
  if (flags.raw || flags.chat_template.format != flags_.chat_template.format ||
      flags.chat_template.file != flags_.chat_template.file) {
    throw UsageError(
        "a conversation is for the chat template that the model was loaded with: --raw, --chat-format and "
        "--chat-template-file are not for a single one");
  }
  flags.generation.write(request.root);
  if (Json variables = flags.chat_template.variables(); !variables.empty()) {
    request.root.emplace("chat_template_kwargs", std::move(variables));
  }
  request.root["stream"] = take != nullptr;
  return without_status([&] {
    try {
      Reading reading(server_options_.request_work, nullptr, "local");
      return answer_chat(request.root, reading, backend(), take);
    } catch (const ServiceError& error) {
      throw ApiError(error);
    }
  });
}

HttpResponse LoadedModel::request(const std::string& method, const std::string& path, std::string body,
                                  const TakeText& take) {
  return client_->request(method, path, std::move(body), take);
}

std::vector<float> LoadedModel::embed(std::span<const std::string> texts) {
  const ServedModel& model = model_->facts();
  std::vector<float> values;
  if (texts.empty()) {
    return values;
  }
  const Pooling pooling = choose_pooling(model);
  constexpr std::size_t most = 256;  // texts at once, so that other requests find room in the queue
  for (std::size_t first = 0; first < texts.size(); first += most) {
    std::vector<Request> requests;
    for (const std::string& text : texts.subspan(first, std::min(most, texts.size() - first))) {
      Ids ids = embedded_ids(tokenizer().encode(text, {.add_special = true}), model);
      if (ids.size() > static_cast<std::size_t>(model.context_length)) {
        throw Error(fmt::format("text {} is too large: {} tokens, the context holds {}", first + requests.size(), ids.size(),
                                model.context_length));
      }
      requests.push_back(embedding_request(std::move(ids), pooling));
    }
    for (StepOutput& end : wait_for_ends(model_->loop(), std::move(requests))) {
      const std::vector<float> vector = normalised(std::move(end.embedding), static_cast<std::size_t>(model.hidden));
      values.insert(values.end(), vector.begin(), vector.end());
    }
  }
  return values;
}

void LoadedModel::check_tokens(std::span<const std::int32_t> tokens) const {
  if (tokens.empty()) {
    throw UsageError("there are no tokens");
  }
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocab()) {
      throw UsageError(fmt::format("{} is no token, the vocabulary has {}", token, vocab()));
    }
  }
}

std::vector<float> LoadedModel::logits(std::vector<std::int32_t> tokens) {
  check_tokens(tokens);
  Request request;
  request.prompt = std::move(tokens);
  request.sampling.temperature = 0.0f;
  request.max_tokens = 1;
  request.logits = true;
  return std::move(wait_for_answer(model_->loop(), std::move(request)).last.logits);
}

SamplingParams LoadedModel::sampling(NamedOptions options) const {
  return read(options).generation.request(*engine_).sampling;
}

std::unique_ptr<Server> LoadedModel::serve(const app::ListenFlags& flags) {
  ServerOptions options = server_options_;
  flags.apply(options, engine_->vision() != nullptr);
  return std::make_unique<Server>(options, service_);
}

}  // namespace rocmforge
