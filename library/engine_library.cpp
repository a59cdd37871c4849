// The C interface: converts handles, texts and arrays to objects, and exceptions to a status and a message.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "handles.h"
#include "loaded_model.h"
#include "named_options.h"
#include "rocmforge/rocmforge.h"
#include "service/service_error.h"
#include "text_sequence.h"
#include "usage_error.h"

namespace rocmforge {
namespace {

using app::UsageError;

struct RunningServer {
  std::shared_ptr<LoadedModel> model;
  std::chrono::milliseconds drain_time{};
  std::unique_ptr<Server> server;  ///< destroyed first
};

struct Registry {
  Handles<LoadedModel, rocmforge_model> models;
  Handles<TextSequence, rocmforge_sequence> sequences;
  Handles<RunningServer, rocmforge_server> servers;
};

/// Never destroyed: threads may still be in a call when the process ends.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

// A fixed buffer, so that reporting a lack of memory allocates nothing.
thread_local char last_error[2048] = "";

void keep_error(std::string_view text) noexcept {
  const std::size_t count = std::min(text.size(), sizeof last_error - 1);
  std::memcpy(last_error, text.data(), count);
  last_error[count] = '\0';
}

/// Keeps the message as one line, like the program prints it, and returns `status`.
rocmforge_status fail(rocmforge_status status, const char* message) noexcept {
  try {
    std::string line = message;
    std::ranges::replace(line, '\n', ' ');
    keep_error(printable(line, longest_line));
  } catch (const std::exception&) {
    keep_error(message);
  }
  return status;
}

template <class Body>
rocmforge_status guarded(Body&& body) noexcept {
  try {
    body();
    return ROCMFORGE_OK;
  } catch (const UsageError& error) {
    return fail(ROCMFORGE_INVALID, error.what());
  } catch (const ServiceError& error) {
    return fail(error.kind == ServiceError::Kind::busy        ? ROCMFORGE_BUSY
                : error.kind == ServiceError::Kind::no_memory ? ROCMFORGE_NO_MEMORY
                                                              : ROCMFORGE_FAILED,
                error.what());
  } catch (const std::bad_alloc&) {
    return fail(ROCMFORGE_NO_MEMORY, "not enough memory");
  } catch (const std::exception& error) {
    return fail(ROCMFORGE_FAILED, error.what());
  } catch (...) {
    return fail(ROCMFORGE_FAILED, "internal error");
  }
}

template <class Object>
std::shared_ptr<Object> known(std::shared_ptr<Object> object, std::string_view what) {
  if (object == nullptr) {
    throw UsageError(fmt::format("the {} handle is null or was given back", what));
  }
  return object;
}

std::shared_ptr<LoadedModel> find(const rocmforge_model* handle) { return known(registry().models.find(handle), "model"); }
std::shared_ptr<TextSequence> find(const rocmforge_sequence* handle) {
  return known(registry().sequences.find(handle), "sequence");
}
std::shared_ptr<RunningServer> find(const rocmforge_server* handle) {
  return known(registry().servers.find(handle), "server");
}

void require(const void* pointer, std::string_view name) {
  if (pointer == nullptr) {
    throw UsageError(fmt::format("{} is NULL", name));
  }
}

std::vector<std::string> texts_of(const char* const* options) {
  std::vector<std::string> texts;
  for (; options != nullptr && *options != nullptr; ++options) {
    texts.emplace_back(*options);
  }
  return texts;
}

std::vector<std::int32_t> tokens_of(const std::int32_t* tokens, std::size_t count) {
  if (count > 0) {
    require(tokens, "tokens");
  }
  return {tokens, tokens + count};
}

/// A copy to be freed with rocmforge_free. A zero byte follows the text, which may itself contain zero bytes.
char* give_out(std::string_view text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) {
    throw std::bad_alloc();
  }
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

TakeText taker(rocmforge_on_piece on_piece, void* user) {
  if (on_piece == nullptr) {
    return nullptr;
  }
  return [on_piece, user](std::string_view text) {
    const std::string piece(text);  // a copy, for the final zero byte
    return on_piece(piece.c_str(), piece.size(), user) == 0;
  };
}

/// Runs `body`. `result` becomes a copy of the text that it returns, or null if that is empty.
template <class Body>
rocmforge_status guarded_text(char** result, Body&& body) noexcept {
  return guarded([&] {
    const std::string text = body();
    if (result != nullptr) {
      *result = text.empty() ? nullptr : give_out(text);
    }
  });
}

}  // namespace
}  // namespace rocmforge

using namespace rocmforge;  // NOLINT: what follows is C

extern "C" {

const char* rocmforge_version(void) { return ROCMFORGE_VERSION; }
const char* rocmforge_last_error(void) { return last_error; }
void rocmforge_free(void* memory) { std::free(memory); }

rocmforge_status rocmforge_model_load(const char* path, const char* const* options, rocmforge_model** model) {
  return guarded([&] {
    require(model, "model");
    auto loaded = std::make_shared<LoadedModel>(path != nullptr ? path : "", texts_of(options));
    *model = registry().models.add(std::move(loaded));
  });
}

rocmforge_status rocmforge_model_free(rocmforge_model* model) {
  return guarded([&] {
    if (model != nullptr) {
      known(registry().models.take(model), "model").reset();
    }
  });
}

rocmforge_status rocmforge_model_get_properties(const rocmforge_model* model, rocmforge_model_properties* properties) {
  return guarded([&] {
    require(properties, "properties");
    const std::size_t bytes = properties->struct_bytes;
    if (bytes < sizeof bytes) {
      throw UsageError("struct_bytes of the properties is not set");
    }
    rocmforge_model_properties all = find(model)->properties();
    all.struct_bytes = bytes;
    std::memcpy(properties, &all, std::min(bytes, sizeof all));
  });
}

rocmforge_status rocmforge_tokenize(const rocmforge_model* model, const char* text, size_t text_bytes, int flags,
                                    int32_t* tokens, size_t capacity, size_t* count) {
  return guarded([&] {
    require(count, "count");
    if (text_bytes > 0) {
      require(text, "text");
    }
    if (capacity > 0) {
      require(tokens, "tokens");
    }
    const auto ids = find(model)->tokenizer().encode(
        {text, text_bytes},
        {.add_special = (flags & ROCMFORGE_NO_SPECIAL) == 0, .parse_special = (flags & ROCMFORGE_PARSE_SPECIAL) != 0});
    std::copy_n(ids.begin(), std::min(capacity, ids.size()), tokens);
    *count = ids.size();
  });
}

rocmforge_status rocmforge_detokenize(const rocmforge_model* model, const int32_t* tokens, size_t count, int flags,
                                      char** text, size_t* text_bytes) {
  return guarded([&] {
    require(text, "text");
    const std::string decoded =
        find(model)->tokenizer().decode(tokens_of(tokens, count), (flags & ROCMFORGE_NO_SPECIAL) == 0);
    *text = give_out(decoded);
    if (text_bytes != nullptr) {
      *text_bytes = decoded.size();
    }
  });
}

rocmforge_status rocmforge_generate(rocmforge_model* model, const char* prompt, const char* const* options,
                                    rocmforge_on_piece on_piece, void* user, char** result) {
  return guarded_text(result, [&] {
    require(prompt, "prompt");
    return find(model)->generate(std::string(prompt), texts_of(options), taker(on_piece, user));
  });
}

rocmforge_status rocmforge_generate_tokens(rocmforge_model* model, const int32_t* tokens, size_t count,
                                           const char* const* options, rocmforge_on_piece on_piece, void* user,
                                           char** result) {
  return guarded_text(
      result, [&] { return find(model)->generate(tokens_of(tokens, count), texts_of(options), taker(on_piece, user)); });
}

rocmforge_status rocmforge_chat(rocmforge_model* model, const char* request, const char* const* options,
                                rocmforge_on_piece on_piece, void* user, char** result) {
  return guarded_text(result, [&] {
    require(request, "request");
    return find(model)->chat(request, texts_of(options), taker(on_piece, user));
  });
}

rocmforge_status rocmforge_request(rocmforge_model* model, const char* method, const char* path, const char* body,
                                   rocmforge_on_piece on_piece, void* user, int* http_status, char** result) {
  return guarded_text(result, [&] {
    require(method, "method");
    require(path, "path");
    HttpResponse response = find(model)->request(method, path, body != nullptr ? body : "", taker(on_piece, user));
    if (http_status != nullptr) {
      *http_status = response.status;
    }
    return std::move(response.body);
  });
}

rocmforge_status rocmforge_embed(rocmforge_model* model, const char* const* texts, size_t count, float* embeddings) {
  return guarded([&] {
    if (count > 0) {
      require(texts, "texts");
      require(embeddings, "embeddings");
    }
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) {
      require(texts[i], fmt::format("text {}", i));
      all.emplace_back(texts[i]);
    }
    std::ranges::copy(find(model)->embed(all), embeddings);
  });
}

rocmforge_status rocmforge_logits(rocmforge_model* model, const int32_t* tokens, size_t count, float* logits) {
  return guarded([&] {
    require(logits, "logits");
    std::ranges::copy(find(model)->logits(tokens_of(tokens, count)), logits);
  });
}

rocmforge_status rocmforge_sequence_new(rocmforge_model* model, const char* const* options, rocmforge_sequence** sequence) {
  return guarded([&] {
    require(sequence, "sequence");
    *sequence = registry().sequences.add(std::make_shared<TextSequence>(find(model), texts_of(options)));
  });
}

rocmforge_status rocmforge_sequence_free(rocmforge_sequence* sequence) {
  return guarded([&] {
    if (sequence != nullptr) {
      known(registry().sequences.take(sequence), "sequence").reset();
    }
  });
}

rocmforge_status rocmforge_sequence_append(rocmforge_sequence* sequence, const int32_t* tokens, size_t count,
                                           float* logits) {
  return guarded([&] {
    const auto values = find(sequence)->append(tokens_of(tokens, count));
    if (logits != nullptr) {
      std::ranges::copy(values, logits);
    }
  });
}

rocmforge_status rocmforge_sequence_sample(rocmforge_sequence* sequence, int32_t* token) {
  return guarded([&] {
    require(token, "token");
    *token = find(sequence)->sample();
  });
}

rocmforge_status rocmforge_sequence_truncate(rocmforge_sequence* sequence, size_t count) {
  return guarded([&] { find(sequence)->truncate(count); });
}

rocmforge_status rocmforge_sequence_length(const rocmforge_sequence* sequence, size_t* count) {
  return guarded([&] {
    require(count, "count");
    *count = find(sequence)->length();
  });
}

rocmforge_status rocmforge_server_start(rocmforge_model* model, const char* const* options, rocmforge_server** server) {
  return guarded([&] {
    require(server, "server");
    auto running = std::make_shared<RunningServer>();
    running->model = find(model);
    app::ListenFlags flags;
    app::Command command;
    command.name = "rocmforge serve";
    flags.add_to(command);
    app::read_named_options(command, texts_of(options), true);
    running->drain_time = std::chrono::milliseconds(static_cast<std::int64_t>(flags.drain_seconds * 1000.0));
    running->server = running->model->serve(flags);
    *server = registry().servers.add(std::move(running));
  });
}

rocmforge_status rocmforge_server_address(const rocmforge_server* server, char** url, int* port) {
  return guarded([&] {
    const auto running = find(server);
    if (url != nullptr) {
      *url = give_out(running->server->url());
    }
    if (port != nullptr) {
      *port = running->server->port();
    }
  });
}

rocmforge_status rocmforge_server_stop(rocmforge_server* server) {
  return guarded([&] {
    const auto running = known(registry().servers.take(server), "server");
    running->server->drain(running->drain_time);
  });
}

}  // extern "C"
