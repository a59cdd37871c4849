#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/api/answers.h"
#include "server/api/api_error.h"
#include "server/api/json.h"
#include "server/api/json_pieces.h"
#include "server/api/sampling_fields.h"
#include "server/api/token_logprobs_json.h"
#include "server/http_exchange.h"
#include "service/loop.h"
#include "service/model.h"
#include "service/stream.h"

namespace rocmforge {

class Generation;
class ResponseStore;

/// The running generations, by id: for /cancel.
class ActiveGenerations {
 public:
  void add(const std::string& id, std::weak_ptr<Generation> generation);
  void remove(const std::string& id);
  /// Returns whether the owner has one of that id.
  bool cancel(const std::string& id, std::string_view owner);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<Generation>> generations_;
};

/// What answers one request: a model, which it holds, and the state that generations share, which outlives them.
struct Backend {
  std::shared_ptr<ModelInstance> instance;
  const ServedModel& model;  ///< of the instance
  ActiveGenerations& active;
  ResponseStore& responses;
  std::optional<std::chrono::milliseconds> request_time{};  ///< the longest that a request may take
  bool strict_fields = false;                               ///< unknown fields are refused
};

/// The form of a stream's events.
enum class StreamForm {
  events,        ///< data: JSON
  named_events,  ///< the same after "event:" and the JSON's member "type"
  lines,         ///< one line of JSON
};

/// One request's answers, from the engine's outputs to the client, as one JSON document or as a stream of events. A subclass
/// for each API writes the form. All functions run on the delivery thread, except start() and cancel().
class Generation : public OutputListener, public std::enable_shared_from_this<Generation> {
 public:
  /// `prefix` begins the id of the answer. Who knows the id may cancel the answer or, if it is stored, read it: the id is
  /// not the request's, which is in the log.
  Generation(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options, std::string_view prefix);
  ~Generation() override;

  /// Throws ApiError when there is no room.
  void start(std::vector<Request> requests, int count);
  void start(Request request, int count);
  void cancel() noexcept;
  /// The API key that asked for it; "" where there are none.
  [[nodiscard]] const std::string& owner() const { return exchange_->request.owner; }
  void on_accepted() final;
  void on_output(Delivery delivery) final;
  void on_failure() noexcept final;

 protected:
  using Choice = AnswerChoice;

  /// Called for each output of a choice, before its text is added.
  virtual void take(int /*index*/, StepOutput& /*output*/) {}
  /// The events of a streamed output.
  virtual std::vector<Json> events(int index, const StepOutput& output) = 0;
  /// The events after all choices have ended.
  virtual std::vector<Json> last_events() { return {}; }
  /// The answer of a request that is not streamed, without its entries: they become the member entries_name(). Null where
  /// the entries are the whole answer: an array, or the only entry if is_single().
  virtual Json envelope() = 0;
  [[nodiscard]] virtual std::string_view entries_name() const { return "choices"; }
  [[nodiscard]] virtual bool is_single() const { return false; }
  /// Whether what there is of a cancelled answer is an answer too, as a text's beginning is. Where it is not, the request
  /// fails, and envelope() and entry() are not called.
  [[nodiscard]] virtual bool may_be_partial() const { return true; }
  /// Of a whole answer.
  [[nodiscard]] virtual std::string_view content_type() const { return "application/json"; }
  /// One entry of a whole answer; called after envelope().
  [[nodiscard]] virtual std::size_t num_entries() const { return answers_.choices.size(); }
  /// The entry of a choice without its log probabilities: they replace the member logprobs_name(), which is null here.
  virtual Json entry(int index) = 0;
  /// The same as text with its log probabilities.
  virtual TextPieces entry_in_pieces(int index) { return with_member(entry(index), logprobs_name(), logprobs(index)); }
  /// The text of an event that is too long to be made at once; null for the others.
  virtual TextPieces long_event(const Json& /*event*/) { return nullptr; }
  [[nodiscard]] virtual std::string_view logprobs_name() const { return ""; }
  virtual TextPieces logprobs(int /*index*/) { return nullptr; }
  /// Bytes of the subclass's own data, which are counted for the request until it ends.
  [[nodiscard]] virtual std::int64_t own_bytes() const { return 0; }
  /// Whether the text "[DONE]" ends the stream.
  [[nodiscard]] virtual bool says_done() const { return true; }
  [[nodiscard]] virtual StreamForm stream_form() const { return StreamForm::events; }
  [[nodiscard]] virtual ErrorForm error_form() const { return openai_error; }
  /// The last event of a stream that fails.
  [[nodiscard]] virtual Json error_event(const ApiError& error) { return error_form()(error); }

  [[nodiscard]] const ServedModel& model() const { return backend_.model; }
  [[nodiscard]] ResponseStore& responses() { return backend_.responses; }
  [[nodiscard]] const std::string& client() const { return exchange_->request.account; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  [[nodiscard]] const std::string& id() const { return answers_.id; }
  [[nodiscard]] std::int64_t created() const { return answers_.created; }
  [[nodiscard]] std::vector<Choice>& choices() { return answers_.choices; }
  [[nodiscard]] Answers& answers() { return answers_; }
  [[nodiscard]] Choice& choice(int index) { return answers_.choices[static_cast<std::size_t>(index)]; }
  /// The choices of one prompt.
  [[nodiscard]] int count() const { return answers_.count; }

  [[nodiscard]] Json head(std::string_view object) const { return answers_.head(object); }
  [[nodiscard]] Json usage() const { return answers_.usage(); }

 private:
  /// Throws ApiError for a priority that the client is not allowed to use.
  void check_priority(std::int32_t priority) const;
  void handle(Delivery delivery);
  /// Counts the memory that an output adds to the final answer.
  void count(const StepOutput& output);
  TextPieces whole();
  void begin_stream();
  void stream(int index, const StepOutput& output);
  void write(const Json& event);
  /// Sends what was written. Returns false if the client has disconnected.
  bool flush();
  void fail(const ApiError& error);
  void finish();
  void add_notes();

  std::shared_ptr<HttpExchange> exchange_;
  const Backend backend_;
  StreamOptions options_;
  Answers answers_;
  std::vector<std::size_t> prompt_sizes_;
  std::size_t finished_ = 0;
  std::int64_t uncounted_bytes_ = 0;
  bool begun_ = false;  ///< the stream has begun
  bool ended_ = false;
  struct LongEvent {
    std::string before;  ///< text of events before it
    TextPieces text;
  };
  // Events of one output.
  std::vector<LongEvent> long_events_;
  std::string events_;  ///< behind the long ones
  std::mutex mutex_;    // guards the ticket: a client may cancel before the ticket is known
  EngineLoop::Ticket ticket_ = 0;
  bool cancelled_ = false;
};

}  // namespace rocmforge
