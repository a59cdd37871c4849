#include "hub/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "base/ascii.h"
#include "base/blanks.h"
#include "base/printable.h"

namespace rocmforge::hub {
namespace {

constexpr std::size_t longest_head = 256 * 1024;
constexpr std::size_t longest_ignored_body = 64 * 1024;

using Clock = std::chrono::steady_clock;

/// Initialises libcurl, once for the whole program.
void start_curl() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) {
    throw Error(fmt::format("libcurl does not start: {}", curl_easy_strerror(started)));
  }
}

class Url {
 public:
  explicit Url(const std::string& text) : url_(curl_url()) {
    if (url_ == nullptr || curl_url_set(url_, CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
      curl_url_cleanup(url_);
      throw Error(fmt::format("'{}' is no address", printable(text.substr(0, text.find('?')), 200)));
    }
  }
  ~Url() { curl_url_cleanup(url_); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;

  bool set(const std::string& reference) { return curl_url_set(url_, CURLUPART_URL, reference.c_str(), 0) == CURLUE_OK; }
  [[nodiscard]] std::string part(CURLUPart which, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_, which, &text, flags) != CURLUE_OK) {
      return "";
    }
    std::string out = text;
    curl_free(text);
    return out;
  }

 private:
  CURLU* url_;
};

bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
      return true;
    default:
      return false;
  }
}

/// One answer while it arrives.
struct Transfer {
  CURL* curl = nullptr;
  const HttpClient::Body* body = nullptr;
  HttpAnswer answer;
  std::size_t head_bytes = 0;
  std::size_t ignored_bytes = 0;
  int stall_seconds = 0;
  Clock::time_point last_byte = Clock::now();
  std::uint64_t least_speed = 0;
  Clock::time_point measured_from = Clock::now();
  std::uint64_t measured_bytes = 0;
  const std::function<void()>* beat = nullptr;
  bool stalled = false;
  bool too_slow = false;
  bool ended_early = false;  ///< the caller wants no more of the body
  bool (*may_reach)(const sockaddr& address) = nullptr;
  bool is_forbidden = false;  ///< an address was not allowed
  std::exception_ptr failure;
};

/// Runs `body` and returns whether libcurl shall go on. Keeps an exception: none may pass through C code.
template <class Body>
bool goes_on(Transfer& transfer, Body&& body) {
  try {
    return body();
  } catch (...) {
    transfer.failure = std::current_exception();
    return false;
  }
}

std::size_t take_header(char* data, std::size_t /*one*/, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool more = goes_on(transfer, [&] {
    transfer.head_bytes += size;
    if (transfer.head_bytes > longest_head) {
      throw TransferError(fmt::format("the answer's head is longer than {} KiB", longest_head / 1024), false);
    }
    const std::string_view line = trimmed({data, size});
    if (line.starts_with("HTTP/")) {  // the final answer after one with a status of 1xx
      transfer.answer.headers.clear();
      curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
      transfer.answer.headers[ascii_lower(std::string(trimmed(line.substr(0, colon))))] = trimmed(line.substr(colon + 1));
    }
    return true;
  });
  return more ? size : 0;
}

std::size_t take_body(char* data, std::size_t /*one*/, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool more = goes_on(transfer, [&] {
    transfer.last_byte = Clock::now();
    transfer.measured_bytes += size;
    if (transfer.answer.is_good()) {
      transfer.ended_early = !(*transfer.body)(transfer.answer, {data, size});
    } else {
      transfer.ignored_bytes += size;
      transfer.ended_early = transfer.ignored_bytes > longest_ignored_body;
    }
    return !transfer.ended_early;
  });
  return more ? size : 0;
}

/// Whether less has come than the least speed asks for, in the last `stall_seconds` that were measured.
bool is_too_slow(Transfer& transfer) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - transfer.measured_from).count();
  if (seconds < transfer.stall_seconds) {
    return false;
  }
  transfer.measured_from = Clock::now();
  return std::exchange(transfer.measured_bytes, 0) < transfer.least_speed * static_cast<std::uint64_t>(seconds);
}

int watch(void* user, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*total_up*/, curl_off_t /*now_up*/) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool more = goes_on(transfer, [&] {
    if (*transfer.beat) {
      (*transfer.beat)();
    }
    transfer.stalled = Clock::now() - transfer.last_byte > std::chrono::seconds(transfer.stall_seconds);
    transfer.too_slow = is_too_slow(transfer);
    return !transfer.stalled && !transfer.too_slow;
  });
  return more ? 0 : 1;
}

/// Called for each connection, with the address that the name was resolved to.
curl_socket_t open_allowed(void* user, curlsocktype /*purpose*/, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.may_reach(address->addr)) {
    transfer.is_forbidden = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

/// libcurl's handle, which keeps connections open from one request to the next.
class HttpClient::Handle {
 public:
  explicit Handle(HttpSettings settings) : settings_(std::move(settings)) {
    start_curl();
    curl_ = curl_easy_init();
    if (curl_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  ~Handle() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(curl_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  /// One answer; `next` becomes the address that a redirect names.
  HttpAnswer get(const HttpRequest& request, const std::string& url, bool with_token, const Body& body, std::string& next) {
    Transfer transfer;
    transfer.curl = curl_;
    transfer.body = &body;
    transfer.stall_seconds = settings_.stall_seconds;
    transfer.least_speed = settings_.least_speed;
    transfer.beat = &settings_.beat;
    transfer.answer.host = host_of(url);
    set_up(request, url, with_token, transfer);
    const CURLcode code = curl_easy_perform(curl_);
    if (transfer.failure != nullptr) {
      std::rethrow_exception(transfer.failure);
    }
    if (transfer.stalled) {
      throw TransferError(fmt::format("{}: nothing has come for {} s", transfer.answer.host, settings_.stall_seconds), true);
    }
    if (transfer.too_slow) {
      throw TransferError(fmt::format("{}: less than {} bytes come a second", transfer.answer.host, settings_.least_speed),
                          false);
    }
    if (code != CURLE_OK && transfer.is_forbidden) {
      throw TransferError(fmt::format("{}: it has a private address, which is not reached", transfer.answer.host), false);
    }
    if (code != CURLE_OK && !transfer.ended_early) {
      const std::string reason = problem_[0] != '\0' ? problem_.data() : curl_easy_strerror(code);
      throw TransferError(fmt::format("{}: {}", transfer.answer.host, printable(trimmed(reason), 300)), is_passing(code));
    }
    curl_off_t seconds = 0;
    curl_easy_getinfo(curl_, CURLINFO_RETRY_AFTER, &seconds);
    constexpr curl_off_t most_seconds = 1'000'000;
    transfer.answer.retry_after_seconds = static_cast<int>(std::clamp<curl_off_t>(seconds, 0, most_seconds));
    const char* redirect = nullptr;
    curl_easy_getinfo(curl_, CURLINFO_REDIRECT_URL, &redirect);
    next = redirect == nullptr ? "" : redirect;
    return std::move(transfer.answer);
  }

  [[nodiscard]] const HttpSettings& settings() const { return settings_; }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    if (const CURLcode code = curl_easy_setopt(curl_, option, value); code != CURLE_OK) {
      throw Error(fmt::format("libcurl takes no option {}: {}", static_cast<int>(option), curl_easy_strerror(code)));
    }
  }

  void add_header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_, line.c_str());
    if (longer == nullptr) {
      throw std::bad_alloc();
    }
    headers_ = longer;
  }

  void set_up(const HttpRequest& request, const std::string& url, bool with_token, Transfer& transfer) {
    constexpr long connect_seconds = 30;
    constexpr long buffer_bytes = 256 * 1024;
    curl_easy_reset(curl_);
    curl_slist_free_all(std::exchange(headers_, nullptr));
    problem_[0] = '\0';
    for (const std::string& line : request.headers) {
      add_header(line);
    }
    if (with_token) {
      add_header("Authorization: Bearer " + request.token);
    }
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_USERAGENT, settings_.user_agent.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
    set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, connect_seconds);
    set(CURLOPT_TIMEOUT, static_cast<long>(request.whole_seconds));
    curl_easy_setopt(curl_, CURLOPT_BUFFERSIZE, buffer_bytes);  // if it fails, the old size is kept
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_ERRORBUFFER, problem_.data());
    set(CURLOPT_HEADERFUNCTION, take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, watch);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
    if (settings_.may_reach != nullptr) {
      transfer.may_reach = settings_.may_reach;
      set(CURLOPT_OPENSOCKETFUNCTION, open_allowed);
      set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&transfer));
      set(CURLOPT_PROXY, "");         // whose address would be asked about in place of the host's
      set(CURLOPT_FORBID_REUSE, 1L);  // an open connection would not be asked about
    }
    if (!settings_.certificates.empty()) {
      set(CURLOPT_CAINFO, settings_.certificates.c_str());
    }
  }

  HttpSettings settings_;
  CURL* curl_ = nullptr;
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> problem_{};
};

HttpClient::HttpClient(HttpSettings settings) : handle_(std::make_unique<Handle>(std::move(settings))) {}
HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::get(const HttpRequest& request, const Body& body) {
  const std::string home = origin_of(request.url);
  std::string url = request.url;
  for (int i = 0; i <= handle_->settings().redirects; ++i) {
    std::string next;
    HttpAnswer answer = handle_->get(request, url, !request.token.empty() && origin_of(url) == home, body, next);
    if (next.empty()) {
      return answer;
    }
    const std::string from = origin_of(url);
    const std::string to = origin_of(next);
    if (!to.starts_with("https://") && !(to.starts_with("http://") && from.starts_with("http://"))) {
      throw Error(fmt::format("{}: it sends us to {}, which is not https", host_of(url), printable(to, 200)));
    }
    url = std::move(next);
  }
  throw Error(fmt::format("{}: more than {} redirects", host_of(request.url), handle_->settings().redirects));
}

void HttpClient::beat() const {
  if (handle_->settings().beat) {
    handle_->settings().beat();
  }
}

void HttpClient::sleep(double seconds) const {
  constexpr std::chrono::duration<double> slice(0.2);
  for (std::chrono::duration<double> left(seconds); left.count() > 0.0; left -= slice) {
    beat();
    std::this_thread::sleep_for(std::min(left, slice));
  }
}

std::string origin_of(const std::string& url) {
  const Url parsed(url);
  return fmt::format("{}://{}:{}", ascii_lower(parsed.part(CURLUPART_SCHEME)), ascii_lower(parsed.part(CURLUPART_HOST)),
                     parsed.part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string host_of(const std::string& url) {
  const Url parsed(url);
  const std::string port = parsed.part(CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  return printable(parsed.part(CURLUPART_HOST) + (port.empty() ? "" : ":" + port), 200);
}

std::string resolved_url(const std::string& base, const std::string& reference) {
  Url url(base);
  if (!url.set(reference)) {
    throw Error(fmt::format("{}: '{}' is no address", host_of(base), printable(reference, 200)));
  }
  return url.part(CURLUPART_URL);
}

std::string encoded_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace rocmforge::hub
