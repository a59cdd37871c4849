#include "models/step/step_link.h"

#include <cstring>

namespace rocmforge {

StepLink::StepLink(Device& from, Device& to, std::size_t size_bytes, Route route)
    : from_(&from), to_(&to), route_(route), size_bytes_(size_bytes) {
  check(from.is_gpu() == to.is_gpu(), "a link is between two GPUs or two CPUs");
  if (route == Route::peer) {
    box_ = to.allocate(size_bytes, "rows of another device");
  } else {
    pinned_box_ = from.allocate_pinned(size_bytes);
  }
  if (from.is_gpu()) {
    sent_.emplace(from);
    taken_.emplace(to);
  }
}

void StepLink::check_room(std::initializer_list<Part> parts) const {
  std::size_t bytes = 0;
  for (const Part& part : parts) {
    bytes += part.size_bytes;
  }
  check(bytes <= size_bytes_, "a link has room for what a step hands on");
}

void StepLink::send(std::initializer_list<Part> parts) {
  check_room(parts);
  std::byte* box = route_ == Route::peer ? box_.data() : pinned_box_.data();
  if (from_->is_gpu()) {
    from_->stream().wait(*taken_);
  }
  for (const Part& part : parts) {
    if (part.size_bytes == 0) {
      continue;
    }
    if (!from_->is_gpu()) {
      std::memcpy(box, part.data, part.size_bytes);
    } else if (route_ == Route::peer) {
      from_->stream().copy_on_device(box, part.data, part.size_bytes);
    } else {
      from_->stream().copy_to_host(box, part.data, part.size_bytes);
    }
    box += part.size_bytes;
  }
  if (from_->is_gpu()) {
    from_->stream().record(*sent_);
  }
}

void StepLink::receive(std::initializer_list<Part> parts) {
  check_room(parts);
  const std::byte* box = route_ == Route::peer ? box_.data() : pinned_box_.data();
  if (to_->is_gpu()) {
    to_->stream().wait(*sent_);
  }
  for (const Part& part : parts) {
    if (part.size_bytes == 0) {
      continue;
    }
    if (!to_->is_gpu()) {
      std::memcpy(part.data, box, part.size_bytes);
    } else if (route_ == Route::peer) {
      to_->stream().copy_on_device(part.data, box, part.size_bytes);
    } else {
      to_->stream().copy_to_device(part.data, box, part.size_bytes);
    }
    box += part.size_bytes;
  }
  if (to_->is_gpu()) {
    to_->stream().record(*taken_);
  }
}

}  // namespace rocmforge
