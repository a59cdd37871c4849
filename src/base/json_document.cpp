#include "base/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/decimal.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

/// Builds a document from the parser's events. The library's own builder compares each new member with all earlier ones.
class DocumentBuilder final : public nlohmann::json_sax<ordered_json> {
 public:
  explicit DocumentBuilder(const ReadingCost& cost) : cost_(cost) {}

  ~DocumentBuilder() override { clear(root_); }
  DocumentBuilder(const DocumentBuilder&) = delete;
  DocumentBuilder& operator=(const DocumentBuilder&) = delete;

  [[nodiscard]] ordered_json take() { return std::move(root_); }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_not_of("-0123456789") != std::string::npos) {
      return add(value);
    }
    return add(ordered_json::binary(std::vector<std::uint8_t>(text.begin(), text.end())));
  }
  bool string(string_t& value) override {
    count(value.size());
    return add(std::move(value));
  }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t /*size*/) override { return open(ordered_json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(ordered_json::array()); }
  bool key(string_t& name) override {
    count(sizeof(Members::value_type) + name.size());
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    keep_last(open_.back()->get_ref<ordered_json::object_t&>());
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const ordered_json::exception& error) override {
    constexpr int number_overflow = 406;
    // The message "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the library's name for it.
    // It may end with the last text that was read, which can be long.
    constexpr std::size_t longest = 300;
    const std::string_view text = error.what();
    problem_ = error.id == number_overflow ? "it holds a number that is too large"
                                           : text.substr(std::min(text.find("] ") + 2, text.size()), longest);
    return false;
  }

 private:
  using Members = std::vector<ordered_json::object_t::value_type>;  // the functions of object_t would search for keys

  template <class Value>
  bool add(Value&& value) {
    count(0);
    place() = std::forward<Value>(value);
    return true;
  }

  /// Counts one more value, or the name of one, with `bytes` of its own.
  void count(std::size_t bytes) {
    constexpr std::size_t bytes_of_a_unit = 16;
    constexpr std::int64_t step = 64 << 10;  // memory is reported in steps, since each report has a cost
    if (cost_.budget != nullptr) {
      cost_.budget->spend(1 + bytes / bytes_of_a_unit);
    }
    // Lists grow by doubling, and an allocation has a header.
    pending_bytes_ += static_cast<std::int64_t>(bytes + 2 * sizeof(ordered_json) + sizeof(ordered_json*));
    if (cost_.hold && pending_bytes_ >= step) {
      cost_.hold(std::exchange(pending_bytes_, 0));
    }
  }

  bool open(ordered_json&& container) {
    count(sizeof(Members) + sizeof(ordered_json::array_t*));
    if (open_.size() > static_cast<std::size_t>(max_json_depth)) {
      problem_ = fmt::format("it is nested deeper than {} levels", max_json_depth);
      return false;
    }
    ordered_json& opened = place();
    opened = std::move(container);
    open_.push_back(&opened);  // its address does not change: nothing is added beside it before it is closed
    return true;
  }

  /// The place for the next value.
  ordered_json& place() {
    if (open_.empty()) {
      return root_;
    }
    if (open_.back()->is_array()) {
      return open_.back()->get_ref<ordered_json::array_t&>().emplace_back();
    }
    Members& members = open_.back()->get_ref<ordered_json::object_t&>();
    return members.emplace_back(std::move(key_), ordered_json()).second;
  }

  /// Of members with the same name, the first keeps its place and gets the value of the last.
  static void keep_last(Members& members) {
    std::vector<std::size_t> order(members.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto before = [&](std::size_t a, std::size_t b) {
      const int difference = members[a].first.compare(members[b].first);
      return difference < 0 || (difference == 0 && a < b);
    };
    std::ranges::sort(order, before);
    std::vector<bool> is_repeated(members.size());
    bool any = false;
    for (std::size_t i = 0; i + 1 < order.size();) {
      std::size_t last = i;
      while (last + 1 < order.size() && members[order[last + 1]].first == members[order[i]].first) {
        is_repeated[order[++last]] = any = true;
      }
      if (last > i) {
        members[order[i]].second = std::move(members[order[last]].second);
      }
      i = last + 1;
    }
    if (!any) {
      return;
    }
    Members kept;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!is_repeated[i]) {
        kept.push_back(std::move(members[i]));
      }
    }
    members.swap(kept);
  }

  const ReadingCost& cost_;
  std::int64_t pending_bytes_ = 0;
  ordered_json root_;
  std::vector<ordered_json*> open_;
  std::string key_;
  std::string problem_;
};

// The depth is limited by the reader.
void append(std::string& out, const ordered_json& value) {
  if (const auto digits = long_integer(value)) {
    out += *digits;
    return;
  }
  if (!value.is_structured()) {
    out += value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return;
  }
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    out += std::exchange(first, false) ? "" : ",";
    if (value.is_object()) {
      append(out, item.key());
      out += ':';
    }
    append(out, *item);
  }
  out += value.is_object() ? '}' : ']';
}

}  // namespace

// The library's parser takes a NUL for the end of the text.
JsonDocument read_json(std::string_view text, const ReadingCost& cost) {
  if (const std::size_t place = text.find('\0'); place != std::string_view::npos) {
    return {nullptr, fmt::format("byte {} is NUL", place + 1)};
  }
  DocumentBuilder builder(cost);
  if (!ordered_json::sax_parse(text.begin(), text.end(), &builder)) {
    return {nullptr, builder.problem()};
  }
  return {builder.take(), ""};
}

void clear(ordered_json& document) noexcept {
  // Levels below the outermost value, and an array that is refused for its depth.
  std::array<ordered_json*, max_json_depth + 2> open{&document};
  std::size_t depth = 1;
  const auto take_last = [&](ordered_json& last, auto& container) {
    if (last.is_structured() && !last.empty() && depth < open.size()) {
      open[depth++] = &last;
    } else {
      container.pop_back();
    }
  };
  while (depth > 0) {
    ordered_json& inner = *open[depth - 1];
    if (!inner.is_structured() || inner.empty()) {
      --depth;
    } else if (inner.is_array()) {
      auto& items = inner.get_ref<ordered_json::array_t&>();
      take_last(items.back(), items);
    } else {
      auto& members = inner.get_ref<ordered_json::object_t&>();
      take_last(members.back().second, members);
    }
  }
}

std::optional<std::string_view> long_integer(const ordered_json& value) {
  if (!value.is_binary()) {
    return std::nullopt;
  }
  const auto& digits = value.get_binary();
  return std::string_view(reinterpret_cast<const char*>(digits.data()), digits.size());
}

ordered_json rounded(ordered_json document) {
  if (const auto digits = long_integer(document)) {
    return read_decimal(std::string(*digits)).value;
  }
  if (document.is_structured()) {
    for (ordered_json& each : document) {
      each = rounded(std::move(each));
    }
  }
  return document;
}

std::string json_text(const ordered_json& document) {
  std::string text;
  append(text, document);
  return text;
}

}  // namespace rocmforge
