#include "schedule/pages/page_table.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {

PageTable::PageTable(BlockAllocator& allocator, std::int32_t block_tokens)
    : allocator_(&allocator), block_tokens_(block_tokens) {
  check(block_tokens > 0, "a block holds at least one token");
}

PageTable::~PageTable() { clear(); }

PageTable::PageTable(PageTable&& other) noexcept
    : allocator_(other.allocator_),
      block_tokens_(other.block_tokens_),
      blocks_(std::exchange(other.blocks_, {})),
      given_up_(std::exchange(other.given_up_, 0)) {}

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(block_tokens_, other.block_tokens_);
  std::swap(blocks_, other.blocks_);
  std::swap(given_up_, other.given_up_);
  return *this;
}

std::int32_t PageTable::blocks_needed(std::int32_t tokens) const {
  const std::int32_t total = tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0);
  return std::max(0, total - static_cast<std::int32_t>(blocks_.size()));
}

bool PageTable::reserve(std::int32_t tokens) {
  const std::int32_t needed = blocks_needed(tokens);
  if (!allocator_->can_allocate(needed)) {
    return false;
  }
  const std::size_t count = blocks_.size() + static_cast<std::size_t>(needed);
  if (count > blocks_.capacity()) {  // before a block is allocated, which would leak if memory ran out
    blocks_.reserve(std::max(count, 2 * blocks_.capacity()));
  }
  for (std::int32_t i = 0; i < needed; ++i) {
    blocks_.push_back(allocator_->allocate());
  }
  return true;
}

void PageTable::adopt(std::span<const BlockId> blocks, std::size_t given_up) {
  check(blocks_.empty(), "only an empty table can adopt a prefix");
  check(given_up <= blocks.size(), "a table can't give up more blocks than it has");
  blocks_.reserve(blocks.size());
  blocks_.assign(given_up, -1);
  given_up_ = given_up;
  for (const BlockId block : blocks.subspan(given_up)) {
    allocator_->retain(block);
    blocks_.push_back(block);
  }
}

bool PageTable::give_up_before(std::int32_t first) {
  const std::size_t end = std::min(static_cast<std::size_t>(first / block_tokens_), blocks_.size());
  const bool gives_up = given_up_ < end;
  for (; given_up_ < end; ++given_up_) {
    allocator_->release(std::exchange(blocks_[given_up_], -1));
  }
  return gives_up;
}

std::int32_t PageTable::shared_blocks(std::int32_t first) const {
  std::int32_t count = 0;
  for (auto index = static_cast<std::size_t>(first / block_tokens_); index < blocks_.size(); ++index) {
    count += blocks_[index] >= 0 && allocator_->references(blocks_[index]) > 1 ? 1 : 0;
  }
  return count;
}

bool PageTable::make_writable(std::int32_t first, std::vector<BlockCopy>& copies, std::int32_t group) {
  check(first >= 0, "positions start at 0");
  if (!allocator_->can_allocate(shared_blocks(first))) {
    return false;
  }
  for (auto index = static_cast<std::size_t>(first / block_tokens_); index < blocks_.size(); ++index) {
    BlockId& block = blocks_[index];
    if (block >= 0 && allocator_->references(block) > 1) {
      const BlockId own = allocator_->allocate();
      if (static_cast<std::int32_t>(index) * block_tokens_ < first) {
        copies.push_back({block, own, group});
      }
      allocator_->release(block);
      block = own;
    }
  }
  return true;
}

void PageTable::truncate(std::int32_t tokens) {
  check(tokens >= 0, "a table can't hold fewer than no tokens");
  const auto kept = static_cast<std::size_t>(tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0));
  while (blocks_.size() > kept) {
    if (blocks_.back() >= 0) {
      allocator_->release(blocks_.back());
    }
    blocks_.pop_back();
  }
  given_up_ = std::min(given_up_, kept);
}

std::int32_t PageTable::capacity_tokens() const { return static_cast<std::int32_t>(blocks_.size()) * block_tokens_; }

}  // namespace rocmforge
