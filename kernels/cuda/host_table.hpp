#pragma once
// The kernel table on host memory: copies in, runs, copies out. One call at a time. The table's functions return no
// error: what a GPU that fails or is full cannot do is done by another table, on inputs that are still as they were.

#include <mutex>

#include "common/check.hpp"
#include "kernels/cuda/engine.hpp"
#include "kernels/kernels.hpp"

namespace gleaner::cuda {

// Form::add adds update to target, Form::subtract makes target from update and tracked. An Error of any of these leaves
// what is changed in place as it was; a selection that is only an output is then in any state.
struct HostVectors {
  std::span<const float> update;
  std::span<const float> tracked;
  std::span<float> target;
};
Status select_on_host(Engine& engine, Form form, const HostVectors& x, std::uint32_t k, Selection& out);
Status select_integers_on_host(Engine& engine, std::span<const std::int64_t> x, std::uint32_t k,
                               std::vector<std::uint32_t>& indices);
Status move_on_host(Engine& engine, float sign, std::span<float> residual, std::span<const std::uint32_t> indices,
                    std::span<const float> sent);
Status scatter_add_on_host(Engine& engine, std::span<std::int64_t> sum, const HostUpdates& updates, int grid_exponent);
Status dense_add_on_host(Engine& engine, std::span<std::int64_t> sum, std::span<const float> values,
                         std::uint32_t weight, int grid_exponent);
Status apply_patch_on_host(Engine& engine, std::span<float> model, std::span<const std::uint32_t> indices,
                           std::span<const float> u, std::uint64_t& hash);
Status range_hash_on_host(Engine& engine, std::span<const float> range, std::uint32_t first, std::uint64_t& hash);
Status gather_on_host(Engine& engine, std::span<const float> x, std::span<const std::uint32_t> indices,
                      std::span<float> values);
Status select_segments_on_host(Engine& engine, std::span<const float> x, std::span<const std::size_t> offsets,
                               std::span<const std::uint32_t> ks, SegmentSelection& out);
Status scatter_add_many_on_host(Engine& engine, std::span<std::int64_t> sum, std::uint32_t first,
                                std::span<const WeightedUpdate> updates, int grid_exponent);

struct SharedEngine {
  std::mutex mutex;
  std::unique_ptr<Engine> engine;
};

// Access::shared() is the engine behind the table, which outlives it. Access::after_failure(error) is the table that
// does what failed; it is called with the engine locked.
template <class Access>
struct HostTable {
  template <class Call, class Again>
  static void run(Call call, Again again) {
    SharedEngine& shared = Access::shared();
    const KernelTable* other = nullptr;
    {
      const std::lock_guard lock(shared.mutex);
      if (const Status status = call(*shared.engine); !status) other = &Access::after_failure(status.error());
    }
    if (other != nullptr) again(*other);
  }

  static void select(std::span<const float> x, std::uint32_t k, Selection& out) {
    run([&](Engine& engine) { return select_on_host(engine, Form::as_it_is, {.update = x}, k, out); },
        [&](const KernelTable& other) { other.select(x, k, out); });
  }
  static void accumulate_and_select(std::span<const float> update, std::span<float> residual, std::uint32_t k,
                                    Selection& out) {
    GLEANER_CHECK(update.size() == residual.size());
    const HostVectors x = {.update = update, .target = residual};
    run([&](Engine& engine) { return select_on_host(engine, Form::add, x, k, out); },
        [&](const KernelTable& other) { other.accumulate_and_select(update, residual, k, out); });
  }
  static void subtract_and_select(std::span<const float> update, std::span<const float> tracked,
                                  std::span<float> candidate, std::uint32_t k, Selection& out) {
    GLEANER_CHECK(update.size() == candidate.size() && tracked.size() == candidate.size());
    const HostVectors x = {.update = update, .tracked = tracked, .target = candidate};
    run([&](Engine& engine) { return select_on_host(engine, Form::subtract, x, k, out); },
        [&](const KernelTable& other) { other.subtract_and_select(update, tracked, candidate, k, out); });
  }
  static void take_out(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
    GLEANER_CHECK(indices.size() == sent.size());
    run([&](Engine& engine) { return move_on_host(engine, -1.0F, residual, indices, sent); },
        [&](const KernelTable& other) { other.take_out(residual, indices, sent); });
  }
  static void put_back(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
    GLEANER_CHECK(indices.size() == sent.size());
    run([&](Engine& engine) { return move_on_host(engine, 1.0F, residual, indices, sent); },
        [&](const KernelTable& other) { other.put_back(residual, indices, sent); });
  }
  static void scatter_add(std::span<std::int64_t> sum, std::span<const std::uint32_t> indices,
                          std::span<const float> values, std::uint32_t weight, int grid_exponent) {
    GLEANER_CHECK(indices.size() == values.size());
    const std::uint64_t first[] = {0, indices.size()};
    const std::uint32_t weights[] = {weight};
    const HostUpdates updates = {.first = first, .weights = weights, .indices = indices, .values = values};
    run([&](Engine& engine) { return scatter_add_on_host(engine, sum, updates, grid_exponent); },
        [&](const KernelTable& other) { other.scatter_add(sum, indices, values, weight, grid_exponent); });
  }
  static void dense_add(std::span<std::int64_t> sum, std::span<const float> values, std::uint32_t weight,
                        int grid_exponent) {
    GLEANER_CHECK(sum.size() == values.size());
    run([&](Engine& engine) { return dense_add_on_host(engine, sum, values, weight, grid_exponent); },
        [&](const KernelTable& other) { other.dense_add(sum, values, weight, grid_exponent); });
  }
  static void select_integers(std::span<const std::int64_t> x, std::uint32_t k, std::vector<std::uint32_t>& indices) {
    run([&](Engine& engine) { return select_integers_on_host(engine, x, k, indices); },
        [&](const KernelTable& other) { other.select_integers(x, k, indices); });
  }
  static std::uint64_t apply_patch(std::span<float> model, std::span<const std::uint32_t> indices,
                                   std::span<const float> u, std::uint64_t hash) {
    GLEANER_CHECK(indices.size() == u.size());
    std::uint64_t after = hash;
    run([&](Engine& engine) { return apply_patch_on_host(engine, model, indices, u, after); },
        [&](const KernelTable& other) { after = other.apply_patch(model, indices, u, hash); });
    return after;
  }
  static std::uint64_t model_hash(std::span<const float> model) { return range_hash(model, 0); }
  static std::uint64_t range_hash(std::span<const float> range, std::uint32_t first) {
    std::uint64_t hash = 0;
    run([&](Engine& engine) { return range_hash_on_host(engine, range, first, hash); },
        [&](const KernelTable& other) { hash = other.range_hash(range, first); });
    return hash;
  }
  static void gather(std::span<const float> x, std::span<const std::uint32_t> indices, std::span<float> values) {
    GLEANER_CHECK(indices.size() == values.size());
    run([&](Engine& engine) { return gather_on_host(engine, x, indices, values); },
        [&](const KernelTable& other) { other.gather(x, indices, values); });
  }
  static void select_segments(std::span<const float> x, std::span<const std::size_t> offsets,
                              std::span<const std::uint32_t> ks, SegmentSelection& out) {
    GLEANER_CHECK(offsets.size() == ks.size() + 1 && offsets.front() == 0 && offsets.back() == x.size());
    run([&](Engine& engine) { return select_segments_on_host(engine, x, offsets, ks, out); },
        [&](const KernelTable& other) { other.select_segments(x, offsets, ks, out); });
  }
  static void scatter_add_many(std::span<std::int64_t> sum, std::uint32_t first,
                               std::span<const WeightedUpdate> updates, int grid_exponent) {
    run([&](Engine& engine) { return scatter_add_many_on_host(engine, sum, first, updates, grid_exponent); },
        [&](const KernelTable& other) { other.scatter_add_many(sum, first, updates, grid_exponent); });
  }

  static constexpr KernelTable table(std::string_view name) {
    return {.name = name,
            .select = select,
            .select_segments = select_segments,
            .accumulate_and_select = accumulate_and_select,
            .subtract_and_select = subtract_and_select,
            .take_out = take_out,
            .put_back = put_back,
            .gather = gather,
            .scatter_add = scatter_add,
            .dense_add = dense_add,
            .scatter_add_many = scatter_add_many,
            .select_integers = select_integers,
            .apply_patch = apply_patch,
            .model_hash = model_hash,
            .range_hash = range_hash};
  }
};

}  // namespace gleaner::cuda
