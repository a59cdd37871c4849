#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "base/log.h"
#include "models/plan/weight_table.h"
#include "tensor/quant/dequantize.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

/// The columns of each of the inputs that lie side by side, one input after another.
void part_inputs(const MatmulWeight& weight, std::byte* out) {
  const Tensor& tensor = weight.tensor->tensor;
  const auto element = static_cast<std::int64_t>(row_bytes(weight.spec.weight, 1));
  const std::int64_t each = weight.spec.k / weight.interleaved;
  const std::size_t file_row = row_bytes(tensor.dtype, weight.spec.k);
  std::vector<float> values(tensor.dtype != weight.spec.weight ? static_cast<std::size_t>(weight.spec.k) : 0);
  for (std::int64_t n = 0; n < weight.spec.n; ++n) {
    const auto* row = static_cast<const std::byte*>(tensor.data) + static_cast<std::size_t>(n) * file_row;
    if (!values.empty()) {
      dequantize_row(tensor.dtype, row, values.data(), weight.spec.k);
      row = reinterpret_cast<const std::byte*>(values.data());
    }
    for (std::int64_t k = 0; k < weight.spec.k; ++k, out += element) {
      const std::int64_t column = k % each * weight.interleaved + k / each;
      std::memcpy(out, row + column * element, static_cast<std::size_t>(element));
    }
  }
}

/// The columns of the file's matrix as rows.
void transpose(const MatmulWeight& weight, std::byte* out) {
  const auto element = static_cast<std::int64_t>(row_bytes(weight.spec.weight, 1));
  const auto* from = static_cast<const std::byte*>(weight.tensor->tensor.data);
  for (std::int64_t n = 0; n < weight.spec.n; ++n) {
    for (std::int64_t k = 0; k < weight.spec.k; ++k, out += element) {
      std::memcpy(out, from + (k * weight.spec.n + n) * element, static_cast<std::size_t>(element));
    }
  }
}

/// The weight's part of the file's matrix.
void rearrange(const MatmulWeight& weight, std::byte* out) {
  if (weight.transposed) {
    transpose(weight, out);
    return;
  }
  if (weight.interleaved > 1) {
    part_inputs(weight, out);
    return;
  }
  copy_selected(weight.spec.weight, weight.tensor->tensor.data, weight.rows.whole() ? weight.spec.n : weight.rows.of,
                weight.columns.whole() ? weight.spec.k : weight.columns.of, weight.rows, weight.columns, out);
}

const void* load_matrix(const MatmulWeight& weight, WeightStore& store, ExecutionContext& context) {
  const std::size_t packed_bytes = weight.kernel->packed_bytes(weight.spec);
  if (packed_bytes > 0) {
    return store.repack(*weight.tensor, packed_bytes, [&](const void* rows, void* packed) {
      std::vector<std::byte> rearranged;
      if (weight.rearranged()) {
        rearranged.resize(weight.bytes());
        rearrange(weight, rearranged.data());
        rows = rearranged.data();
      }
      weight.kernel->pack(weight.spec, rows, packed, context);
    });
  }
  if (weight.rearranged()) {
    const GgufTensor* const tensors[] = {weight.tensor};
    return store.assemble(tensors, weight.bytes(), [&](std::byte* out) { rearrange(weight, out); });
  }
  return store.view(*weight.tensor);
}

const void* load_experts(const ExpertMatrix& matrix, WeightStore& store, ExecutionContext& context) {
  if (matrix.in_place()) {
    const auto skipped = static_cast<std::size_t>(matrix.first_row) * row_bytes(matrix.spec.weight, matrix.spec.k);
    return static_cast<const std::byte*>(store.view(*matrix.tensors[0])) + skipped;
  }
  std::vector<const GgufTensor*> tensors = matrix.tensors;
  if (matrix.shared != nullptr) {
    tensors.push_back(matrix.shared);
  }
  return store.assemble(tensors, matrix.bytes(), [&](std::byte* to) {
    std::vector<std::byte> part(matrix.cut() ? matrix.slot_file_bytes() : 0);
    for (std::int64_t e = 0; e < matrix.spec.experts; ++e, to += matrix.expert_bytes()) {
      const void* rows = matrix.rows(e);
      if (matrix.cut()) {
        matrix.copy(e, part.data());
        rows = part.data();
      }
      matrix.kernel->store(matrix.spec, rows, to, context);
    }
  });
}

const void* load_heads(const HeadMatrix& matrix, WeightStore& store, ExecutionContext& context) {
  if (matrix.in_place()) {
    return static_cast<const std::byte*>(store.view(*matrix.tensor)) + matrix.skipped_bytes();
  }
  const GgufTensor* const tensors[] = {matrix.tensor};
  return store.assemble(tensors, matrix.bytes(), [&](std::byte* to) { matrix.copy(to, context); });
}

}  // namespace

std::size_t WeightTable::packed_bytes(bool on_gpu) const {
  if (store_) {
    return store_->owned_bytes();
  }
  std::size_t total = 0;
  std::set<const GgufTensor*> raw;  // rows in the file's format are uploaded once for all their users
  const auto add_raw = [&](const GgufTensor* tensor) {
    if (on_gpu && raw.insert(tensor).second) {
      total += WeightStore::copy_bytes(tensor->tensor.bytes());
    }
  };
  for (const MatmulWeight& weight : matrices_) {
    if (const std::size_t packed = weight.kernel->packed_bytes(weight.spec); packed > 0) {
      total += WeightStore::copy_bytes(packed);
    } else if (weight.rearranged()) {
      total += WeightStore::copy_bytes(weight.bytes());
    } else {
      add_raw(weight.tensor);
    }
  }
  for (const ExpertMatrix& experts : expert_matrices_) {
    if (experts.in_place()) {
      add_raw(experts.tensors[0]);
    } else {
      total += WeightStore::copy_bytes(experts.bytes());
    }
  }
  for (const HeadMatrix& heads : head_matrices_) {
    if (heads.in_place()) {
      add_raw(heads.tensor);
    } else {
      total += WeightStore::copy_bytes(heads.bytes());
    }
  }
  for (const EmbeddingTable& table : tables_) {
    add_raw(table.tensor);
  }
  for (const WeightVector& vector : vectors_) {
    const bool converted = vector.tensor != nullptr && vector.tensor->tensor.dtype != DType::f32;
    total += on_gpu || converted ? WeightStore::copy_bytes(vector.count() * sizeof(float)) : 0;
  }
  for (const IntegerVector& vector : integers_) {
    total += on_gpu ? WeightStore::copy_bytes(vector.values.size_bytes()) : 0;
  }
  return total;
}

std::size_t WeightTable::expert_bytes(bool on_gpu) const {
  std::size_t total = 0;
  for (const ExpertMatrix& experts : expert_matrices_) {
    if (!experts.in_place()) {
      total += WeightStore::copy_bytes(experts.bytes());
    } else if (on_gpu && (experts.first_row == 0 || experts.tensor_rows == experts.spec.n)) {  // joined tensors once
      total += WeightStore::copy_bytes(experts.tensors[0]->tensor.bytes());
    }
  }
  return total;
}

void WeightTable::load(Device& device, ThreadPool& pool, const std::function<void(double)>& progress) {
  refuse_unused_scales();
  const std::size_t total = packed_bytes(device.is_gpu());
  store_.emplace(*file_, device, &pool);
  store_->reserve(total);
  for (WeightVector& vector : vectors_) {
    vector.data = vector.tensor != nullptr ? store_->floats(*vector.tensor) : store_->floats(vector.values);
  }
  for (IntegerVector& vector : integers_) {
    vector.data = store_->integers(vector.values);
  }
  for (EmbeddingTable& table : tables_) {
    table.data = store_->view(*table.tensor);
  }
  std::size_t shown = 0;
  load_matrices(*store_, pool, [&] {
    if (progress && store_->owned_bytes() > shown) {
      shown = store_->owned_bytes();
      progress(static_cast<double>(shown) / static_cast<double>(total));
    }
  });
  check(store_->owned_bytes() == total, "the plan counts the weights that are copied");
  store_->finish();
}

void WeightTable::load_matrices(WeightStore& store, ThreadPool& pool, const std::function<void()>& show) {
  ExecutionContext context{&pool};
  for (MatmulWeight& weight : matrices_) {
    weight.data = load_matrix(weight, store, context);
    show();
  }
  for (ExpertMatrix& experts : expert_matrices_) {
    experts.data = load_experts(experts, store, context);
    show();
  }
  for (HeadMatrix& heads : head_matrices_) {
    heads.data = load_heads(heads, store, context);
    show();
  }
}

void WeightTable::warn_of_unused() const {
  std::vector<std::string> unused;
  for (const GgufTensor& tensor : file_->tensors()) {
    if (!used_->contains(tensor.name)) {
      unused.push_back(quote(tensor.name));
    }
  }
  if (!unused.empty()) {
    log_warning("{}: tensors without effect: {}", file_->path().string(), fmt::join(unused, ", "));
  }
}

}  // namespace rocmforge
