#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/prompt_files.h"

namespace rocmforge {

/// Reads pieces of prompts in a thread of its own, in the order in which they are asked for. What is read waits here until
/// it is taken, at most `most_bytes` and one piece; then nothing more is read.
class PromptReader {
 public:
  static constexpr std::size_t most_waiting_bytes = std::size_t{256} << 20;

  using Bytes = std::optional<std::vector<std::byte>>;
  using ReadPiece = std::function<Bytes(const PieceKey& key, const std::vector<std::int32_t>& contents)>;
  struct Read {
    std::uint64_t prompt = 0;  ///< for which it is read
    PieceKey key{};
    std::vector<std::int32_t> contents;
  };
  struct Result {
    std::uint64_t prompt = 0;
    Bytes bytes;  ///< empty: no whole file has it
  };

  /// `read` is called by the thread alone.
  explicit PromptReader(ReadPiece read, std::size_t most_bytes = most_waiting_bytes);
  /// Waits for the piece that is being read.
  ~PromptReader();
  PromptReader(const PromptReader&) = delete;
  PromptReader& operator=(const PromptReader&) = delete;

  void add(std::vector<Read> reads);
  /// Forgets what is asked for, and what was read, for a prompt. A piece that is being read may still come.
  void cancel(std::uint64_t prompt);
  /// The next piece that was read; empty where none is yet.
  std::optional<Result> take();
  /// Waits until a piece was read, at most so long.
  void wait(std::chrono::milliseconds most);

 private:
  void read_asked();

  ReadPiece read_;
  std::size_t most_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Read> asked_;
  std::deque<Result> done_;
  std::size_t done_bytes_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace rocmforge
