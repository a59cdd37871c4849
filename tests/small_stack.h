#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

namespace rocmforge::test {

/// Runs `work` with a stack of 256 KiB. Recursion for each level of a text, or for each link of a chain of ten thousand,
/// needs more.
inline void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace rocmforge::test
