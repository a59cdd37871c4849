// A fake of NCCL and RCCL with the types and values of their headers (nccl.h of NCCL 2.9 to 2.28, rccl.h of ROCm 6 and 7),
// opened by name when the tests run. Its communicators are in memory of the host; a sum is the part times the ranks. A call
// with other values than the headers' is an invalid argument.

#include <cstddef>
#include <vector>

namespace {

enum Result { success = 0, unhandled_cuda_error = 1, system_error = 2, internal_error = 3, invalid_argument = 4 };
enum DataType { int8 = 0, uint8 = 1, int32 = 2, uint32 = 3, int64 = 4, uint64 = 5, float16 = 6, float32 = 7, float64 = 8 };
enum Operation { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

struct Communicator {
  int ranks;
  int device;
};

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

Result ncclCommInitAll(Communicator** made, int count, const int* devices) {
  for (int i = 0; i < count; ++i) {
    if (devices[i] > 7) {
      return unhandled_cuda_error;
    }
    made[i] = new Communicator{count, devices[i]};
    alive.push_back(made[i]);
  }
  return success;
}

Result ncclCommAbort(Communicator* communicator) {
  std::erase(alive, communicator);
  delete communicator;
  return success;
}

Result ncclAllReduce(const void* part, void* out, std::size_t count, DataType type, Operation operation,
                     Communicator* communicator, void* stream) {
  if (type != float32 || operation != sum || stream == nullptr) {
    return invalid_argument;
  }
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<float*>(out)[i] = static_cast<const float*>(part)[i] * static_cast<float>(communicator->ranks);
  }
  return success;
}

int fake_communicators() { return static_cast<int>(alive.size()); }
}
