// One row of attention over two keys with a known result: both keys have the same score, so the result is the mean of the
// values.

#include <rocmforge/attention.h>

#include <array>
#include <cstdio>

int main() {
  try {
    rocmforge::attention::Context context("cpu");
    const std::array<float, 8> q = {1, 0, 0, 0, 0, 0, 0, 0};
    const std::array<float, 16> k = {1, 2, 3, 4, 5, 6, 7, 8, 1, 9, 9, 9, 9, 9, 9, 9};
    const std::array<float, 16> v = {0, 2, 4, 6, 8, 10, 12, 14, 2, 4, 6, 8, 10, 12, 14, 16};
    std::array<float, 8> out = {};
    rocmforge::attention::Options options = {};
    options.dtype = ROCMFORGE_F32;
    context.run(rocmforge::attention::DenseCall{1, 1, 2, 1, 1, 8, q.data(), k.data(), v.data(), nullptr, out.data()},
                options);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float wanted = 1.0f + 2.0f * static_cast<float>(i);
      if (out[i] < wanted - 1e-3f || out[i] > wanted + 1e-3f) {
        std::printf("element %zu is %g, not %g\n", i, static_cast<double>(out[i]), static_cast<double>(wanted));
        return 1;
      }
    }
    std::printf("attention by %s on %s\n", context.last_backend().c_str(), context.device_name().c_str());
    return 0;
  } catch (const rocmforge::attention::AttentionError& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
