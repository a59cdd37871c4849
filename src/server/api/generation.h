#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/constraints.h"
#include "server/api/json.h"
#include "server/api/json_pieces.h"
#include "server/api/response_store.h"
#include "server/api/sampling_fields.h"
#include "server/api/served_model.h"
#include "server/api/token_logprobs_json.h"
#include "server/engine/engine_loop.h"
#include "server/exchange.h"

namespace rocmforge {

class Generation;

/// The generations under way, by id: for /cancel.
class ActiveGenerations {
 public:
  void add(const std::string& id, std::weak_ptr<Generation> generation);
  void remove(const std::string& id);
  /// Whether there was one.
  bool cancel(const std::string& id);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<Generation>> generations_;
};

/// What generations share. Outlives them.
struct Backend {
  ServedModel model;
  EngineLoop& loop;
  ActiveGenerations& active;
  GrammarCache& grammars;
  ResponseStore& responses;
  std::optional<std::chrono::milliseconds> request_time{};  ///< a request may take
  std::optional<Pooling> pooling = Pooling::mean;           ///< of embeddings that ask for none; empty: refused
  bool strict_fields = false;                               ///< fields that are not known are refused
};

/// What an event of a stream looks like.
enum class StreamForm {
  events,        ///< data: JSON
  named_events,  ///< the same behind event: and the JSON's member "type"
  lines,         ///< JSON on a line
};

/// One request's answers, from the engine's outputs to the client: as one JSON document or as a stream of events. What both
/// look like is the business of the class for each API. All of it but start() and cancel() runs on the delivery thread.
class Generation : public OutputListener, public std::enable_shared_from_this<Generation> {
 public:
  /// `prefix` begins the id that the client sees.
  Generation(std::shared_ptr<Exchange> exchange, const Backend& backend, StreamOptions options, std::string_view prefix);
  ~Generation() override;

  /// Throws ApiError when there is no room.
  void start(std::vector<Request> requests, int count);
  void start(Request request, int count);
  void cancel() noexcept;
  void on_output(Delivery delivery) final;
  void on_failure() noexcept final;

 protected:
  struct Choice {
    std::string text;            ///< all that has come, unless it is streamed and not logged
    std::size_t text_bytes = 0;  ///< that have come
    std::vector<std::int32_t> tokens;
    PendingLogprobs logprobs;
    FinishReason finish = FinishReason::none;
    RequestStats stats;  ///< before the last output: number and time of the tokens so far, alone
    bool begun = false;  ///< its first event has been sent
  };

  /// An output has come for a choice; its text has not been added yet.
  virtual void take(int /*index*/, StepOutput& /*output*/) {}
  /// The events of a streamed output.
  virtual std::vector<Json> events(int index, const StepOutput& output) = 0;
  /// The events after all choices have ended.
  virtual std::vector<Json> last_events() { return {}; }
  /// The whole answer of a request that is not streamed but for its entries, which become the member entries_name(); null
  /// where the entries are the answer: an array, or the only one if is_single().
  virtual Json envelope() = 0;
  [[nodiscard]] virtual std::string_view entries_name() const { return "choices"; }
  [[nodiscard]] virtual bool is_single() const { return false; }
  /// Of a whole answer; asked for behind envelope().
  [[nodiscard]] virtual std::size_t num_entries() const { return choices_.size(); }
  /// The part of an answer in it, but for its log probabilities, which become the member logprobs_name(); null until then.
  virtual Json entry(int index) = 0;
  [[nodiscard]] virtual std::string_view logprobs_name() const { return ""; }
  virtual TextPieces logprobs(int /*index*/) { return nullptr; }
  /// What the request holds until its end beside what the engine has of it.
  [[nodiscard]] virtual std::int64_t own_bytes() const { return 0; }
  /// Whether the text "[DONE]" ends the stream.
  [[nodiscard]] virtual bool says_done() const { return true; }
  [[nodiscard]] virtual StreamForm stream_form() const { return StreamForm::events; }
  [[nodiscard]] virtual ErrorForm error_form() const { return ErrorForm::openai; }
  /// What ends a stream that fails.
  [[nodiscard]] virtual Json error_event(const ApiError& error) { return error.json(error_form()); }

  [[nodiscard]] const ServedModel& model() const { return backend_.model; }
  [[nodiscard]] ResponseStore& responses() { return backend_.responses; }
  [[nodiscard]] const std::string& client() const { return exchange_->request.account; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] std::int64_t created() const { return created_; }
  [[nodiscard]] std::vector<Choice>& choices() { return choices_; }
  [[nodiscard]] Choice& choice(int index) { return choices_[static_cast<std::size_t>(index)]; }
  /// Choices of one prompt.
  [[nodiscard]] int count() const { return count_; }

  /// {"id", "object", "created", "model", "system_fingerprint"}
  [[nodiscard]] Json head(std::string_view object) const;
  /// Each prompt counts once.
  [[nodiscard]] Json usage() const;
  /// As llama-server gives them.
  [[nodiscard]] static Json timings(const RequestStats& stats);
  /// "stop" or "length"
  [[nodiscard]] static std::string_view finish_text(FinishReason reason);

 private:
  /// The part of timings() that is known while an answer comes.
  [[nodiscard]] static Json decode_timings(const RequestStats& stats);
  /// Throws ApiError for a priority that the client may not have.
  void check_priority(std::int32_t priority) const;
  void handle(Delivery delivery);
  /// Counts what an output adds to the answer that the client gets in the end.
  void count(const StepOutput& output);
  TextPieces whole();
  void stream(int index, const StepOutput& output);
  void write(const Json& event);
  void fail(const ApiError& error);
  void finish();
  [[nodiscard]] ApiError error_of(const StepOutput& output) const;
  void add_notes();

  std::shared_ptr<Exchange> exchange_;
  const Backend& backend_;
  StreamOptions options_;
  std::string id_;
  std::int64_t created_;
  int count_ = 1;
  std::vector<Choice> choices_;
  std::vector<std::size_t> prompt_sizes_;
  std::size_t finished_ = 0;
  std::int64_t uncounted_bytes_ = 0;
  bool begun_ = false;  ///< the stream
  bool ended_ = false;
  std::string events_;  ///< of one output
  std::mutex mutex_;    // guards the ticket, which a client may cancel before it is known
  EngineLoop::Ticket ticket_ = 0;
  bool cancelled_ = false;
};

}  // namespace rocmforge
