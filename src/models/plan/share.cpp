#include "models/plan/share.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rocmforge {
namespace {

[[noreturn]] void refuse(std::int64_t count, std::string_view what, std::int32_t ranks) {
  throw Error(fmt::format("{} {} can't be shared by {} ranks", count, what, ranks));
}

}  // namespace

Range Share::equal(std::int64_t count, std::string_view what) const {
  if (count % ranks != 0) {
    refuse(count, what, ranks);
  }
  return {count / ranks * rank, count / ranks};
}

Range Share::repeated(std::int64_t count, std::string_view what) const {
  if (count >= ranks || count == 0) {
    return equal(count, what);
  }
  if (ranks % count != 0) {
    refuse(count, what, ranks);
  }
  return {rank / (ranks / count), 1};
}

Range Share::units(std::int64_t count, std::int64_t unit, std::string_view what) const {
  const std::int64_t all = count / unit;
  if (!whole() && (count % unit != 0 || all < ranks)) {
    throw Error(fmt::format("{} {} in blocks of {} can't be shared by {} ranks", count, what, unit, ranks));
  }
  const std::int64_t first = all * rank / ranks;
  const std::int64_t end = all * (rank + 1) / ranks;
  return whole() ? Range{0, count} : Range{first * unit, (end - first) * unit};
}

}  // namespace rocmforge
