#include "server/request_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"

namespace rocmforge {
namespace {

std::string now() {
  const auto time = std::chrono::system_clock::now();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)), milliseconds);
}

/// Control characters as escapes: a request must not be able to write a line of its own.
std::string text_value(const Json& value) {
  if (!value.is_string()) {
    return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : to_text(value);
  }
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && text.find_first_of(" \"\\=") == std::string::npos &&
                     std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c != 0x7f; });
  return plain ? text : to_text(value);
}

/// A file that does not exist yet is made so that others can't read it. Whoever opens it next finds what is wrong with it.
void make_secret_file(const std::string& path) {
  constexpr mode_t owner_only = 0600;
  if (const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, owner_only); file >= 0) {
    close(file);
  }
}

}  // namespace

RequestLog::RequestLog(const LogOptions& options) : options_(options) {
  spdlog::sink_ptr sink;
  if (options.silent) {
    sink = std::make_shared<spdlog::sinks::null_sink_mt>();
  } else if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    if (options.requests) {
      make_secret_file(options.file);
    }
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
    } catch (const spdlog::spdlog_ex& error) {
      throw Error(fmt::format("the log file can't be opened: {}", error.what()));
    }
  }
  logger_ = std::make_shared<spdlog::logger>("server", std::move(sink));
  logger_->set_pattern("%v");
  logger_->flush_on(spdlog::level::trace);
  logger_->set_error_handler([failed = failed_](const std::string& message) {
    if (!failed->exchange(true)) {
      log_warning("the log can't be written, lines are lost: {}", message);
    }
  });
}

RequestLog::~RequestLog() = default;

void RequestLog::event(std::string_view text) { write("info", text, Json::object()); }
void RequestLog::warning(std::string_view text) { write("warning", text, Json::object()); }

void RequestLog::warning_once(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (once_.size() >= most_once || !once_.insert(text).second) {
      return;
    }
  }
  warning(text);
}

void RequestLog::request(const Json& fields) { write("info", "request", fields); }

void RequestLog::write(std::string_view level, std::string_view message, const Json& fields) {
  std::string line;
  if (options_.json) {
    Json object = {{"time", now()}, {"level", level}, {"message", message}};
    object.update(fields);
    line = object.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  } else {
    line = fmt::format("{} {} {}", now(), level, message);
    for (const auto& [key, value] : fields.items()) {
      line += fmt::format(" {}={}", key, text_value(value));
    }
  }
  logger_->info("{}", options_.json ? line : printable(line, longest_line));
}

}  // namespace rocmforge
