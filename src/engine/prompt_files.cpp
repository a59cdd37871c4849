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
#include "engine/piece_file.h"
#include "engine/salt_secret.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".prompt";
constexpr std::string_view temporary_suffix = ".prompt-tmp";
constexpr std::chrono::hours time_to_write{1};

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
  PieceFile file(path, O_RDONLY);
  const std::optional<PieceHeader> header = file.is_open() ? read_piece_header(file) : std::nullopt;
  return header && header->key == key && file.size() == static_cast<std::int64_t>(header->file_bytes());
}

}  // namespace

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
    if (name == salt_secret_file) {
      continue;
    }
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
    insert(piece.key, static_cast<std::int64_t>(bytes_on_disk(piece)));
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
    PieceFile file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.is_open()) {
      throw Error(std::strerror(errno));
    }
    write_piece(file, piece);
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
    PieceFile file(path, O_RDONLY);
    if (std::optional<std::vector<std::byte>> bytes = file.is_open() ? read_piece(file, key, contents) : std::nullopt) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
      return bytes;
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
