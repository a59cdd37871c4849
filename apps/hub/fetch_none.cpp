#include <fmt/format.h>

#include "base/error.h"
#include "hub/pull.h"

namespace rocmforge::hub {

Pulled fetch(const ModelName& name, const Settings& /*settings*/, const PullOptions& /*options*/) {
  throw Error(fmt::format("{}: this build downloads nothing: it was configured with ROCMFORGE_DOWNLOADS=OFF", name.title()));
}

}  // namespace rocmforge::hub
