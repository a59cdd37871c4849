#include "models/adapters/expert_adapter.h"

#include <algorithm>

#include "base/error.h"
#include "models/adapters/pair_values.h"

namespace rocmforge {
namespace {

/// Rows and columns that each expert's part of the file's tensor has, without those of a second half.
std::int64_t rows_in_file(const ExpertMatrix& matrix) { return matrix.of_rows.whole() ? matrix.spec.n : matrix.of_rows.of; }
std::int64_t columns_in_file(const ExpertMatrix& matrix) {
  return matrix.of_columns.whole() ? matrix.spec.k : matrix.of_columns.of;
}

}  // namespace

ExpertAdapter::ExpertAdapter(const LoraFile& file, const WeightTable& weights, const AdapterDevice& where)
    : file_(&file), target_of_(weights.expert_matrices().size(), -1) {
  scale_.kernel = where.registry->choose<Scale>(scale_.spec, *where.info).kernel;
  for (const ExpertMatrix& matrix : weights.expert_matrices()) {
    if (Target target{&matrix, pieces_of(matrix)}; !target.pieces.empty()) {
      plan(target, where);
      target_of_[matrix.index] = static_cast<std::int32_t>(targets_.size());
      targets_.push_back(std::move(target));
    }
  }
}

bool ExpertAdapter::finds(std::string_view base, const WeightTable& weights) {
  return std::ranges::any_of(weights.expert_matrices(), [base](const ExpertMatrix& matrix) {
    return (matrix.shared != nullptr && matrix.shared->name == base) ||
           std::ranges::any_of(matrix.tensors, [base](const GgufTensor* tensor) { return tensor->name == base; });
  });
}

bool ExpertAdapter::any_inputs() const {
  return std::ranges::any_of(targets_, [](const Target& target) { return !target.matrix->down; });
}

std::vector<ExpertAdapter::Piece> ExpertAdapter::pieces_of(const ExpertMatrix& matrix) const {
  std::vector<Piece> pieces;
  const auto add = [&](const GgufTensor& tensor, const Piece& place) {
    const LoraFile::Pair* pair = file_->find(tensor.name);
    if (pair == nullptr) {
      return;
    }
    file_->check_shape(*pair->a, {place.experts, pair->rank, columns_in_file(matrix)}, tensor);
    file_->check_shape(*pair->b, {place.experts, place.rows, pair->rank}, tensor);
    pieces.push_back(place);
    pieces.back().pair = pair;
  };
  const std::int64_t chosen = matrix.spec.experts - (matrix.shared != nullptr ? 1 : 0);
  const std::int64_t own = rows_in_file(matrix);
  if (matrix.stacked()) {
    add(*matrix.tensors[0], {.experts = chosen, .first_row = matrix.first_row, .rows = matrix.tensor_rows});
  }
  for (std::int64_t e = 0; !matrix.stacked() && e < chosen; ++e) {
    add(*matrix.tensors[static_cast<std::size_t>(e)], {.first_expert = e, .experts = 1, .rows = own});
  }
  if (matrix.shared != nullptr) {
    add(*matrix.shared, {.first_expert = chosen, .experts = 1, .rows = own});
  }
  return pieces;
}

// A computes each slot by itself, and so does B but of down, whose slots are summed with their shares.
void ExpertAdapter::plan(Target& target, const AdapterDevice& where) {
  const ExpertMatmul::Spec& base = target.matrix->spec;
  const auto rank = [](const Piece& piece) { return piece.pair->rank; };
  const std::int64_t width = padded_rank(std::ranges::max(target.pieces, {}, rank).pair->rank);
  const GgufTensor& first = *target.pieces[0].pair->a;
  const std::int64_t slots = where.rows * base.used;
  ExpertMatmul::Spec a{
      .weight = DType::f32, .experts = base.experts, .n = width, .k = base.k, .used = base.used, .alone = true};
  ExpertMatmul::Spec b{.weight = DType::f32, .experts = base.experts, .n = base.n, .k = width, .used = base.used};
  (target.matrix->down ? a : b).used = 1;
  plan(target.a, a, target.matrix->down ? slots : where.rows, first, where);
  plan(target.b, b, target.matrix->down ? where.rows : slots, first, where);
  inner_floats_ = std::max(inner_floats_, static_cast<std::size_t>(slots * width));
  most_slots_ = std::max(most_slots_, slots);
}

void ExpertAdapter::plan(Matrix& matrix, const ExpertMatmul::Spec& spec, std::int64_t tokens, const GgufTensor& first,
                         const AdapterDevice& where) {
  matrix.spec = spec;
  matrix.kernel =
      with_context(file_->place(first), [&] { return where.registry->choose<ExpertMatmul>(spec, *where.info).kernel; });
  workspace_bytes_ = std::max(workspace_bytes_, matrix.kernel->workspace_bytes(spec, tokens));
  order_bytes_ = std::max(order_bytes_, matrix.kernel->order_bytes(spec, tokens));
}

std::size_t ExpertAdapter::copy_bytes() const {
  std::size_t total = 0;
  for (const Target& target : targets_) {
    total += WeightStore::copy_bytes(target.a.bytes()) + WeightStore::copy_bytes(target.b.bytes());
  }
  return total;
}

void ExpertAdapter::load(WeightStore& store, const AdapterDevice& where) {
  if (targets_.empty()) {
    return;
  }
  for (Target& target : targets_) {
    load(target, rows_of_a, target.a, store, where.pool);
    load(target, rows_of_b, target.b, store, where.pool);
  }
  const auto allocate = [&](std::size_t size_bytes) {
    return size_bytes > 0 ? where.device->allocate(size_bytes, "an adapter's products") : DeviceBuffer();
  };
  inner_ = allocate(inner_floats_ * sizeof(float));
  workspace_ = allocate(workspace_bytes_);
  order_ = allocate(order_bytes_);
  const std::vector<float> ones(static_cast<std::size_t>(most_slots_), 1.0f);
  ones_ = allocate(ones.size() * sizeof(float));
  where.device->upload(ones_.data(), ones.data(), ones.size() * sizeof(float));
}

const ExpertAdapter::Piece* ExpertAdapter::Target::piece_of(std::int64_t expert) const {
  const auto found = std::ranges::find_if(pieces, [expert](const Piece& piece) {
    return expert >= piece.first_expert && expert < piece.first_expert + piece.experts;
  });
  return found != pieces.end() ? &*found : nullptr;
}

/// A times its factor, then zeros.
std::vector<float> ExpertAdapter::rows_of_a(const Target& target, std::int64_t expert) {
  const std::int64_t rank = target.a.spec.n, columns = columns_in_file(*target.matrix);
  std::vector<float> rows(static_cast<std::size_t>(rank * columns));
  if (const Piece* piece = target.piece_of(expert); piece != nullptr) {
    const LoraFile::Pair& pair = *piece->pair;
    const std::vector<float> own = dequantised_rows(*pair.a, (expert - piece->first_expert) * pair.rank, pair.rank);
    std::ranges::transform(own, rows.begin(), [&](float value) { return value * pair.factor; });
  }
  return selected(std::move(rows), rank, columns, {}, target.matrix->of_columns);
}

std::vector<float> ExpertAdapter::rows_of_b(const Target& target, std::int64_t expert) {
  const std::int64_t rank = target.b.spec.k, count = rows_in_file(*target.matrix);
  std::vector<float> rows(static_cast<std::size_t>(count * rank));
  if (const Piece* piece = target.piece_of(expert); piece != nullptr) {
    const LoraFile::Pair& pair = *piece->pair;
    const std::int64_t first = (expert - piece->first_expert) * piece->rows + piece->first_row;
    rows = with_padding(dequantised_rows(*pair.b, first, count), pair.rank, rank, 1.0f);
  }
  return selected(std::move(rows), count, rank, target.matrix->of_rows, {});
}

void ExpertAdapter::load(const Target& target, RowsOf rows_of, Matrix& matrix, WeightStore& store, ThreadPool* pool) {
  std::vector<const GgufTensor*> tensors;
  for (const Piece& piece : target.pieces) {
    tensors.insert(tensors.end(), {piece.pair->a, piece.pair->b});
  }
  matrix.data = store.assemble(tensors, matrix.bytes(), [&](std::byte* to) {
    ExecutionContext context{pool};
    for (std::int64_t e = 0; e < matrix.spec.experts; ++e, to += matrix.expert_bytes()) {
      matrix.kernel->store(matrix.spec, rows_of(target, e).data(), to, context);
    }
  });
}

const ExpertAdapter::Target* ExpertAdapter::target_of(const ExpertMatrix& matrix) const {
  const std::int32_t target = target_of_[matrix.index];
  return target >= 0 ? &targets_[static_cast<std::size_t>(target)] : nullptr;
}

void ExpertAdapter::add(const Step& step, const AdapterRun& run, float scale, const ExpertMatrix& matrix,
                        const ExpertRows& rows) const {
  const Target* target = target_of(matrix);
  if (target == nullptr) {
    return;
  }
  const bool down = matrix.down;
  const std::int64_t used = matrix.spec.used, first_slot = run.first * used, slots = run.count * used;
  const std::int32_t* ids = step.buffers.experts + first_slot;
  float* const inner = inner_.as<float>();
  const float* const x = rows.x + (down ? first_slot : run.first) * target->a.spec.k;
  float* const out = rows.out + (down ? run.first : first_slot) * target->b.spec.n;
  this->run(target->a, down ? slots : run.count, ids, {x, inner, nullptr}, step);
  if (scale != 1.0f) {
    scale_.run({.x = inner, .count = slots * target->a.spec.n, .factor = scale}, step);
  }
  const float* const shares = down ? rows.shares + first_slot : ones_.as<float>();
  this->run(target->b, down ? run.count : slots, ids, {inner, out, shares}, step);
}

void ExpertAdapter::run(const Matrix& matrix, std::int64_t tokens, const std::int32_t* ids, const ExpertRows& rows,
                        const Step& step) const {
  const ExpertWeight weights[] = {{.dtype = DType::f32,
                                   .data = matrix.data,
                                   .n = matrix.spec.n,
                                   .expert_bytes = static_cast<std::int64_t>(matrix.expert_bytes())}};
  matrix.kernel->run({.x = rows.x,
                      .tokens = tokens,
                      .k = matrix.spec.k,
                      .used = matrix.spec.used,
                      .experts = matrix.spec.experts,
                      .ids = ids,
                      .weights = weights,
                      .shares = rows.shares,
                      .out = rows.out,
                      .activation = Activation::none,
                      .alone = matrix.spec.alone,
                      .workspace = workspace_.data(),
                      .order = order_.data()},
                     *step.context);
}

}  // namespace rocmforge
