#include <utility>

#include "device/device.h"

namespace rocmforge {

Event::Event(Device& device) : device_(&device), handle_(device.driver().create_event()) {}

Event::~Event() {
  if (handle_.value != nullptr) {
    device_->driver().destroy_event(handle_);
  }
}

Event::Event(Event&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, {})) {}

Event& Event::operator=(Event&& other) noexcept {
  Event moved(std::move(other));
  std::swap(device_, moved.device_);
  std::swap(handle_, moved.handle_);
  return *this;
}

void Event::synchronize() { device_->driver().synchronize(handle_); }

bool Event::finished() const { return device_->driver().finished(handle_); }

double Event::elapsed_seconds(const Event& from, const Event& to) {
  check(from.device_ == to.device_, "time between events of two devices is not defined");
  return from.device_->driver().elapsed_seconds(from.handle_, to.handle_);
}

Graph::~Graph() {
  if (handle_.value != nullptr) {
    device_->driver().destroy_graph(handle_);
  }
}

Graph::Graph(Graph&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, {})) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  Graph moved(std::move(other));
  std::swap(device_, moved.device_);
  std::swap(handle_, moved.handle_);
  return *this;
}

Stream::Stream(Device& device) : device_(&device), handle_(device.driver().create_stream()) {}

Stream::~Stream() {
  if (owned_) {
    device_->driver().destroy_stream(handle_);
  }
}

void Stream::copy_to_device(void* to, const void* from_host, std::size_t size_bytes) {
  put_held();
  device_->driver().copy_to_device(to, from_host, size_bytes, handle_);
}

void Stream::copy_to_host(void* to_host, const void* from, std::size_t size_bytes) {
  put_held();
  device_->driver().copy_to_host(to_host, from, size_bytes, handle_);
}

void Stream::copy_on_device(void* to, const void* from, std::size_t size_bytes) {
  put_held();
  device_->driver().copy_on_device(to, from, size_bytes, handle_);
}

void Stream::fill(void* to, std::uint8_t value, std::size_t size_bytes) {
  put_held();
  device_->driver().fill(to, value, size_bytes, handle_);
}

void Stream::launch(std::string_view object, std::string_view kernel, const LaunchShape& shape,
                    std::span<const std::byte> args) {
  put_held();
  LaunchShape allowed = shape;
  allowed.dependent = shape.dependent && overlap_;
  device_->driver().launch(device_->function(object, kernel), kernel, allowed, args, handle_);
  all_but_last_ended_ = !allowed.dependent || allowed.waits_first;
  if (waits_ && !capturing_) {
    synchronize();
  }
}

void Stream::launch(const Graph& graph) {
  put_held();
  device_->driver().launch(graph.handle_, handle_);
  all_but_last_ended_ = false;  // the last kernel of the graph is not known
}

void Stream::hold(std::unique_ptr<HeldLaunch> launch) {
  put_held();
  held_ = std::move(launch);
  if (!may_hold()) {
    put_held();
  }
}

void Stream::put_held() {
  if (const std::unique_ptr<HeldLaunch> launch = std::move(held_)) {
    launch->put_on(*this);
  }
}

void Stream::allow_merging(bool allowed) {
  merge_ = allowed;
  if (allowed && counters_.data() == nullptr) {
    counters_ = device_->allocate(most_counters * sizeof(std::uint32_t), "a stream's counters");
  }
}

void Stream::record(Event& event) {
  put_held();
  device_->driver().record(event.handle_, handle_);
}

void Stream::wait(const Event& event) {
  put_held();
  device_->driver().wait(handle_, event.handle_);
}

void Stream::synchronize() {
  put_held();
  device_->driver().synchronize(handle_);
}

void Stream::begin_capture() {
  put_held();
  device_->driver().begin_capture(handle_);
  capturing_ = true;
}

Graph Stream::end_capture() {
  put_held();
  capturing_ = false;
  Graph graph;
  graph.device_ = device_;
  graph.handle_ = device_->driver().end_capture(handle_);
  return graph;
}

void Stream::abandon_capture() noexcept {
  held_.reset();
  try {
    end_capture();
  } catch (...) {  // the error that ended the recording is passed on; this later error of the runtime is ignored
  }
}

}  // namespace rocmforge
