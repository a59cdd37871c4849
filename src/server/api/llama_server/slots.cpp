#include "server/api/llama_server/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "engine/slots.h"
#include "server/api/answers.h"
#include "server/api/api_error.h"
#include "server/api/fields.h"

namespace rocmforge {
namespace {

using SlotClock = std::chrono::steady_clock;

/// What is asked of a slot.
struct SlotAction {
  std::int32_t id = 0;
  std::string file{};  ///< as the client named it
  std::filesystem::path path{};
  std::string salt{};  ///< Request::cache_salt of the slot's conversation
  PieceKey owner{};
};

std::int32_t slot_id(std::string_view text, std::int32_t count) {
  std::int32_t id = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (problem != std::errc() || end != text.data() + text.size() || id < 0 || id >= count) {
    throw ApiError(400, fmt::format("the slots are 0 to {}", count - 1));
  }
  return id;
}

/// Of who asks: the key's space and the salt, without what changes with each process.
PieceKey owner_of(const std::string& space, const std::string& salt) {
  const std::string text = fmt::format("{}\n{}", space, salt);
  return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// Asks the engine of one model, from the thread of SlotWork.
class SlotEngine {
 public:
  SlotEngine(std::shared_ptr<ModelInstance> instance, const SlotWork& work) : instance_(std::move(instance)), work_(&work) {}

  /// Waits for what `question` returns or throws.
  template <class Question>
  auto ask(Question question) -> decltype(question(std::declval<EngineSlots&>())) {
    using Answer = decltype(question(std::declval<EngineSlots&>()));
    require_running();
    auto task = std::make_shared<std::packaged_task<Answer(Engine&)>>([question = std::move(question)](Engine& engine) {
      EngineSlots* slots = engine.slots();
      if (slots == nullptr) {
        throw ApiError(501, "the host memory for prompts is too small for slots: --cache-ram sets it");
      }
      return question(*slots);
    });
    std::future<Answer> answer = task->get_future();
    instance_->loop().ask([task = std::move(task)](Engine& engine) { (*task)(engine); });
    constexpr std::chrono::milliseconds pause{50};
    while (answer.wait_for(pause) != std::future_status::ready) {
      if (const std::string failure = instance_->loop().failure(); !failure.empty()) {
        throw ApiError(503, fmt::format("the engine has failed: {}", failure));
      }
      require_running();
    }
    return answer.get();
  }

 private:
  void require_running() const {
    if (work_->is_interrupted()) {
      throw ApiError(503, "the server is shutting down");
    }
  }

  std::shared_ptr<ModelInstance> instance_;
  const SlotWork* work_;
};

double milliseconds_since(SlotClock::time_point start) {
  return std::chrono::duration<double, std::milli>(SlotClock::now() - start).count();
}

Json save_slot(SlotEngine& engine, const SlotAction& asked) {
  const SlotClock::time_point start = SlotClock::now();
  const SlotHead head = engine.ask([&asked](EngineSlots& slots) { return slots.save(asked.id, asked.salt, asked.owner); });
  SlotWriter writer(asked.path, head);
  for (std::int32_t i = 0; i < head.pieces(); ++i) {
    writer.add(engine.ask([&](EngineSlots& slots) { return slots.piece(asked.id, head, i); }));
  }
  const std::int64_t bytes = writer.finish();
  return {{"id_slot", asked.id},
          {"filename", asked.file},
          {"n_saved", head.saved_tokens()},
          {"n_written", bytes},
          {"timings", {{"save_ms", milliseconds_since(start)}}}};
}

Json restore_slot(SlotEngine& engine, const SlotAction& asked) {
  const SlotClock::time_point start = SlotClock::now();
  SlotReader reader(asked.path);
  const SlotHead& head = reader.head();
  if (head.owner != asked.owner) {
    throw Error("was saved by another key, or with another cache_salt");
  }
  for (std::int32_t i = 0; i < head.pieces(); ++i) {
    const std::vector<std::byte> bytes = reader.next();
    engine.ask([&](EngineSlots& slots) { slots.restore_piece(head, asked.salt, i, bytes); });
  }
  engine.ask([&](EngineSlots& slots) { slots.restored(asked.id, head, asked.salt); });
  return {{"id_slot", asked.id},
          {"filename", asked.file},
          {"n_restored", head.saved_tokens()},
          {"n_read", reader.bytes()},
          {"timings", {{"restore_ms", milliseconds_since(start)}}}};
}

Json erase_slot(SlotEngine& engine, const SlotAction& asked) {
  const std::int32_t tokens = engine.ask([&asked](EngineSlots& slots) { return slots.erase(asked.id, asked.salt); });
  return {{"id_slot", asked.id}, {"n_erased", tokens}};
}

using SlotFunction = Json (*)(SlotEngine& engine, const SlotAction& asked);

SlotFunction function_of(std::string_view action) {
  if (action == "save") {
    return save_slot;
  }
  if (action == "restore") {
    return restore_slot;
  }
  if (action == "erase") {
    return erase_slot;
  }
  throw ApiError(400, "the query must have action=save, action=restore or action=erase", "action");
}

/// Answers the request with what the function returns or throws.
void answer_action(HttpExchange& exchange, SlotEngine& engine, SlotFunction function, const SlotAction& asked) noexcept {
  try {
    try {
      exchange.send_json(function(engine, asked));
    } catch (const ApiError& error) {
      exchange.send(error.response());
    } catch (const ServiceError& problem) {
      exchange.send(ApiError(problem).response());
    } catch (const Error& error) {
      exchange.send(
          ApiError(400, asked.file.empty() ? error.what() : fmt::format("{}: {}", asked.file, error.what())).response());
    } catch (const std::future_error&) {  // the question was dropped
      exchange.send(ApiError(503, "the model was unloaded").response());
    } catch (const std::filesystem::filesystem_error& error) {
      exchange.send(ApiError(400, fmt::format("{}: {}", asked.file, error.code().message())).response());
    }
  } catch (const std::exception&) {  // no memory for an answer
    exchange.drop();
  }
}

}  // namespace

void SlotWork::add(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  if (stopping_ || waiting_.size() >= most_waiting) {
    throw ApiError(
        503, stopping_ ? "the server is shutting down" : fmt::format("{} slots wait to be saved or restored", most_waiting));
  }
  try {
    if (!thread_.joinable()) {
      thread_ = std::jthread([this] { run(); });
    }
  } catch (const std::system_error& error) {
    throw ApiError(503, fmt::format("there is no thread for slots: {}", error.what()));
  }
  waiting_.push_back(std::move(work));
  changed_.notify_one();
}

void SlotWork::interrupt() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_one();
}

void SlotWork::stop() {
  interrupt();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SlotWork::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      return;
    }
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void serve_slot_action(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend, const std::string& folder,
                       SlotWork& work) {
  if (folder.empty()) {
    throw ApiError(501, "slots are not saved: the server was started without --slot-save-path");
  }
  SlotAction asked{.id = slot_id(exchange->request.path_part, backend.model.parallel)};
  const SlotFunction function = function_of(exchange->request.parameter("action").value_or(""));
  const Document document = exchange->request.body.empty() ? Document(Json::object()) : exchange->take_json();
  Fields fields(document.root);
  if (function != erase_slot) {
    asked.file = fields.needed_text("filename");
    try {
      asked.path = slot_path(folder, asked.file);
    } catch (const Error& error) {
      throw ApiError(400, error.what(), "filename");
    }
  }
  const std::string& space = exchange->limits().prefix_space;
  const std::string salt = fields.text("cache_salt").value_or("");
  asked.salt = salt_in_space(backend.model, space, salt);
  asked.owner = owner_of(space, salt);
  exchange->settle();
  // The model is held by this thread's work alone, not by what the engine is asked.
  work.add([exchange, function, asked, engine = std::make_shared<SlotEngine>(backend.instance, work)] {
    answer_action(*exchange, *engine, function, asked);
  });
}

}  // namespace rocmforge
