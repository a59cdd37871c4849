#include <fmt/format.h>

#include "base/error.h"
#include "hub/image_fetch.h"
#include "hub/pull.h"

namespace rocmforge::hub {

Pulled fetch(const ModelName& name, const Settings& /*settings*/, const PullOptions& /*options*/) {
  throw Error(fmt::format("{}: this build downloads nothing: it was configured with ROCMFORGE_DOWNLOADS=OFF", name.title()));
}

std::string fetch_image(const std::string& /*url*/, std::size_t /*most_bytes*/, const ImageFetch& /*options*/) {
  throw Error("this build fetches nothing: it was configured with ROCMFORGE_DOWNLOADS=OFF");
}

}  // namespace rocmforge::hub
