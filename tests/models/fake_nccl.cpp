// A fake of NCCL and RCCL with the values of their headers (nccl.h of NCCL 2.9 to 2.28, rccl.h of ROCm 6 and 7), whose enums
// are integers here as they are for the caller: sanitizers compare a function's type with that of the call. Opened by name
// when the tests run. Its communicators are in memory of the host; a sum is the part times the ranks. A call with other
// values than the headers' is an invalid argument.

#include <cstddef>
#include <vector>

namespace {

using Result = int;
enum : Result { success = 0, unhandled_cuda_error = 1, system_error = 2, internal_error = 3, invalid_argument = 4 };
using DataType = int;
enum : DataType { int8 = 0, uint8 = 1, int32 = 2, uint32 = 3, int64 = 4, uint64 = 5, float16 = 6, float32 = 7, float64 = 8 };
using Operation = int;
enum : Operation { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

struct Communicator {
  int ranks;
  int device;
};
using Handle = void*;

std::vector<Communicator*> alive;

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  *version = FAKE_VERSION;
  return success;
}

const char* ncclGetErrorString(Result result) {
  return result == success ? "no error" : result == invalid_argument ? "invalid argument" : "unhandled cuda error";
}

Result ncclCommInitAll(Handle* made, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    if (devices[i] > 7) {
      return unhandled_cuda_error;
    }
    alive.push_back(new Communicator{count, devices[i]});
    made[i] = alive.back();
  }
  return success;
}

Result ncclCommAbort(Handle handle) {
  auto* const communicator = static_cast<Communicator*>(handle);
  std::erase(alive, communicator);
  delete communicator;
  return success;
}

Result ncclAllReduce(const void* part, void* out, std::size_t count, DataType type, Operation operation, Handle communicator,
                     void* stream) {
  if (type != float32 || operation != sum || stream == nullptr) {
    return invalid_argument;
  }
  const auto ranks = static_cast<float>(static_cast<const Communicator*>(communicator)->ranks);
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<float*>(out)[i] = static_cast<const float*>(part)[i] * ranks;
  }
  return success;
}

int fake_communicators() { return static_cast<int>(alive.size()); }
}
