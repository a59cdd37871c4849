#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "server/api/json.h"

namespace spdlog {
class logger;
}

namespace rocmforge {

struct LogOptions {
  bool json = false;      ///< one JSON object a line, else text
  bool requests = false;  ///< prompts and answers too, which otherwise are never written; a new file is its owner's alone
  std::string file{};     ///< "": standard error
  bool silent = false;    ///< nothing is written
};

/// The server's log. A line that can't be written (a full disk) is lost; a warning goes to standard error once, and the
/// server goes on. Thread-safe.
class RequestLog {
 public:
  /// Throws Error when the file can't be opened.
  explicit RequestLog(const LogOptions& options);
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  /// A line about the server as a whole.
  void event(std::string_view text);
  void warning(std::string_view text);
  /// Writes nothing if the same text was written before, nor more than `most_once` different ones.
  void warning_once(const std::string& text);
  /// The line of a request that has ended.
  void request(const Json& fields);

  /// Whether a line was lost.
  [[nodiscard]] bool has_failed() const { return *failed_; }

  /// Whether prompts and answers may be written.
  [[nodiscard]] bool shows_texts() const { return options_.requests; }

 private:
  static constexpr std::size_t most_once = 256;

  void write(std::string_view level, std::string_view message, const Json& fields);

  LogOptions options_;
  std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<spdlog::logger> logger_;
  std::mutex mutex_;  // guards the members below
  std::set<std::string> once_;
};

}  // namespace rocmforge
