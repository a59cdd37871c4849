#include "models/step/step_message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace rocmforge {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : bytes_(&bytes) { bytes.clear(); }

  template <class Number>
  void operator()(const Number& number) const {
    static_assert(std::is_trivially_copyable_v<Number>);
    append(std::as_bytes(std::span(&number, 1)));
  }
  template <class Element>
  void operator()(const std::vector<Element>& elements) const {
    (*this)(std::span(elements));
  }
  template <class Element>
  void operator()(std::span<Element> elements) const {
    static_assert(std::is_trivially_copyable_v<Element>);
    (*this)(static_cast<std::uint64_t>(elements.size()));
    append(std::as_bytes(elements));
  }

 private:
  void append(std::span<const std::byte> more) const { bytes_->insert(bytes_->end(), more.begin(), more.end()); }

  std::vector<std::byte>* bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte>& left) : left_(&left) {}

  template <class Number>
  void operator()(Number& number) const {
    static_assert(std::is_trivially_copyable_v<Number>);
    take(&number, sizeof(Number));
  }
  template <class Element>
  void operator()(std::vector<Element>& elements) const {
    std::uint64_t count = 0;
    (*this)(count);
    if (count > left_->size() / sizeof(Element)) {
      throw Error("a message between ranks ends too soon");
    }
    elements.resize(count);
    take(elements.data(), count * sizeof(Element));
  }

 private:
  void take(void* to, std::size_t count) const {
    if (count > left_->size()) {
      throw Error("a message between ranks ends too soon");
    }
    if (count > 0) {
      std::memcpy(to, left_->data(), count);
    }
    *left_ = left_->subspan(count);
  }

  std::span<const std::byte>* left_;
};

}  // namespace

void StepMessage::write(Kind kind, std::int32_t mtp_block, std::span<const Copy> copies, const BatchPlan& batch,
                        std::vector<std::byte>& bytes) {
  const Writer write(bytes);
  write(kind);
  write(mtp_block);
  write(copies);
  BatchPlan::visit(batch, write);
  write(batch.given.stride);
  write(batch.given.count);
  write(std::span(batch.given.data, static_cast<std::size_t>(batch.given.count * batch.given.stride)));
}

void StepMessage::read(std::span<const std::byte> bytes) {
  const Reader read(bytes);
  read(kind);
  read(mtp_block);
  read(copies);
  BatchPlan::visit(batch, read);
  read(batch.given.stride);
  read(batch.given.count);
  read(given_rows);
  batch.given.data = given_rows.data();
  if (!bytes.empty()) {
    throw Error("a message between ranks is too long");
  }
}

}  // namespace rocmforge
