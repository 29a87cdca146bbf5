#include "kernels/cuda/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/log.hpp"
#include "kernels/arithmetic.hpp"

namespace gleaner::cuda {

Engine::Engine(Driver& driver, const EngineOptions& options)
    : driver_(driver), pool_(std::make_shared<Pool>(driver, options.budget_bytes)) {}

Result<std::unique_ptr<Engine>> Engine::create(Driver& driver, const EngineOptions& options) {
  std::unique_ptr<Engine> engine(new Engine(driver, options));
  GLEANER_ASSIGN(engine->main_, make_stream(driver));
  GLEANER_ASSIGN(engine->side_, make_stream(driver));
  GLEANER_ASSIGN(engine->formed_, make_event(driver));
  GLEANER_ASSIGN(engine->summed_, make_event(driver));
  GLEANER_ASSIGN(engine->stage_, Stage::create(driver, options.staging_bytes));
  return engine;
}

// Even after a failure: what was started before it may still use pinned memory and the pool.
Engine::~Engine() {
  for (const Handle* stream : {&side_, &main_}) {
    if (stream->get() == nullptr) continue;
    if (const auto code = driver_.wait_for(stream->get()); code != 0) {
      log_debug("{}", driver_error(driver_, code, "finishing its work").message());
    }
  }
}

Status Engine::usable() const {
  if (lost_) return fail(*lost_);
  return {};
}

Status Engine::fits(std::size_t part, std::size_t whole) const {
  if (part <= whole) return {};
  return fail(ErrorCode::fatal, fmt::format("GPU: {} entries do not fit into a buffer of {}", part, whole));
}

Status Engine::done(Driver::Code code, std::string_view doing) {
  GLEANER_TRY(usable());
  if (code == 0) return {};
  lost_ = driver_error(driver_, code, doing);
  return fail(*lost_);
}

Status Engine::wait() { return done(driver_.wait_for(main_.get()), "finishing its work"); }

Result<Handle> Engine::capture(const std::function<Status()>& enqueue) {
  GLEANER_TRY(usable());
  GLEANER_TRY(done(driver_.begin_capture(main_.get()), "beginning a graph"));
  const Status enqueued = enqueue();
  void* graph = nullptr;
  const auto code = driver_.end_capture(main_.get(), graph);
  Handle handle = graph == nullptr ? Handle() : Handle(driver_, graph, &Driver::destroy_graph);
  if (!enqueued) return fail(enqueued.error());
  GLEANER_TRY(done(code, "making a graph"));
  return handle;
}

Result<Memory> Engine::allocate_bytes(std::size_t bytes) {
  GLEANER_TRY(usable());
  auto memory = pool_->allocate(bytes);
  if (!memory && pool_->lost()) lost_ = memory.error();
  return memory;
}

Status Engine::upload_bytes(const void* from, void* to, std::size_t bytes) {
  GLEANER_TRY(usable());
  auto status = stage_->upload(from, to, bytes, main_.get());
  if (!status) lost_ = status.error();
  return status;
}

Status Engine::download_bytes(const void* from, void* to, std::size_t bytes) {
  GLEANER_TRY(usable());
  auto status = stage_->download(from, to, bytes, main_.get());
  if (!status) lost_ = status.error();
  return status;
}

Status Engine::fill_bytes(void* memory, std::uint8_t byte, std::size_t bytes) {
  GLEANER_TRY(usable());
  if (bytes == 0) return {};
  return done(driver_.fill(memory, byte, bytes, main_.get()), "filling memory");
}

unsigned Engine::blocks_for(std::uint64_t threads) const {
  const std::uint64_t wanted = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 1, driver_.resident_blocks()));
}

unsigned Engine::blocks_for_tiles(std::uint32_t tiles) const {
  return std::clamp(tiles, 1U, driver_.resident_blocks());
}

Status Engine::move_selected(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& sent,
                             const Buffer<float>& residual, float sign) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(rows.outputs(), std::min(selection.indices.size(), sent.size())));
  GLEANER_TRY(fits(rows.count(), selection.reports.size()));
  GLEANER_TRY(fits(rows.entries(), residual.size()));
  if (rows.outputs() == 0) return {};
  return done(driver_.launches().move_selected(main_.get(), blocks_for(rows.outputs()), sign, rows.table_,
                                               selection.reports.data(), residual.data(), selection.indices.data(),
                                               sent.data()),
              "moving what was selected");
}

Status Engine::take_out(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& sent,
                        const Buffer<float>& residual) {
  return move_selected(rows, selection, sent, residual, -1.0F);
}

Status Engine::put_back(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& sent,
                        const Buffer<float>& residual) {
  return move_selected(rows, selection, sent, residual, 1.0F);
}

Status Engine::move_out(const Buffer<std::uint32_t>& indices, const Buffer<float>& sent, const Buffer<float>& residual,
                        float sign) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(indices.size(), sent.size()));
  if (indices.size() == 0) return {};
  return done(driver_.launches().move_out(main_.get(), blocks_for(indices.size()), sign, residual.data(),
                                          indices.data(), sent.data(), indices.size()),
              "moving what was sent");
}

Status Engine::take_out(const Buffer<std::uint32_t>& indices, const Buffer<float>& sent,
                        const Buffer<float>& residual) {
  return move_out(indices, sent, residual, -1.0F);
}

Status Engine::put_back(const Buffer<std::uint32_t>& indices, const Buffer<float>& sent,
                        const Buffer<float>& residual) {
  return move_out(indices, sent, residual, 1.0F);
}

namespace {

Status check_exponent(int grid_exponent) {
  if (std::abs(grid_exponent) <= kGridExponentMax) return {};
  return fail(ErrorCode::fatal,
              fmt::format("GPU: a grid exponent of {}; at most {} either way", grid_exponent, kGridExponentMax));
}

}  // namespace

Result<Updates> Engine::updates(const HostUpdates& host) {
  GLEANER_TRY(usable());
  const bool whole = !host.first.empty() && host.first.size() == host.weights.size() + 1 && host.first.front() == 0 &&
                     host.first.back() == host.indices.size() && host.indices.size() == host.values.size() &&
                     std::is_sorted(host.first.begin(), host.first.end());
  if (!whole || host.weights.size() >= kNoIndex) {
    return fail(ErrorCode::fatal, "GPU: updates whose lengths do not agree");
  }
  Updates updates;
  GLEANER_ASSIGN(updates.first_, uploaded(host.first));
  GLEANER_ASSIGN(updates.weights_, uploaded(host.weights));
  GLEANER_ASSIGN(updates.indices_, uploaded(host.indices));
  GLEANER_ASSIGN(updates.values_, uploaded(host.values));
  updates.table_ = {.updates = static_cast<std::uint32_t>(host.weights.size()),
                    .entries = host.indices.size(),
                    .first = updates.first_.data(),
                    .weight = updates.weights_.data(),
                    .indices = updates.indices_.data(),
                    .values = updates.values_.data()};
  return updates;
}

Status Engine::scatter_add(const Updates& updates, int grid_exponent, const Buffer<std::int64_t>& sum) {
  GLEANER_TRY(usable());
  GLEANER_TRY(check_exponent(grid_exponent));
  if (updates.table_.entries == 0) return {};
  return done(driver_.launches().scatter_add(main_.get(), blocks_for(updates.table_.entries), sum.data(),
                                             updates.table_, power_of_two(grid_exponent)),
              "adding updates");
}

Status Engine::scatter_selected(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& values,
                                const Buffer<std::uint32_t>& weights, int grid_exponent,
                                const Buffer<std::int64_t>& sum) {
  GLEANER_TRY(usable());
  GLEANER_TRY(check_exponent(grid_exponent));
  GLEANER_TRY(fits(rows.outputs(), std::min(selection.indices.size(), values.size())));
  GLEANER_TRY(fits(rows.count(), std::min(selection.reports.size(), weights.size())));
  GLEANER_TRY(fits(rows.longest_, sum.size()));
  if (rows.outputs() == 0) return {};
  const UpdateTable table = {.updates = rows.count(),
                             .entries = rows.outputs(),
                             .first = rows.table_.first_output,
                             .weight = weights.data(),
                             .indices = selection.indices.data(),
                             .values = values.data(),
                             .reports = selection.reports.data()};
  return done(driver_.launches().scatter_add(main_.get(), blocks_for(table.entries), sum.data(), table,
                                             power_of_two(grid_exponent)),
              "adding selections");
}

Status Engine::dense_add(const Buffer<float>& values, std::uint32_t weight, int grid_exponent,
                         const Buffer<std::int64_t>& sum) {
  GLEANER_TRY(usable());
  GLEANER_TRY(check_exponent(grid_exponent));
  GLEANER_TRY(fits(values.size(), sum.size()));
  if (values.size() == 0) return {};
  return done(driver_.launches().dense_add(main_.get(), blocks_for(values.size()), sum.data(), values.data(),
                                           values.size(), weight, power_of_two(grid_exponent)),
              "adding a vector");
}

Status Engine::apply_patch(const Buffer<float>& model, const Buffer<std::uint32_t>& indices, const Buffer<float>& u,
                           const Buffer<std::uint64_t>& hash) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(indices.size(), u.size()));
  GLEANER_TRY(fits(1, hash.size()));
  if (indices.size() == 0) return {};
  return done(driver_.launches().apply_patch(main_.get(), blocks_for(indices.size()), model.data(), indices.data(),
                                             u.data(), indices.size(), hash.data()),
              "applying a patch");
}

Status Engine::range_hash(const Buffer<float>& range, std::uint32_t first, const Buffer<std::uint64_t>& hash) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(1, hash.size()));
  GLEANER_TRY(fill_with_zeros(hash));
  if (range.size() == 0) return {};
  return done(driver_.launches().range_hash(main_.get(), blocks_for(range.size()), range.data(), first, range.size(),
                                            hash.data()),
              "hashing a model");
}

Status Engine::gather(const Buffer<float>& x, const Buffer<std::uint32_t>& indices, const Buffer<float>& values) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(indices.size(), values.size()));
  if (indices.size() == 0) return {};
  return done(driver_.launches().gather(main_.get(), blocks_for(indices.size()), x.data(), indices.data(),
                                        indices.size(), values.data()),
              "gathering entries");
}

}  // namespace gleaner::cuda
