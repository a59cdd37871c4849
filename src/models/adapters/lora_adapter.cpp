#include "models/adapters/lora_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// Ranks are padded with zeros to a multiple of this: kernels read rows of whole vectors.
constexpr std::int64_t rank_unit = 16;

/// Rows and columns of the whole tensor of a weight.
std::int64_t tensor_rows(const MatmulWeight& weight) { return weight.rows.whole() ? weight.spec.n : weight.rows.of; }
std::int64_t tensor_columns(const MatmulWeight& weight) {
  return weight.columns.whole() ? weight.spec.k : weight.columns.of;
}

std::string name_of(const TensorPiece& piece) { return piece.name + ".weight"; }

std::vector<float> dequantised(const GgufTensor& tensor) {
  const Tensor& data = tensor.tensor;
  const std::int64_t columns = data.shape.cols();
  std::vector<float> values(static_cast<std::size_t>(data.shape.elems()));
  for (std::int64_t row = 0; row < data.shape.rows(); ++row) {
    const auto* from =
        static_cast<const std::byte*>(data.data) + static_cast<std::size_t>(row) * row_bytes(data.dtype, columns);
    dequantize_row(data.dtype, from, values.data() + row * columns, columns);
  }
  return values;
}

/// The selected part of a matrix [rows, columns].
std::vector<float> selected(std::vector<float> matrix, std::int64_t rows, std::int64_t columns, const Selection& of_rows,
                            const Selection& of_columns) {
  if (of_rows.whole() && of_columns.whole()) {
    return matrix;
  }
  const std::int64_t taken_rows = of_rows.whole() ? rows : of_rows.count();
  const std::int64_t taken_columns = of_columns.whole() ? columns : of_columns.count();
  std::vector<float> taken(static_cast<std::size_t>(taken_rows * taken_columns));
  copy_selected(DType::f32, matrix.data(), rows, columns, of_rows, of_columns,
                std::as_writable_bytes(std::span(taken)).data());
  return taken;
}

}  // namespace

LoraAdapter::LoraAdapter(std::shared_ptr<const LoraFile> file, const std::deque<MatmulWeight>& weights,
                         const AdapterDevice& where)
    : file_(std::move(file)), pairs_(weights.size()), store_(file_->file(), *where.device, where.pool) {
  scale_.kernel = where.registry->choose<Scale>(scale_.spec, *where.info).kernel;
  std::vector<Target> targets;
  std::size_t total = 0;
  for (const MatmulWeight& weight : weights) {
    if (Target target{&weight, pieces_of(weight)}; !target.pieces.empty()) {
      plan(target, where);
      for (const Matrix* matrix : {&target.pair.a, &target.pair.b}) {
        total += WeightStore::copy_bytes(matrix->kernel->stored_bytes(matrix->spec));
      }
      targets.push_back(std::move(target));
    }
  }
  if (targets.empty()) {  // they are all on the other side of a split model
    return;
  }
  store_.reserve(total);
  for (Target& target : targets) {
    load(target, where.pool);
    pairs_[target.weight->index] = target.pair;
  }
  store_.finish();
  inner_ =
      where.device->allocate(static_cast<std::size_t>(where.rows * most_rank_) * sizeof(float), "an adapter's products");
  if (workspace_bytes_ > 0) {
    workspace_ = where.device->allocate(workspace_bytes_, "an adapter's products");
  }
}

bool LoraAdapter::finds(std::string_view base, const std::deque<MatmulWeight>& weights) {
  return std::ranges::any_of(weights, [base](const MatmulWeight& weight) {
    return weight.tensor->name == base ||
           std::ranges::any_of(weight.pieces, [base](const TensorPiece& piece) { return name_of(piece) == base; });
  });
}

std::vector<LoraAdapter::Piece> LoraAdapter::pieces_of(const MatmulWeight& weight) const {
  std::vector<Piece> pieces;
  std::int64_t first_row = 0;
  for (const TensorPiece& piece : weight.pieces) {
    // A piece may have the name of the whole tensor: ffn_up, which holds gate and up. The shape tells them apart.
    const LoraFile::Pair* pair = file_->find(name_of(piece));
    const bool is_whole = name_of(piece) == weight.tensor->name;
    if (pair != nullptr && (!is_whole || pair->b->tensor.shape.rows() == piece.rows)) {
      pieces.push_back({pair, first_row, piece.rows});
    }
    first_row += piece.rows;
  }
  const LoraFile::Pair* pair = file_->find(weight.tensor->name);
  if (pair != nullptr && std::ranges::none_of(pieces, [pair](const Piece& piece) { return piece.pair == pair; })) {
    pieces.push_back({pair, 0, tensor_rows(weight)});
  }
  std::ranges::for_each(pieces, [&](const Piece& piece) { check_shapes(weight, piece); });
  return pieces;
}

void LoraAdapter::check_shapes(const MatmulWeight& weight, const Piece& piece) const {
  const auto check_shape = [&](const GgufTensor& tensor, const Shape& expected) {
    if (tensor.tensor.shape.squeezed() != expected.squeezed()) {
      throw Error(fmt::format("{} has shape {}, the model's {} needs {}", file_->place(tensor),
                              tensor.tensor.shape.to_string(), weight.tensor->name, expected.to_string()));
    }
  };
  if (weight.transposed) {
    throw Error(fmt::format("{}: the model's {} is stored by columns, adapters of such weights are not supported",
                            file_->place(*piece.pair->a), weight.tensor->name));
  }
  check_shape(*piece.pair->a, {piece.pair->rank, tensor_columns(weight)});
  check_shape(*piece.pair->b, {piece.rows, piece.pair->rank});
}

void LoraAdapter::plan(Target& target, const AdapterDevice& where) {
  std::int64_t rank = 0;
  std::ranges::for_each(target.pieces, [&rank](const Piece& piece) { rank += piece.pair->rank; });
  rank = (rank + rank_unit - 1) / rank_unit * rank_unit;
  const Matmul::Spec& base = target.weight->spec;
  target.pair = {.a = {.spec = {DType::f32, rank, base.k}}, .b = {.spec = {DType::f32, base.n, rank}}};
  most_rank_ = std::max(most_rank_, rank);
  for (Matrix* matrix : {&target.pair.a, &target.pair.b}) {
    matrix->kernel = with_context(file_->place(*target.pieces[0].pair->a),
                                  [&] { return where.registry->choose<Matmul>(matrix->spec, *where.info).kernel; });
    workspace_bytes_ = std::max(workspace_bytes_, matrix->kernel->workspace_bytes(where.rows, matrix->spec.k));
  }
}

void LoraAdapter::load(Target& target, ThreadPool* pool) {
  target.pair.a.data = store(target.pair.a, target, rows_of_a(target), pool);
  target.pair.b.data = store(target.pair.b, target, rows_of_b(target), pool);
}

/// The matrices A times their factors below each other, then zeros.
std::vector<float> LoraAdapter::rows_of_a(const Target& target) {
  const MatmulWeight& weight = *target.weight;
  const std::int64_t columns = tensor_columns(weight), rank = target.pair.a.spec.n;
  std::vector<float> rows(static_cast<std::size_t>(rank * columns));
  auto to = rows.begin();
  for (const Piece& piece : target.pieces) {
    const std::vector<float> values = dequantised(*piece.pair->a);
    to = std::ranges::transform(values, to, [&](float value) { return value * piece.pair->factor; }).out;
  }
  return selected(std::move(rows), rank, columns, {}, weight.columns);
}

/// Each matrix B at its own rows and the columns of its A, zeros elsewhere.
std::vector<float> LoraAdapter::rows_of_b(const Target& target) {
  const MatmulWeight& weight = *target.weight;
  const std::int64_t rank = target.pair.b.spec.k;
  std::vector<float> rows(static_cast<std::size_t>(tensor_rows(weight) * rank));
  std::int64_t column = 0;
  for (const Piece& piece : target.pieces) {
    const std::vector<float> values = dequantised(*piece.pair->b);
    for (std::int64_t row = 0; row < piece.rows; ++row) {
      std::copy_n(values.begin() + row * piece.pair->rank, piece.pair->rank,
                  rows.begin() + (piece.first_row + row) * rank + column);
    }
    column += piece.pair->rank;
  }
  return selected(std::move(rows), tensor_rows(weight), rank, weight.rows, {});
}

const void* LoraAdapter::store(const Matrix& matrix, const Target& target, const std::vector<float>& rows,
                               ThreadPool* pool) {
  std::vector<const GgufTensor*> tensors;
  for (const Piece& piece : target.pieces) {
    tensors.insert(tensors.end(), {piece.pair->a, piece.pair->b});
  }
  return store_.assemble(tensors, matrix.kernel->stored_bytes(matrix.spec), [&](std::byte* to) {
    ExecutionContext context{pool};
    matrix.kernel->store(matrix.spec, rows.data(), to, context);
  });
}

void LoraAdapter::add(const Step& step, const AdapterRun& run, float scale, const MatmulWeight& weight,
                      const ProductRows& rows) const {
  const std::optional<Pair>& pair = pairs_[weight.index];
  if (!pair) {
    return;
  }
  const std::int64_t rank = pair->a.spec.n;
  float* inner = inner_.as<float>();
  this->run(pair->a, {rows.x + run.first * rows.x_stride, rows.x_stride, inner, rank}, run.count, false, step);
  if (scale != 1.0f) {
    scale_.run({.x = inner, .count = run.count * rank, .factor = scale}, step);
  }
  this->run(pair->b, {inner, rank, rows.out + run.first * rows.stride, rows.stride}, run.count, true, step);
}

void LoraAdapter::run(const Matrix& matrix, const ProductRows& rows, std::int64_t tokens, bool accumulate,
                      const Step& step) const {
  const MatmulOutput outputs[] = {{.dtype = DType::f32,
                                   .weight = matrix.data,
                                   .n = matrix.spec.n,
                                   .out = rows.out,
                                   .stride = rows.stride,
                                   .accumulate = accumulate}};
  matrix.kernel->run({.x = rows.x,
                      .tokens = tokens,
                      .k = matrix.spec.k,
                      .x_stride = rows.x_stride,
                      .outputs = outputs,
                      .workspace = workspace_.data()},
                     *step.context);
}

}  // namespace rocmforge
