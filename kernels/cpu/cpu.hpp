#pragma once
// The CPU backend's kernels, one file a family; the contracts stand in kernels/kernels.hpp.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"

namespace gleaner::cpu {

void select(std::span<const float> x, std::uint32_t k, Selection& out);
void select_segments(std::span<const float> x, std::span<const std::size_t> offsets, std::span<const std::uint32_t> ks,
                     SegmentSelection& out);
void accumulate_and_select(std::span<const float> update, std::span<float> residual, std::uint32_t k, Selection& out);
void subtract_and_select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                         std::uint32_t k, Selection& out);
void select_integers(std::span<const std::int64_t> x, std::uint32_t k, std::vector<std::uint32_t>& indices);

void take_out(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent);
void put_back(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent);
void gather(std::span<const float> x, std::span<const std::uint32_t> indices, std::span<float> values);
void scatter_add(std::span<std::int64_t> sum, std::span<const std::uint32_t> indices, std::span<const float> values,
                 std::uint32_t weight, int grid_exponent);
void scatter_add_many(std::span<std::int64_t> sum, std::uint32_t first, std::span<const WeightedUpdate> updates,
                      int grid_exponent);
void dense_add(std::span<std::int64_t> sum, std::span<const float> values, std::uint32_t weight, int grid_exponent);

std::uint64_t apply_patch(std::span<float> model, std::span<const std::uint32_t> indices, std::span<const float> u,
                          std::uint64_t hash);
std::uint64_t model_hash(std::span<const float> model);
std::uint64_t range_hash(std::span<const float> range, std::uint32_t first);

}  // namespace gleaner::cpu
