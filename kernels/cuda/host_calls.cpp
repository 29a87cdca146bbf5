#include <algorithm>
#include <bit>
#include <memory>

#include "kernels/cuda/host_table.hpp"

namespace gleaner::cuda {

namespace {

// What is changed in place stays as it was unless all of it has come: a call that fails is done again elsewhere.
template <class T>
class Fetched {
 public:
  static Result<Fetched> from(Engine& engine, const Buffer<T>& buffer, std::span<T> to) {
    Fetched fetched(to);
    GLEANER_TRY(engine.download(buffer, std::span(fetched.memory_.get(), to.size())));
    return fetched;
  }
  void keep() const { std::copy_n(memory_.get(), to_.size(), to_.begin()); }

 private:
  explicit Fetched(std::span<T> to) : to_(to), memory_(std::make_unique_for_overwrite<T[]>(to.size())) {}

  std::span<T> to_;
  std::unique_ptr<T[]> memory_;
};

template <class T>
Status fetch_into(Engine& engine, const Buffer<T>& buffer, std::span<T> to) {
  GLEANER_ASSIGN(const auto fetched, Fetched<T>::from(engine, buffer, to));
  fetched.keep();
  return {};
}

Status fetch(Engine& engine, const DeviceSelection& selection, Selection& out) {
  RowReport report;
  GLEANER_TRY(engine.download(selection.reports, std::span(&report, 1)));
  out.indices.resize(report.selected);
  out.values.resize(report.selected);
  out.threshold = std::bit_cast<float>(report.threshold_bits);
  out.squared_norm = report.squared_norm;
  out.non_finite_index = report.non_finite == kNoIndex ? Selection::kAllFinite : report.non_finite;
  GLEANER_TRY(engine.download(selection.indices, std::span(out.indices)));
  return engine.download(selection.values, std::span(out.values));
}

Status select_formed(Engine& engine, Form form, const HostVectors& x, const Rows& rows, Selection& out) {
  DeviceSelection selection;
  GLEANER_ASSIGN(const Buffer<float> update, engine.uploaded(x.update));
  if (form == Form::as_it_is) {
    GLEANER_TRY(engine.select(rows, update, selection));
    return fetch(engine, selection, out);
  }
  Buffer<float> formed;
  if (form == Form::add) {
    GLEANER_ASSIGN(formed, engine.uploaded(std::span<const float>(x.target)));
    GLEANER_TRY(engine.accumulate_and_select(rows, update, formed, selection));
  } else {
    GLEANER_ASSIGN(const Buffer<float> tracked, engine.uploaded(x.tracked));
    GLEANER_ASSIGN(formed, engine.allocate<float>(x.target.size()));
    GLEANER_TRY(engine.subtract_and_select(rows, update, tracked, formed, selection));
  }
  GLEANER_ASSIGN(const auto fetched, Fetched<float>::from(engine, formed, x.target));
  GLEANER_TRY(fetch(engine, selection, out));
  fetched.keep();
  return {};
}

}  // namespace

Status select_on_host(Engine& engine, Form form, const HostVectors& x, std::uint32_t k, Selection& out) {
  GLEANER_CHECK(x.update.size() < kNoIndex);
  const std::uint32_t sizes[] = {static_cast<std::uint32_t>(x.update.size())};
  GLEANER_ASSIGN(const Rows rows, engine.rows(sizes, std::span(&k, 1)));
  return select_formed(engine, form, x, rows, out);
}

Status select_integers_on_host(Engine& engine, std::span<const std::int64_t> x, std::uint32_t k,
                               std::vector<std::uint32_t>& indices) {
  GLEANER_CHECK(x.size() < kNoIndex);
  const std::uint32_t sizes[] = {static_cast<std::uint32_t>(x.size())};
  GLEANER_ASSIGN(const Rows rows, engine.rows(sizes, std::span(&k, 1)));
  GLEANER_ASSIGN(const Buffer<std::int64_t> values, engine.uploaded(x));
  DeviceSelection selection;
  GLEANER_TRY(engine.select_integers(rows, values, selection));
  RowReport report;
  GLEANER_TRY(engine.download(selection.reports, std::span(&report, 1)));
  indices.resize(report.selected);
  return engine.download(selection.indices, std::span(indices));
}

Status move_on_host(Engine& engine, float sign, std::span<float> residual, std::span<const std::uint32_t> indices,
                    std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  GLEANER_ASSIGN(const Buffer<float> entries, engine.uploaded(std::span<const float>(residual)));
  GLEANER_ASSIGN(const auto places, engine.uploaded(indices));
  GLEANER_ASSIGN(const auto moved, engine.uploaded(sent));
  GLEANER_TRY(sign < 0.0F ? engine.take_out(places, moved, entries) : engine.put_back(places, moved, entries));
  return fetch_into(engine, entries, residual);
}

Status scatter_add_on_host(Engine& engine, std::span<std::int64_t> sum, const HostUpdates& host, int grid_exponent) {
  GLEANER_ASSIGN(const auto total, engine.uploaded(std::span<const std::int64_t>(sum)));
  GLEANER_ASSIGN(const Updates updates, engine.updates(host));
  GLEANER_TRY(engine.scatter_add(updates, grid_exponent, total));
  return fetch_into(engine, total, sum);
}

Status dense_add_on_host(Engine& engine, std::span<std::int64_t> sum, std::span<const float> values,
                         std::uint32_t weight, int grid_exponent) {
  GLEANER_ASSIGN(const auto total, engine.uploaded(std::span<const std::int64_t>(sum)));
  GLEANER_ASSIGN(const auto added, engine.uploaded(values));
  GLEANER_TRY(engine.dense_add(added, weight, grid_exponent, total));
  return fetch_into(engine, total, sum);
}

Status apply_patch_on_host(Engine& engine, std::span<float> model, std::span<const std::uint32_t> indices,
                           std::span<const float> u, std::uint64_t& hash) {
  GLEANER_ASSIGN(const auto weights, engine.uploaded(std::span<const float>(model)));
  GLEANER_ASSIGN(const auto places, engine.uploaded(indices));
  GLEANER_ASSIGN(const auto steps, engine.uploaded(u));
  GLEANER_ASSIGN(const auto sum, engine.uploaded(std::span<const std::uint64_t>(&hash, 1)));
  GLEANER_TRY(engine.apply_patch(weights, places, steps, sum));
  GLEANER_ASSIGN(const auto patched, Fetched<float>::from(engine, weights, model));
  GLEANER_TRY(engine.download(sum, std::span(&hash, 1)));
  patched.keep();
  return {};
}

Status range_hash_on_host(Engine& engine, std::span<const float> range, std::uint32_t first, std::uint64_t& hash) {
  GLEANER_ASSIGN(const auto weights, engine.uploaded(range));
  GLEANER_ASSIGN(const auto sum, engine.allocate<std::uint64_t>(1));
  GLEANER_TRY(engine.range_hash(weights, first, sum));
  return engine.download(sum, std::span(&hash, 1));
}

Status gather_on_host(Engine& engine, std::span<const float> x, std::span<const std::uint32_t> indices,
                      std::span<float> values) {
  GLEANER_ASSIGN(const auto from, engine.uploaded(x));
  GLEANER_ASSIGN(const auto places, engine.uploaded(indices));
  GLEANER_ASSIGN(const auto to, engine.allocate<float>(values.size()));
  GLEANER_TRY(engine.gather(from, places, to));
  return engine.download(to, values);
}

Status select_segments_on_host(Engine& engine, std::span<const float> x, std::span<const std::size_t> offsets,
                               std::span<const std::uint32_t> ks, SegmentSelection& out) {
  GLEANER_CHECK(std::ranges::is_sorted(offsets) && x.size() < kNoIndex);
  out = {.begins = {0}, .parallel = out.parallel};
  std::vector<std::uint32_t> sizes;
  for (std::size_t s = 0; s < ks.size(); ++s) sizes.push_back(static_cast<std::uint32_t>(offsets[s + 1] - offsets[s]));
  GLEANER_ASSIGN(const Rows rows, engine.rows(sizes, ks));
  GLEANER_ASSIGN(const auto values, engine.uploaded(x));
  DeviceSelection selection;
  GLEANER_TRY(engine.select(rows, values, selection));
  std::vector<RowReport> reports(ks.size());
  GLEANER_TRY(engine.download(selection.reports, std::span(reports)));
  for (std::size_t s = 0; s < ks.size(); ++s) {
    if (reports[s].non_finite != kNoIndex) {
      out = {.non_finite_index = offsets[s] + reports[s].non_finite, .parallel = out.parallel};
      return {};
    }
    out.begins.push_back(out.begins.back() + reports[s].selected);
    out.thresholds.push_back(std::bit_cast<float>(reports[s].threshold_bits));
    out.squared_norms.push_back(reports[s].squared_norm);
  }
  // Where all are finite, every row selects all that it may: the rows lie one after another without gaps.
  GLEANER_CHECK(out.begins.back() == rows.outputs());
  out.indices.resize(rows.outputs());
  out.values.resize(rows.outputs());
  GLEANER_TRY(engine.download(selection.indices, std::span(out.indices)));
  GLEANER_TRY(engine.download(selection.values, std::span(out.values)));
  for (std::size_t s = 0; s < ks.size(); ++s) {
    for (std::size_t j = out.begins[s]; j < out.begins[s + 1]; ++j) {
      out.indices[j] += static_cast<std::uint32_t>(offsets[s]);
    }
  }
  return {};
}

Status scatter_add_many_on_host(Engine& engine, std::span<std::int64_t> sum, std::uint32_t first,
                                std::span<const WeightedUpdate> updates, int grid_exponent) {
  std::vector<std::uint64_t> begins = {0};
  std::vector<std::uint32_t> weights;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (const WeightedUpdate& update : updates) {
    GLEANER_CHECK(update.indices.size() == update.values.size());
    for (std::size_t j = 0; j < update.indices.size(); ++j) {
      if (update.indices[j] < first || update.indices[j] - first >= sum.size()) continue;
      indices.push_back(update.indices[j] - first);
      values.push_back(update.values[j]);
    }
    begins.push_back(indices.size());
    weights.push_back(update.weight);
  }
  return scatter_add_on_host(engine, sum, {.first = begins, .weights = weights, .indices = indices, .values = values},
                             grid_exponent);
}

}  // namespace gleaner::cuda
