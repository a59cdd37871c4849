#include "models/adapters/lora_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "models/adapters/pair_values.h"

namespace rocmforge {
namespace {

/// Rows and columns of the whole tensor of a weight.
std::int64_t tensor_rows(const MatmulWeight& weight) { return weight.rows.whole() ? weight.spec.n : weight.rows.of; }
std::int64_t tensor_columns(const MatmulWeight& weight) {
  return weight.columns.whole() ? weight.spec.k : weight.columns.of;
}

std::size_t bytes_of_rows(const EmbeddingRows::Spec& spec) {
  return static_cast<std::size_t>(spec.vocab * spec.hidden) * sizeof(float);
}

const EmbeddingTable* embedding_of(const WeightTable& weights) {
  const auto& tables = weights.tables();
  const auto found =
      std::ranges::find(tables, LoraFile::embedding, [](const EmbeddingTable& table) { return table.tensor->name; });
  return found != tables.end() ? &*found : nullptr;
}

std::string name_of(const TensorPiece& piece) { return piece.name + ".weight"; }

}  // namespace

LoraAdapter::LoraAdapter(std::shared_ptr<const LoraFile> file, const WeightTable& weights, const AdapterDevice& where)
    : file_(std::move(file)),
      pairs_(weights.matrices().size()),
      experts_(*file_, weights, where),
      store_(file_->file(), *where.device, where.pool) {
  scale_.kernel = where.registry->choose<Scale>(scale_.spec, *where.info).kernel;
  std::vector<Target> targets;
  std::size_t total = experts_.copy_bytes();
  for (const MatmulWeight& weight : weights.matrices()) {
    if (Target target{&weight, pieces_of(weight)}; !target.pieces.empty()) {
      plan(target, where);
      for (const Matrix* matrix : {&target.pair.a, &target.pair.b}) {
        total += WeightStore::copy_bytes(matrix->kernel->stored_bytes(matrix->spec));
      }
      targets.push_back(std::move(target));
    }
  }
  if (const EmbeddingTable* table = embedding_of(weights); table != nullptr && file_->find(LoraFile::embedding) != nullptr) {
    plan_tokens(*table, where);
    total += WeightStore::copy_bytes(bytes_of_rows(tokens_->a.spec)) +
             WeightStore::copy_bytes(tokens_->b.kernel->stored_bytes(tokens_->b.spec));
  }
  if (targets.empty() && !tokens_ && !experts_.any()) {  // they are all on the other side of a split model
    return;
  }
  store_.reserve(total);
  for (Target& target : targets) {
    load(target, where.pool);
    pairs_[target.weight->index] = target.pair;
  }
  if (tokens_) {
    load_tokens(where.pool);
  }
  experts_.load(store_, where);
  store_.finish();
  inner_ =
      where.device->allocate(static_cast<std::size_t>(where.rows * most_rank_) * sizeof(float), "an adapter's products");
  if (workspace_bytes_ > 0) {
    workspace_ = where.device->allocate(workspace_bytes_, "an adapter's products");
  }
}

bool LoraAdapter::finds(std::string_view base, const WeightTable& weights) {
  if (base == LoraFile::embedding) {
    return embedding_of(weights) != nullptr;
  }
  return ExpertAdapter::finds(base, weights) || std::ranges::any_of(weights.matrices(), [base](const MatmulWeight& weight) {
           return weight.tensor->name == base ||
                  std::ranges::any_of(weight.pieces, [base](const TensorPiece& piece) { return name_of(piece) == base; });
         });
}

std::vector<LoraAdapter::Piece> LoraAdapter::pieces_of(const MatmulWeight& weight) const {
  std::vector<Piece> pieces;
  if (weight.tensor->name == LoraFile::embedding) {  // a head with the same tensor stays as it is
    return pieces;
  }
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
  if (weight.transposed) {
    throw Error(fmt::format("{}: the model's {} is stored by columns, adapters of such weights are not supported",
                            file_->place(*piece.pair->a), weight.tensor->name));
  }
  file_->check_shape(*piece.pair->a, {piece.pair->rank, tensor_columns(weight)}, *weight.tensor);
  file_->check_shape(*piece.pair->b, {piece.rows, piece.pair->rank}, *weight.tensor);
}

void LoraAdapter::plan(Target& target, const AdapterDevice& where) {
  std::int64_t rank = 0;
  std::ranges::for_each(target.pieces, [&rank](const Piece& piece) { rank += piece.pair->rank; });
  const GgufTensor& first = *target.pieces[0].pair->a;
  const Matmul::Spec& base = target.weight->spec;
  plan(target.pair.a, {DType::f32, padded_rank(rank), base.k}, first, where);
  plan(target.pair.b, {DType::f32, base.n, padded_rank(rank)}, first, where);
  most_rank_ = std::max(most_rank_, padded_rank(rank));
}

void LoraAdapter::plan(Matrix& matrix, const Matmul::Spec& spec, const GgufTensor& first, const AdapterDevice& where) {
  matrix.spec = spec;
  matrix.kernel =
      with_context(file_->place(first), [&] { return where.registry->choose<Matmul>(spec, *where.info).kernel; });
  workspace_bytes_ = std::max(workspace_bytes_, matrix.kernel->workspace_bytes(where.rows, spec.k));
}

void LoraAdapter::plan_tokens(const EmbeddingTable& table, const AdapterDevice& where) {
  const LoraFile::Pair& pair = *file_->find(LoraFile::embedding);
  const EmbeddingRows::Spec& base = table.operation.spec;
  file_->check_shape(*pair.a, {base.vocab, pair.rank}, *table.tensor);
  file_->check_shape(*pair.b, {base.hidden, pair.rank}, *table.tensor);
  TokenPair& tokens = tokens_.emplace(TokenPair{.pair = &pair});
  tokens.a.spec = {DType::f32, base.vocab, padded_rank(pair.rank)};
  tokens.a.kernel = with_context(file_->place(*pair.a),
                                 [&] { return where.registry->choose<EmbeddingRows>(tokens.a.spec, *where.info).kernel; });
  plan(tokens.b, {DType::f32, base.hidden, padded_rank(pair.rank)}, *pair.a, where);
  most_rank_ = std::max(most_rank_, padded_rank(pair.rank));
}

void LoraAdapter::load_tokens(ThreadPool* pool) {
  const LoraFile::Pair& pair = *tokens_->pair;
  const std::vector<const GgufTensor*> tensors = {pair.a, pair.b};
  const std::vector<float> rows = with_padding(dequantised(*pair.a), pair.rank, tokens_->a.spec.hidden, pair.factor);
  tokens_->table = store_.assemble(tensors, bytes_of_rows(tokens_->a.spec),
                                   [&rows](std::byte* to) { std::memcpy(to, rows.data(), rows.size() * sizeof(float)); });
  tokens_->b.data = store(tokens_->b, tensors, with_padding(dequantised(*pair.b), pair.rank, tokens_->b.spec.k, 1.0f), pool);
}

void LoraAdapter::load(Target& target, ThreadPool* pool) {
  std::vector<const GgufTensor*> tensors;
  for (const Piece& piece : target.pieces) {
    tensors.insert(tensors.end(), {piece.pair->a, piece.pair->b});
  }
  target.pair.a.data = store(target.pair.a, tensors, rows_of_a(target), pool);
  target.pair.b.data = store(target.pair.b, tensors, rows_of_b(target), pool);
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

const void* LoraAdapter::store(const Matrix& matrix, const std::vector<const GgufTensor*>& tensors,
                               const std::vector<float>& rows, ThreadPool* pool) {
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

void LoraAdapter::add_to_embedding(const Step& step, const AdapterRun& run, float scale) const {
  if (!tokens_) {
    return;
  }
  const std::int64_t rank = tokens_->b.spec.k, hidden = tokens_->b.spec.n;
  float* inner = inner_.as<float>();
  tokens_->a.run({.ids = step.arrays->tokens + run.first,
                  .tokens = run.count,
                  .table = tokens_->table,
                  .scale = scale,
                  .out = inner,
                  .drawn = step.buffers.sampled},
                 step);
  this->run(tokens_->b, {inner, rank, step.buffers.hidden + run.first * hidden, hidden}, run.count, true, step);
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
