#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/math.h"
#include "device/device_info.h"
#include "kernels/formats/cpu/matmul_layout.h"
#include "kernels/launch/cpu/body/bodies.h"
#include "kernels/matmul/cpu/matmul_body.h"
#include "ops/registry.h"

namespace rocmforge {

/// The bodies that the products of one kernel are made of.
struct CpuMatmulBodies {
  std::string_view kernel_name;  ///< "cpu_avx2"
  CpuIsa isa;
  KernelPriority priority;
  const QuantisedBody& quantised;
  const PlainBody& plain;
  const BodyTable& table;
};

/// The bodies in this build.
std::span<const CpuMatmulBodies> cpu_matmul_bodies();

/// Refuses a device that the bodies cannot run on.
Support check_matmul_device(const CpuMatmulBodies& bodies, const DeviceInfo& device);

inline bool is_quantised(DType type) { return info(type).block_elems > 1; }

/// Lays arrays out in memory from a base on, each at a multiple of 64 bytes; with a null base it only counts.
class MatmulLayout {
 public:
  explicit MatmulLayout(std::byte* base) : base_(base) {}

  template <class Element>
  void place(Element*& pointer, std::int64_t elems) {
    pointer = base_ == nullptr ? nullptr : reinterpret_cast<Element*>(base_ + used_);
    used_ += (static_cast<std::size_t>(elems) * sizeof(Element) + 63) / 64 * 64;
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

/// The activations of a call as the bodies read them, in its workspace.
struct MatmulInputs {
  QuantisedActivations quantised{};
  PlainActivations plain{};
  std::size_t bytes = 0;

  MatmulInputs(std::int64_t tokens, std::int64_t k, const QuantisedBody& quantised_body, const PlainBody& plain_body,
               std::byte* base) {
    MatmulLayout layout(base);
    const std::int64_t rows = divide_up(k, packed::panel_columns) * tokens;
    layout.place(quantised.quants, rows * packed::panel_columns);
    layout.place(quantised.scales, rows * packed::panel_blocks);
    layout.place(quantised.sums, rows * packed::panel_blocks);
    layout.place(quantised.negative_sums, rows * packed::panel_blocks);
    layout.place(quantised.half_sums, rows * 2 * packed::panel_blocks);
    layout.place(quantised.negative_half_sums, rows * 2 * packed::panel_blocks);
    if (quantised_body.wide) {
      layout.place(quantised.wide_quants, rows * packed::panel_columns);
      layout.place(quantised.half_pairs, rows * 2 * packed::panel_blocks);
    }
    const std::int64_t elems = round_up(k, packed::plain_panel_columns) * tokens;
    layout.place(plain.values, elems);
    if (plain_body.bfloats) {
      layout.place(plain.bfloats, elems);
    }
    bytes = layout.used();
  }

  /// The same memory from token `first` on, as the activations of a product of its own.
  [[nodiscard]] MatmulInputs from(std::int64_t first, std::int64_t k) const {
    MatmulInputs rest = *this;
    const std::int64_t rows = divide_up(k, packed::panel_columns) * first;
    rest.quantised.quants += rows * packed::panel_columns;
    rest.quantised.scales += rows * packed::panel_blocks;
    rest.quantised.sums += rows * packed::panel_blocks;
    rest.quantised.negative_sums += rows * packed::panel_blocks;
    rest.quantised.half_sums += rows * 2 * packed::panel_blocks;
    rest.quantised.negative_half_sums += rows * 2 * packed::panel_blocks;
    if (rest.quantised.wide_quants != nullptr) {
      rest.quantised.wide_quants += rows * packed::panel_columns;
      rest.quantised.half_pairs += rows * 2 * packed::panel_blocks;
    }
    const std::int64_t elems = round_up(k, packed::plain_panel_columns) * first;
    rest.plain.values += elems;
    if (rest.plain.bfloats != nullptr) {
      rest.plain.bfloats += elems;
    }
    return rest;
  }
};

/// A row of the activations of a product of `rows` rows.
struct QuantisedRow {
  const QuantisedActivations& all;
  std::int64_t rows;
  std::int64_t row;
};

/// Copies a row of k elements to another product's activations.
inline void copy_quantised(const QuantisedRow& from, const QuantisedRow& to, std::int64_t k) {
  const auto copy = [&](auto* source, auto* target, std::int64_t panel_elems) {
    for (std::int64_t panel = 0; source != nullptr && panel * packed::panel_columns < k; ++panel) {
      std::memcpy(target + (panel * to.rows + to.row) * panel_elems, source + (panel * from.rows + from.row) * panel_elems,
                  static_cast<std::size_t>(panel_elems) * sizeof *source);
    }
  };
  copy(from.all.quants, to.all.quants, packed::panel_columns);
  copy(from.all.scales, to.all.scales, packed::panel_blocks);
  copy(from.all.sums, to.all.sums, packed::panel_blocks);
  copy(from.all.negative_sums, to.all.negative_sums, packed::panel_blocks);
  copy(from.all.half_sums, to.all.half_sums, 2 * packed::panel_blocks);
  copy(from.all.negative_half_sums, to.all.negative_half_sums, 2 * packed::panel_blocks);
  copy(from.all.wide_quants, to.all.wide_quants, packed::panel_columns);
  copy(from.all.half_pairs, to.all.half_pairs, 2 * packed::panel_blocks);
}

}  // namespace rocmforge
