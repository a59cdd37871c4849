#include "engine/prompt_reader.h"

#include <iterator>
#include <new>
#include <utility>

namespace rocmforge {
namespace {

std::size_t size_of(const PromptReader::Result& result) { return result.bytes ? result.bytes->size() : 0; }

}  // namespace

PromptReader::PromptReader(ReadPiece read, std::size_t most_bytes)
    : read_(std::move(read)), most_bytes_(most_bytes), thread_([this] { read_asked(); }) {}

PromptReader::~PromptReader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PromptReader::add(std::vector<Read> reads) {
  {
    const std::lock_guard lock(mutex_);
    asked_.insert(asked_.end(), std::make_move_iterator(reads.begin()), std::make_move_iterator(reads.end()));
  }
  changed_.notify_all();
}

void PromptReader::cancel(std::uint64_t prompt) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(asked_, [prompt](const Read& read) { return read.prompt == prompt; });
    std::erase_if(done_, [&](const Result& result) {
      const bool is_its = result.prompt == prompt;
      done_bytes_ -= is_its ? size_of(result) : 0;
      return is_its;
    });
  }
  changed_.notify_all();
}

std::optional<PromptReader::Result> PromptReader::take() {
  std::optional<Result> result;
  {
    const std::lock_guard lock(mutex_);
    if (done_.empty()) {
      return result;
    }
    result = std::move(done_.front());
    done_.pop_front();
    done_bytes_ -= size_of(*result);
  }
  changed_.notify_all();
  return result;
}

void PromptReader::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [this] { return !done_.empty(); });
}

void PromptReader::read_asked() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || (!asked_.empty() && done_bytes_ < most_bytes_); });
    if (ends_) {
      return;
    }
    const Read read = std::move(asked_.front());
    asked_.pop_front();
    lock.unlock();
    Result found{.prompt = read.prompt, .bytes = {}};
    try {
      found.bytes = read_(read.key, read.contents);
    } catch (const std::bad_alloc&) {  // the prompt is computed
    }
    lock.lock();
    done_bytes_ += size_of(found);
    done_.push_back(std::move(found));
    changed_.notify_all();
  }
}

}  // namespace rocmforge
