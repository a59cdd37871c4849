#include "hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "hub/digest.h"
#include "hub/retry.h"

namespace rocmforge::hub {

namespace fs = std::filesystem;

namespace {

/// An incomplete blob, with the checksum of its bytes so far.
class UnfinishedBlob {
 public:
  /// Reads the bytes of an earlier download for the checksum, and calls `client.beat` meanwhile.
  UnfinishedBlob(fs::path path, const RemoteFile& file, const HttpClient& client)
      : path_(std::move(path)), wanted_(file), digest_(file.sum, file.size) {
    constexpr mode_t for_all = 0666;
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, for_all);
    if (file_ < 0) {
      fail();
    }
    try {
      read_what_is_there(client);
    } catch (...) {
      close(file_);
      throw;
    }
  }
  ~UnfinishedBlob() { close(file_); }
  UnfinishedBlob(const UnfinishedBlob&) = delete;
  UnfinishedBlob& operator=(const UnfinishedBlob&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool is_whole() const { return size_ == wanted_.size; }

  void append(std::string_view bytes) {
    if (bytes.size() > wanted_.size - size_) {
      throw Error(fmt::format("more than the {} bytes come that were announced", wanted_.size));
    }
    digest_.add(bytes);
    while (!bytes.empty()) {
      const ssize_t count = write(file_, bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) {
        fail();
      }
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      size_ += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
    }
  }

  void restart() {
    if (ftruncate(file_, 0) != 0 || lseek(file_, 0, SEEK_SET) != 0) {
      fail();
    }
    digest_ = Digest(wanted_.sum, wanted_.size);
    size_ = 0;
  }

  std::string sum() { return digest_.finish(); }

  void become(const fs::path& blob) const {
    if (fsync(file_) != 0 || rename(path_.c_str(), blob.c_str()) != 0) {
      fail();
    }
  }

  void remove() const { unlink(path_.c_str()); }

 private:
  [[noreturn]] void fail() const { throw Error(fmt::format("{}: {}", path_.string(), std::strerror(errno))); }

  void read_what_is_there(const HttpClient& client) {
    struct stat status = {};
    if (fstat(file_, &status) != 0) {
      fail();
    }
    if (!S_ISREG(status.st_mode)) {
      throw Error(fmt::format("{}: this is no regular file", path_.string()));
    }
    if (static_cast<std::uint64_t>(status.st_size) > wanted_.size) {
      restart();
      return;
    }
    std::vector<char> buffer(std::size_t{1} << 20);
    for (;;) {
      const ssize_t count = read(file_, buffer.data(), buffer.size());
      if (count == 0) {
        return;
      }
      if (count < 0 && errno != EINTR) {
        fail();
      }
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      digest_.add(bytes);
      size_ += bytes.size();
      client.beat();
    }
  }

  fs::path path_;
  const RemoteFile& wanted_;
  Digest digest_;
  std::uint64_t size_ = 0;
  int file_ = -1;
};

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// "bytes 5-99/100"
struct ContentRange {
  std::optional<std::uint64_t> begin;
  std::optional<std::uint64_t> total;

  explicit ContentRange(std::string_view text) {
    constexpr std::string_view unit = "bytes ";
    const std::size_t dash = text.find('-');
    const std::size_t slash = text.find('/');
    if (text.starts_with(unit) && dash != std::string_view::npos && slash != std::string_view::npos && dash < slash) {
      begin = number_of(text.substr(unit.size(), dash - unit.size()));
      total = number_of(text.substr(slash + 1));
    }
  }
};

/// The download of one file into the cache. The caller holds the file's lock.
class Download {
 public:
  Download(HttpClient& client, const RemoteFile& file, const std::string& token, const RepositoryCache& cache,
           const DownloadWatch& watch)
      : client_(client),
        file_(file),
        token_(token),
        watch_(watch),
        blob_(cache.incomplete(file.sum), file, client),
        furthest_(blob_.size()),
        retry_(client, [this](const std::string& reason, double seconds) {
          watch_.waits(fmt::format("{}; again in {:.1f} s", reason, seconds));
        }) {}

  void run(const fs::path& blob) {
    bool had_bytes = blob_.size() > 0;
    for (;;) {
      watch_.bytes(blob_.size());
      while (!blob_.is_whole()) {
        attempt();
      }
      const std::string sum = blob_.sum();
      if (sum == file_.sum) {
        blob_.become(blob);
        return;
      }
      if (!had_bytes) {
        blob_.remove();
        throw Error(fmt::format("{}: {}: the checksum is {}, {} was expected; nothing of it was kept", host_of(file_.url),
                                file_.path, sum, file_.sum));
      }
      had_bytes = false;  // the bytes of an earlier download may have been wrong: download all once more
      blob_.restart();
    }
  }

 private:
  /// Makes one request for the missing bytes. Returns when the next request may be made. Throws Error.
  void attempt() {
    is_first_piece_ = true;
    try {
      const HttpAnswer answer = client_.get(request(), [this](const HttpAnswer& head, std::string_view bytes) {
        take(head, bytes);
        return true;
      });
      if (!blob_.is_whole()) {
        after(answer);
      }
    } catch (const TransferError& error) {
      if (!blob_.is_whole() && (!error.may_pass() || !retry_.pause(error.what()))) {
        throw Error(fmt::format("{} ({} of {} bytes of {} are there for the next time)", error.what(), blob_.size(),
                                file_.size, file_.path));
      }
    }
  }

  [[nodiscard]] HttpRequest request() const {
    HttpRequest request = {.url = file_.url, .token = token_};
    if (blob_.size() > 0) {
      request.headers.push_back(fmt::format("Range: bytes={}-", blob_.size()));
      if (etag_.starts_with('"')) {
        request.headers.push_back("If-Range: " + etag_);
      }
    }
    return request;
  }

  void take(const HttpAnswer& head, std::string_view bytes) {
    if (is_first_piece_) {
      is_first_piece_ = false;
      begin(head);
    }
    with_context(fmt::format("{}: {}", head.host, file_.path), [&] { blob_.append(bytes); });
    if (blob_.size() > furthest_) {
      furthest_ = blob_.size();
      retry_.progress();
    }
    watch_.bytes(blob_.size());
  }

  /// Compares the answer's headers with the request.
  void begin(const HttpAnswer& head) {
    std::optional<std::uint64_t> total;
    if (head.status == 206) {
      const ContentRange range(head.header("content-range"));
      if (range.begin != blob_.size()) {
        throw Error(fmt::format("{}: {}: another part comes than was asked for", head.host, file_.path));
      }
      total = range.total;
    } else {
      total = number_of(head.header("content-length"));
      if (blob_.size() > 0) {  // the server has no ranges, or the file has changed
        blob_.restart();
      }
    }
    if (total && *total != file_.size) {
      throw Error(fmt::format("{}: {} has {} bytes, the list says {}", head.host, file_.path, *total, file_.size));
    }
    etag_ = head.header("etag");
  }

  /// Handles an answer that did not complete the blob: pauses before the next request, or throws Error.
  void after(const HttpAnswer& answer) {
    const Error problem = answer.is_good() ? Error(fmt::format("{}: {}: the answer ended early", answer.host, file_.path))
                                           : refusal(answer, file_.path, !token_.empty());
    const bool starts_over = answer.status == 416 && blob_.size() > 0;
    if (starts_over) {
      blob_.restart();
    }
    if (!(starts_over || answer.is_good() || may_pass(answer.status)) ||
        !retry_.pause(problem.what(), answer.retry_after_seconds)) {
      throw problem;
    }
  }

  HttpClient& client_;
  const RemoteFile& file_;
  const std::string& token_;
  const DownloadWatch& watch_;
  UnfinishedBlob blob_;
  std::uint64_t furthest_;  ///< the largest size so far: only bytes beyond it are progress
  Retry retry_;
  std::string etag_;
  bool is_first_piece_ = true;
};

bool is_there(const fs::path& blob) {
  std::error_code ignored;
  return fs::is_regular_file(blob, ignored);
}

}  // namespace

std::uint64_t bytes_there(const RepositoryCache& cache, const RemoteFile& file) {
  if (is_there(cache.blob(file.sum))) {
    return file.size;
  }
  std::error_code problem;
  const std::uintmax_t size = fs::file_size(cache.incomplete(file.sum), problem);
  return problem || size > file.size ? 0 : size;
}

void download(HttpClient& client, const RemoteFile& file, const std::string& token, const RepositoryCache& cache,
              const DownloadWatch& watch) {
  const fs::path blob = cache.blob(file.sum);
  if (is_there(blob)) {
    watch.bytes(file.size);
    return;
  }
  FileLock lock(cache.lock(file.sum));
  for (bool waits = false; !lock.try_lock(); waits = true) {
    if (!waits) {
      watch.waits("another program downloads " + file.path);
    }
    client.sleep(0.2);
  }
  if (!is_there(blob)) {  // else another program has completed it
    Download(client, file, token, cache, watch).run(blob);
  }
  watch.bytes(file.size);
}

std::string first_bytes(HttpClient& client, const RemoteFile& file, const std::string& token, std::size_t count) {
  const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(count, file.size));
  Retry retry(client);
  while (wanted > 0) {
    try {
      std::string bytes;
      const HttpRequest request = {
          .url = file.url, .headers = {fmt::format("Range: bytes=0-{}", wanted - 1)}, .token = token};
      const HttpAnswer answer = client.get(request, [&](const HttpAnswer&, std::string_view piece) {
        bytes += piece.substr(0, wanted - bytes.size());
        return bytes.size() < wanted;
      });
      if (bytes.size() == wanted) {
        return bytes;
      }
      const Error problem = answer.is_good() ? Error(fmt::format("{}: {}: the answer ended early", answer.host, file.path))
                                             : refusal(answer, file.path, !token.empty());
      if (!(answer.is_good() || may_pass(answer.status)) || !retry.pause(problem.what(), answer.retry_after_seconds)) {
        throw problem;
      }
    } catch (const TransferError& error) {
      if (!error.may_pass() || !retry.pause(error.what())) {
        throw;
      }
    }
  }
  return "";
}

}  // namespace rocmforge::hub
