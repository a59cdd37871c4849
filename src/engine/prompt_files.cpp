#include "engine/prompt_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".prompt";
constexpr std::string_view temporary_suffix = ".prompt-tmp";
constexpr std::chrono::hours time_to_write{1};

/// The start of a file. Behind it come the contents, then the bytes.
struct Header {
  std::array<char, 8> magic{'R', 'F', 'P', 'R', 'O', 'M', 'P', 'T'};
  std::uint32_t version = 1;
  std::uint32_t reserved = 0;
  PieceKey key{};
  std::uint64_t num_contents = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t sum = 0;  ///< checksum() of contents and bytes, one multiplied

  friend bool operator==(const Header&, const Header&) = default;
};
static_assert(sizeof(Header) == 72);

Header header_of(const PieceKey& key, std::span<const std::int32_t> contents, std::span<const std::byte> bytes) {
  return {.key = key,
          .num_contents = contents.size(),
          .num_bytes = bytes.size(),
          .sum = checksum(std::as_bytes(contents)) * 3 + checksum(bytes)};
}

/// A file that is closed at the end. Opening does not wait, also where it is a pipe.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  /// False at an error and where the file ends before.
  bool read(std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t count = ::read(descriptor_, to.data(), to.size());
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return false;
      }
      to = to.subspan(static_cast<std::size_t>(count));
    }
    return true;
  }
  /// Throws Error with the system's reason.
  void write(std::span<const std::byte> from) {
    while (!from.empty()) {
      const ssize_t count = ::write(descriptor_, from.data(), from.size());
      if (count < 0 && errno != EINTR) {
        throw Error(std::strerror(errno));
      }
      from = from.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
  }
  [[nodiscard]] std::int64_t size() const {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) ? std::int64_t{status.st_size} : -1;
  }

 private:
  int descriptor_;
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::string name_of(const PieceKey& key) {
  std::string name;
  for (const std::uint32_t word : key) {
    name += fmt::format("{:08x}", word);
  }
  return name;
}

/// The key that a file's name says; empty for other names.
std::optional<PieceKey> key_of(const std::string& name) {
  PieceKey key{};
  if (name.size() != 8 * key.size() + suffix.size() || !name.ends_with(suffix)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* first = name.data() + 8 * i;
    if (const auto [end, problem] = std::from_chars(first, first + 8, key[i], 16);
        problem != std::errc() || end != first + 8) {
      return std::nullopt;
    }
  }
  return name_of(key) + std::string(suffix) == name ? std::optional(key) : std::nullopt;
}

/// Whether the sizes of a file of a piece are those that its start says.
bool looks_whole(const fs::path& path, const PieceKey& key) {
  OpenFile file(path, O_RDONLY);
  Header header;
  if (!file.is_open() || !file.read(bytes_of(header))) {
    return false;
  }
  const Header usual;
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  return header.magic == usual.magic && header.version == usual.version && header.key == key && header.num_contents < most &&
         header.num_bytes < most &&
         file.size() == static_cast<std::int64_t>(sizeof(Header) + 4 * header.num_contents + header.num_bytes);
}

PieceKey hash_of(std::span<const std::byte> bytes) {
  return sha256({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

PieceKey first_piece_key(const PieceKey& identity, std::string_view salt) {
  std::vector<std::byte> text(sizeof(identity) + salt.size());
  std::memcpy(text.data(), identity.data(), sizeof(identity));
  std::ranges::copy(std::as_bytes(std::span(salt)), text.begin() + sizeof(identity));
  return hash_of(text);
}

PieceKey piece_key(const PieceKey& before, std::span<const std::int32_t> contents) {
  std::vector<std::byte> text(sizeof(before) + contents.size_bytes());
  std::memcpy(text.data(), before.data(), sizeof(before));
  std::ranges::copy(std::as_bytes(contents), text.begin() + sizeof(before));
  return hash_of(text);
}

// Each step is a bijection of its sum for a given word, and of the word for a given sum. Four sums are independent, so that
// a processor has four multiplications under way.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15u;
  std::array<std::uint64_t, 4> sums = {bytes.size(), 1, 2, 3};
  const auto take = [](std::uint64_t& sum, std::uint64_t word) {
    sum = (sum ^ word) * factor;
    sum ^= sum >> 32;
  };
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), bytes.data() + at, sizeof(words));
    for (std::size_t i = 0; i < 4; ++i) {
      take(sums[i], words[i]);
    }
  }
  for (; at < bytes.size(); ++at) {
    take(sums[at % 4], static_cast<std::uint64_t>(bytes[at]));
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) {
    take(all, sum);
  }
  return all;
}

PromptFiles::PromptFiles(fs::path folder, std::int64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {
  std::error_code problem;
  fs::create_directories(folder_.parent_path(), problem);
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(fmt::format("the folder for prompts can't be made: {}", std::strerror(errno))).in(folder_.string());
  }
  if (!fs::is_directory(folder_, problem) || ::access(folder_.c_str(), R_OK | W_OK | X_OK) != 0) {
    throw Error("the folder for prompts can't be read and written").in(folder_.string());
  }
  find_files();
  writer_ = std::thread([this] { write_waiting(); });
}

PromptFiles::~PromptFiles() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

fs::path PromptFiles::path_of(const PieceKey& key) const { return folder_ / (name_of(key) + std::string(suffix)); }

// Older files are taken as used before younger ones.
void PromptFiles::find_files() {
  std::vector<std::pair<fs::file_time_type, PieceKey>> found;
  std::error_code problem, ignored;
  int others = 0, damaged = 0;
  for (fs::directory_iterator entry(folder_, problem); !problem && entry != fs::directory_iterator();
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    const std::optional<PieceKey> key = key_of(name);
    const fs::file_time_type time = fs::last_write_time(entry->path(), ignored);
    const bool is_temporary = name.ends_with(temporary_suffix);
    if (key && looks_whole(entry->path(), *key)) {
      found.emplace_back(time, *key);
    } else if (is_temporary && fs::file_time_type::clock::now() - time < time_to_write) {
      continue;  // another process may be writing it
    } else if (key || is_temporary) {
      fs::remove(entry->path(), ignored);
      ++damaged;
    } else {
      ++others;
    }
  }
  if (others + damaged > 0) {
    log_warning("{}: of the files {} are no prompts and left alone, {} are not whole and removed", folder_.string(), others,
                damaged);
  }
  std::ranges::sort(found);
  for (const auto& [time, key] : found) {
    insert(key, static_cast<std::int64_t>(fs::file_size(path_of(key), ignored)));
  }
  remove_oldest();
}

void PromptFiles::insert(const PieceKey& key, std::int64_t bytes) {
  erase(key);
  files_[key] = {.bytes = bytes, .last_use = ++clock_};
  by_use_.emplace(clock_, key);
  bytes_ += bytes;
}

void PromptFiles::erase(const PieceKey& key) {
  if (const auto found = files_.find(key); found != files_.end()) {
    by_use_.erase({found->second.last_use, key});
    bytes_ -= found->second.bytes;
    files_.erase(found);
  }
}

void PromptFiles::remove_oldest() {
  while (bytes_ > max_bytes_ && !by_use_.empty()) {
    const PieceKey key = by_use_.begin()->second;
    std::error_code ignored;
    fs::remove(path_of(key), ignored);
    erase(key);
  }
}

bool PromptFiles::has(const PieceKey& key) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(key) || waiting_keys_.contains(key);
}

bool PromptFiles::add(PromptPiece piece) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_ || waiting_bytes_ + piece.bytes.size() > most_waiting_bytes) {
      return false;
    }
    if (files_.contains(piece.key) || !waiting_keys_.insert(piece.key).second) {
      return true;
    }
    waiting_bytes_ += piece.bytes.size();
    waiting_.push_back(std::move(piece));
  }
  changed_.notify_all();
  return true;
}

void PromptFiles::write_waiting() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      return;
    }
    const PromptPiece& piece = waiting_.front();  // others are added behind it
    const bool writes = !failed_;
    lock.unlock();
    const bool is_written = writes && try_to_write(piece);
    lock.lock();
    failed_ = !is_written;
    if (is_written) {
      take_written(piece);
    }
    waiting_bytes_ -= piece.bytes.size();
    waiting_keys_.erase(piece.key);
    waiting_.pop_front();
    changed_.notify_all();
  }
}

bool PromptFiles::try_to_write(const PromptPiece& piece) const {
  try {
    write(piece);
    return true;
  } catch (const std::exception& error) {
    log_warning("{}: no further prompts are written: {}", folder_.string(), error.what());
    return false;
  }
}

void PromptFiles::take_written(const PromptPiece& piece) {
  try {
    insert(piece.key, static_cast<std::int64_t>(sizeof(Header) + 4 * piece.contents.size() + piece.bytes.size()));
    ++num_written_;
    remove_oldest();
  } catch (const std::bad_alloc&) {  // the next process finds the file
    failed_ = true;
  }
}

// A file gets its name when it is whole.
void PromptFiles::write(const PromptPiece& piece) const {
  const fs::path path = path_of(piece.key);
  const fs::path temporary = folder_ / fmt::format("{}-{}{}", name_of(piece.key), ::getpid(), temporary_suffix);
  std::error_code ignored;
  fs::remove(temporary, ignored);
  try {
    OpenFile file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.is_open()) {
      throw Error(std::strerror(errno));
    }
    Header header = header_of(piece.key, piece.contents, piece.bytes);
    file.write(bytes_of(header));
    file.write(std::as_bytes(std::span(piece.contents)));
    file.write(piece.bytes);
    fs::rename(temporary, path);
  } catch (...) {
    fs::remove(temporary, ignored);
    throw;
  }
}

std::optional<std::vector<std::byte>> PromptFiles::read(const PieceKey& key, std::span<const std::int32_t> contents) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(key);
    if (found == files_.end()) {
      return std::nullopt;
    }
    insert(key, std::int64_t{found->second.bytes});  // now the last one used
  }
  const fs::path path = path_of(key);
  std::error_code ignored;
  if (looks_whole(path, key)) {
    OpenFile file(path, O_RDONLY);
    Header header;
    std::vector<std::int32_t> own(contents.size());
    if (file.is_open() && file.read(bytes_of(header)) && header.num_contents == contents.size() &&
        header.num_bytes < static_cast<std::uint64_t>(std::max<std::int64_t>(file.size(), 0)) &&
        file.read(std::as_writable_bytes(std::span(own))) && std::ranges::equal(own, contents)) {
      std::vector<std::byte> bytes(header.num_bytes);
      if (file.read(bytes) && header == header_of(key, own, bytes)) {
        fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
        return bytes;
      }
    }
  }
  if (fs::remove(path, ignored)) {  // else another process has removed it
    log_warning("{}: is no whole piece of a prompt, and removed", path.string());
  }
  const std::lock_guard lock(mutex_);
  erase(key);
  return std::nullopt;
}

void PromptFiles::finish_writing() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty(); });
}

std::int64_t PromptFiles::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::int64_t PromptFiles::num_written() const {
  const std::lock_guard lock(mutex_);
  return num_written_;
}

}  // namespace rocmforge
