#include "conformance/case_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "device/launch_trace.h"

namespace rocmforge::test {

CaseWatch::~CaseWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CaseWatch::OnTestStart(const testing::TestInfo& test) {
  set(fmt::format("{}.{}", test.test_suite_name(), test.name()));
}
void CaseWatch::OnTestEnd(const testing::TestInfo&) { set(""); }

void CaseWatch::set(std::string name) {
  {
    const std::lock_guard lock(mutex_);
    name_ = std::move(name);
    started_ = Clock::now();
  }
  changed_.notify_all();
}

void CaseWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (name_.empty()) {
      changed_.wait(lock);
    } else if (Clock::now() < started_ + limit_) {
      changed_.wait_until(lock, started_ + limit_);
    } else {
      std::printf("HANGS: %s, not ended in %lld s; launched last: %s\n", name_.c_str(),
                  static_cast<long long>(limit_.count()),
                  fmt::format("{}", fmt::join(launch_trace().last(4), ", ")).c_str());
      std::fflush(stdout);
      std::_Exit(exit_code);  // the thread of the case waits for the kernel
    }
  }
}

}  // namespace rocmforge::test
