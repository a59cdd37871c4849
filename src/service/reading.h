#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/json_document.h"
#include "base/work_budget.h"
#include "service/request_memory.h"

namespace rocmforge {

/// What reading one request may use, however the request came: work, and memory that is counted for it. The reader spends
/// the budget; the reader and the thread that delivers the answer may both count memory.
class Reading {
 public:
  /// `work`: units of a WorkBudget. `memory`: of all requests and answers; null: bytes are not counted. `client`: whose
  /// share the bytes are taken from.
  Reading(std::uint64_t work, std::shared_ptr<RequestMemory> memory, std::string client)
      : budget(work, "reading the request"),
        memory_(std::move(memory)),
        claim_(std::make_shared<MemoryClaim>(memory_, std::move(client))) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  WorkBudget budget;

  /// Counts more bytes, until the request has been answered. Throws ServiceError (no_memory) where there is not enough.
  void hold(std::int64_t bytes);
  /// Keeps `bytes` of the counted bytes; release() gives back the rest.
  void keep(std::int64_t bytes);
  /// Gives back what keep() has left over.
  void release();
  /// Counts bytes that the answer needs until its end, whatever keep() says: a grammar's.
  void hold_to_end(std::int64_t bytes);
  [[nodiscard]] std::int64_t held_to_end() const { return to_end_; }
  [[nodiscard]] std::int64_t held() const { return claim_->amount() - surplus_; }
  /// The limits for reading a JSON text.
  [[nodiscard]] ReadingCost cost() {
    return {.budget = &budget, .hold = [this](std::int64_t bytes) { hold(bytes); }};
  }
  /// Forgets what an attempt has counted, to start again with the whole budget.
  void begin_again();

  /// What is counted; kept by an answer until the client has taken it.
  [[nodiscard]] const std::shared_ptr<MemoryClaim>& claim() const { return claim_; }

 private:
  std::shared_ptr<RequestMemory> memory_;
  std::shared_ptr<MemoryClaim> claim_;
  std::mutex mutex_;          // guards the claim's amount and the next one
  std::int64_t surplus_ = 0;  ///< of the claim, that release() gives back
  std::int64_t to_end_ = 0;   ///< used by the reader only
};

}  // namespace rocmforge
