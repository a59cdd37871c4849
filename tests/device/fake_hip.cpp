// A HIP runtime of version FAKE_VERSION with FAKE_DEVICES devices, as far as the search for a runtime asks. With
// FAKE_TELLS_QUEUES its initialisation fails with the number of hardware queues that the environment allows.

#include <unistd.h>

#include <cstdlib>

extern "C" {
int hipInit(unsigned) {
#ifdef FAKE_CRASHES
  std::abort();
#endif
#ifdef FAKE_HANGS
  ::pause();
#endif
#ifdef FAKE_TELLS_QUEUES
  const char* const queues = std::getenv("GPU_MAX_HW_QUEUES");
  return queues == nullptr ? FAKE_FAILURE : std::atoi(queues);
#endif
  return FAKE_DEVICES > 0 ? 0 : FAKE_FAILURE;
}
int hipRuntimeGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}
int hipGetDeviceCount(int* count) {
  *count = FAKE_DEVICES;
  return 0;
}
#ifndef FAKE_IS_OLD
int hipGraphInstantiateWithFlags(void**, void*, unsigned long long) { return 0; }
#endif
}
