#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engine/piece_file.h"

namespace rocmforge {

/// Pieces of prompts in the files of a folder, each named by its key: also those of earlier processes and of other models.
/// A thread writes them beside computing. When the files have more than `max_bytes`, the ones not used for longest are
/// removed. A file is read only if it is whole: its sizes, its contents and the checksum of its bytes are compared. One that
/// is not is removed, and one line of the log says so. Files with other names are left alone.
class PromptFiles {
 public:
  /// Pieces that wait to be written have at most so many bytes.
  static constexpr std::size_t most_waiting_bytes = std::size_t{512} << 20;

  /// Makes the folder, for this user alone, if it is not there. Throws Error when it can't be used.
  PromptFiles(std::filesystem::path folder, std::int64_t max_bytes);
  /// Writes what waits.
  ~PromptFiles();
  PromptFiles(const PromptFiles&) = delete;
  PromptFiles& operator=(const PromptFiles&) = delete;

  /// Whether a file has this piece, or will have it.
  [[nodiscard]] bool has(const PieceKey& key) const;
  /// Has a piece written. False where too much waits, or where nothing can be written any more.
  bool add(PromptPiece piece);
  /// The bytes of a piece with these contents; empty where no whole file has it. One that waits is not read.
  std::optional<std::vector<std::byte>> read(const PieceKey& key, std::span<const std::int32_t> contents);
  /// Waits until nothing waits to be written.
  void finish_writing();

  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t max_bytes() const { return max_bytes_; }
  [[nodiscard]] std::int64_t num_written() const;

 private:
  struct File {
    std::int64_t bytes = 0;
    std::uint64_t last_use = 0;
  };
  void find_files();
  void write_waiting();
  void write(const PromptPiece& piece) const;
  [[nodiscard]] bool try_to_write(const PromptPiece& piece) const;
  [[nodiscard]] std::filesystem::path path_of(const PieceKey& key) const;
  // With the mutex locked.
  void insert(const PieceKey& key, std::int64_t bytes);
  void erase(const PieceKey& key);
  void take_written(const PromptPiece& piece);
  void remove_oldest();

  std::filesystem::path folder_;
  std::int64_t max_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<PieceKey, File> files_;
  std::set<std::pair<std::uint64_t, PieceKey>> by_use_;
  std::deque<PromptPiece> waiting_;  ///< the first may be being written
  std::set<PieceKey> waiting_keys_;
  std::size_t waiting_bytes_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t num_written_ = 0;
  std::uint64_t clock_ = 0;
  bool failed_ = false;  ///< nothing is written any more
  bool ends_ = false;
  std::thread writer_;
};

}  // namespace rocmforge
