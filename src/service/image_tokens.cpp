#include "service/image_tokens.h"

#include <cstddef>
#include <utility>

#include "base/error.h"

namespace rocmforge {

std::vector<std::int32_t> put_image_tokens(std::vector<std::int32_t>& ids, std::span<const std::int32_t> places,
                                           std::span<const ImageTokens> images) {
  check(places.size() == images.size(), "each image needs a place");
  std::vector<std::int32_t> out;
  std::vector<std::int32_t> begins;
  auto from = ids.begin();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = ids.begin() + places[i];
    check(place >= from && place < ids.end(), "the places of images ascend");
    out.insert(out.end(), from, place);
    for (const ImageTokens::Rows& rows : images[i].rows) {
      out.insert(out.end(), rows.before.begin(), rows.before.end());
      begins.push_back(static_cast<std::int32_t>(out.size()));
      out.insert(out.end(), static_cast<std::size_t>(rows.count), images[i].token);
    }
    out.insert(out.end(), images[i].after.begin(), images[i].after.end());
    from = place + 1;
  }
  out.insert(out.end(), from, ids.end());
  ids = std::move(out);
  return begins;
}

}  // namespace rocmforge
