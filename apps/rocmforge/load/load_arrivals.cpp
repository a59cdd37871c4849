#include "load/load_arrivals.h"

#include <algorithm>
#include <utility>

namespace rocmforge::app {

LoadArrivals::LoadArrivals(OfferedLoad offered, LoadClock clock)
    : offered_(std::move(offered)), clock_(clock), random_(offered_.seed) {}

bool LoadArrivals::is_over(double time) const {
  return stopped_ || (offered_.requests > 0 && drawn_ >= offered_.requests) ||
         (offered_.duration_seconds > 0.0 && time >= offered_.duration_seconds);
}

void LoadArrivals::draw(LoadRequest& request) {
  ++drawn_;
  request.prompt_tokens = offered_.prompts.draw(random_);
  request.output_tokens = offered_.outputs.draw(random_);
  request.seed = random_();
  request.drop_after = -1;
  if (std::uniform_real_distribution<double>()(random_) < offered_.drop_share) {
    request.drop_after = std::uniform_int_distribution<std::int32_t>(0, request.output_tokens / 2)(random_);
  }
}

bool LoadArrivals::take(LoadRequest& request) {
  std::unique_lock lock(mutex_);
  if (offered_.rate > 0.0) {
    last_due_ += std::exponential_distribution<double>(offered_.rate)(random_);
  }
  if (is_over(offered_.rate > 0.0 ? last_due_ : clock_.now())) {
    return false;
  }
  draw(request);
  request.due = last_due_;
  if (offered_.rate > 0.0 && stops_.wait_until(lock, clock_.at(request.due), [this] { return stopped_; })) {
    return false;
  }
  ++started_;
  return true;
}

void LoadArrivals::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  stops_.notify_all();
}

double LoadArrivals::share() {
  const std::lock_guard lock(mutex_);
  const double by_time = offered_.duration_seconds > 0.0 ? clock_.now() / offered_.duration_seconds : 0.0;
  const double by_count = offered_.requests > 0 ? static_cast<double>(started_) / offered_.requests : 0.0;
  return std::min(1.0, std::max(by_time, by_count));
}

}  // namespace rocmforge::app
