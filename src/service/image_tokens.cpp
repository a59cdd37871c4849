#include "service/image_tokens.h"

#include <cstddef>
#include <utility>

#include "base/error.h"

namespace rocmforge {

std::vector<std::int32_t> put_image_tokens(std::vector<std::int32_t>& ids, std::span<const std::int32_t> places,
                                           std::span<const std::int32_t> counts, const ImageTokens& tokens) {
  check(places.size() == counts.size(), "each image needs a place");
  std::vector<std::int32_t> out;
  std::vector<std::int32_t> begins;
  auto from = ids.begin();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = ids.begin() + places[i];
    check(place >= from && place < ids.end(), "the places of images ascend");
    out.insert(out.end(), from, place);
    out.insert(out.end(), tokens.before.begin(), tokens.before.end());
    begins.push_back(static_cast<std::int32_t>(out.size()));
    out.insert(out.end(), static_cast<std::size_t>(counts[i]), tokens.token);
    out.insert(out.end(), tokens.after.begin(), tokens.after.end());
    from = place + 1;
  }
  out.insert(out.end(), from, ids.end());
  ids = std::move(out);
  return begins;
}

}  // namespace rocmforge
